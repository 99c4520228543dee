"""Changes of InterPodAffinity's counts on hypothetical nodes.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go (updateWithPod).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import Cycle, NodeView
from mooring.objects.pod import Affinity
from mooring.plugins.inter_pod_affinity.domains import WeightedKey
from mooring.state import PodInfo
from mooring.state.tables.counters import CounterKey, CounterKeys
from mooring.state.tables.pod_terms import Term, compile_terms

Sums = npt.NDArray[np.int64]


class RequiredKeys(NamedTuple):
    """The pods that the required terms select: all affinity terms, and each anti-affinity term."""

    all_affinity: CounterKey
    #: By topology key.
    anti_affinity: dict[str, CounterKeys]

    @classmethod
    def of(cls, all_affinity: CounterKey, anti_affinity: Iterable[WeightedKey]) -> RequiredKeys:
        """Groups the anti-affinity terms by topology key."""
        by_key: dict[str, list[CounterKey]] = {}
        for topology_key, pods, _ in anti_affinity:
            by_key.setdefault(topology_key, []).append(pods)
        return cls(all_affinity, {key: CounterKeys(tuple(pods)) for key, pods in by_key.items()})


class CountDeltas:
    """The changes of counts by the added and removed pods of a view's m nodes.

    Each is int64 shape (m,).
    """

    def __init__(self, cycle: Cycle, keys: RequiredKeys, nodes: NodeView) -> None:
        self._keys = keys
        self._nodes = nodes
        self._pod = cycle.pod.metadata
        self._namespace_labels = cycle.snapshot.namespaces.labels(self._pod.namespace)

    def affinity(self) -> Sums:
        """Returns the change of the pods that match all affinity terms of the incoming pod."""
        return self._nodes.change_of(self._keys.all_affinity)

    def anti_affinity(self, topology_key: str) -> Sums:
        """Returns the change of the pods that match its anti-affinity terms with this key."""
        return self._nodes.change_of(self._keys.anti_affinity[topology_key])

    def existing(self, topology_key: str) -> Sums:
        """Returns the change of the pods whose anti-affinity with this key matches the pod."""

        def counts(pod: PodInfo) -> int:
            return sum(
                term.topology_key == topology_key for term in self._matching_anti_affinity(pod)
            )

        identity = (self._pod.namespace, frozenset(self._pod.labels.items()))
        return self._nodes.change(
            _once_per_template(counts), ("anti-affinity of others", topology_key, identity)
        )

    def added_keys(self) -> list[str]:
        """Returns the topology keys of added pods' anti-affinity that matches the incoming pod.

        Removed pods are in the state already, and so are their keys.
        """
        pods = (pod for of_node in self._nodes.added for pod in of_node)
        keys = (term.topology_key for pod in pods for term in self._matching_anti_affinity(pod))
        return list(dict.fromkeys(keys))

    def _matching_anti_affinity(self, pod: PodInfo) -> list[Term]:
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
    """Caches ``counts`` by namespace, labels and affinity object, which pods of a template share.

    The count of a pod without affinity is 0.
    """
    #: The value includes the pod: it keeps the objects alive whose ids are the key.
    cache: dict[tuple[str, int, int], tuple[PodInfo, int]] = {}

    def count(pod: PodInfo) -> int:
        if pod.pod.spec.affinity is None:
            return 0  # most pods, and this is called for each possible victim of preemption
        metadata = pod.metadata
        key = (metadata.namespace, id(metadata.labels), id(pod.spec.affinity))
        entry = cache.get(key)
        if entry is None:
            entry = cache[key] = pod, int(counts(pod))
        return entry[1]

    return count
