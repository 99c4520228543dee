"""How the counts of InterPodAffinity change in worlds with pods more or fewer.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go (updateWithPod).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import Cycle, NodeView
from mooring.objects.pod import Affinity
from mooring.plugins.inter_pod_affinity.domains import Wanted
from mooring.state import PodInfo
from mooring.state.tables.counters import CounterKey, CounterKeys
from mooring.state.tables.pod_terms import Term, compile_terms

Sums = npt.NDArray[np.int64]


class Asked(NamedTuple):
    """Which pods count for the new pod: for its affinity, and for each anti-affinity term."""

    together: CounterKey
    #: By topology key.
    anti_affinity: dict[str, CounterKeys]

    @classmethod
    def by(cls, together: CounterKey, anti_affinity: Iterable[Wanted]) -> Asked:
        """Returns the same, of terms."""
        by_key: dict[str, list[CounterKey]] = {}
        for topology_key, pods, _ in anti_affinity:
            by_key.setdefault(topology_key, []).append(pods)
        return cls(together, {key: CounterKeys(tuple(pods)) for key, pods in by_key.items()})


class Worlds:
    """What the pods that differ in each of m worlds of a view come to; int64 shape (m,) each."""

    def __init__(self, cycle: Cycle, asked: Asked, nodes: NodeView) -> None:
        self._asked = asked
        self._nodes = nodes
        self._pod = cycle.pod.metadata
        self._namespace_labels = cycle.snapshot.namespaces.labels(self._pod.namespace)

    def affinity(self) -> Sums:
        """Pods that all affinity terms of the new pod mean."""
        return self._nodes.change_of(self._asked.together)

    def anti_affinity(self, topology_key: str) -> Sums:
        """Pods that its anti-affinity terms with this key mean, once for each term."""
        return self._nodes.change_of(self._asked.anti_affinity[topology_key])

    def existing(self, topology_key: str) -> Sums:
        """Pods with anti-affinity terms with this key that mean the new pod, once for each."""

        def counts(pod: PodInfo) -> int:
            return sum(term.topology_key == topology_key for term in self._meaning(pod))

        about = (self._pod.namespace, frozenset(self._pod.labels.items()))
        return self._nodes.change(
            _once_per_template(counts), ("anti-affinity of others", topology_key, about)
        )

    def added_keys(self) -> list[str]:
        """The topology keys of the anti-affinity of pods that are added, if it means the new pod.

        Those that are removed were counted before, so their keys are known.
        """
        pods = (pod for of_world in self._nodes.added for pod in of_world)
        keys = (term.topology_key for pod in pods for term in self._meaning(pod))
        return list(dict.fromkeys(keys))

    def _meaning(self, pod: PodInfo) -> list[Term]:
        affinity = pod.spec.affinity
        if affinity is None or affinity.pod_anti_affinity is None:
            return []
        own = Affinity(pod_anti_affinity=affinity.pod_anti_affinity)
        return [
            term
            for term in compile_terms(pod.metadata.namespace, own).anti_affinity
            if term.matches(self._pod.namespace, self._namespace_labels, self._pod.labels)
        ]


def _once_per_template(counts: Callable[[PodInfo], int]) -> Callable[[PodInfo], int]:
    """The same, asking once for pods that share labels and affinity, as those of a template do.

    A pod without affinity counts for nothing.
    """
    #: The pod is kept with its answer: the ids of its parts are the key.
    known: dict[tuple[str, int, int], tuple[PodInfo, int]] = {}

    def count(pod: PodInfo) -> int:
        if pod.pod.spec.affinity is None:
            return 0  # most pods, and this is asked about each victim of a preemption
        metadata = pod.metadata
        key = (metadata.namespace, id(metadata.labels), id(pod.spec.affinity))
        found = known.get(key)
        if found is None:
            found = known[key] = pod, int(counts(pod))
        return found[1]

    return count
