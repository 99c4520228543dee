"""What can help a pod that its own or others' (anti-)affinity keeps from its nodes.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go (EventsToRegister,
isSchedulableAfterPodChange, isSchedulableAfterNodeChange). *Differs:* these wake a pod in some
cases in which upstream's leave it to the flush; each is told where it is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework.interface import Handle
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity.terms import (
    matches,
    matching_terms,
    meant_by_all,
    topology_keys,
)
from mooring.state import Cache, PodInfo, Snapshot
from mooring.state.tables.counters import CounterKey
from mooring.state.tables.pod_terms import PodTerms, compile_terms, terms_of


class _Waiting(NamedTuple):
    """A pod that waits, and whom its terms mean now."""

    pod: PodInfo
    terms: PodTerms
    together: CounterKey
    anti_affinity: tuple[CounterKey, ...]

    def is_near_to(self, other: Pod | None) -> bool:
        """Returns whether all of its affinity terms mean the other pod."""
        return other is not None and _means(self.together, other)

    @property
    def is_first(self) -> bool:
        """Whether it may be the first of its series: its affinity means itself."""
        return _means(self.together, self.pod.pod)


class Hints:
    """The events, each with a closer look at it."""

    def __init__(self, handle: Handle | None = None) -> None:
        """``handle`` tells of namespaces and of pods' terms; without one there are none."""
        self._handle = handle

    def events(self) -> list[ClusterEventWithHint]:
        """Pods come, go or change labels; nodes come or change labels."""
        comes_or_goes = ActionType.ADD | ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, comes_or_goes), self.after_pod_change, pure=True
            ),
            # Not pure: what changes may be the waiting pod itself.
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL), self.after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node), self.after_node_change, pure=True
            ),
        ]

    def after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Another pod is now where it must be, or no longer where it must not be."""
        if old is not None and new is not None and new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        if not all(each is None or _is_assigned_or_nominated(each) for each in (old, new)):
            return QueueingHint.SKIP
        snapshot = self._snapshot()
        waiting = _waiting(pod, snapshot)
        return _answer(
            bool(waiting.terms.problems)
            or _now_satisfies_affinity(waiting, old, new)
            or _no_longer_blocks(waiting, old, new, snapshot)
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """A node comes, or moves to where it may be better."""
        terms = terms_of(pod)
        if terms.problems:
            return QueueingHint.QUEUE
        near, far = topology_keys(terms.affinity), topology_keys(terms.anti_affinity)
        after = new.metadata.labels
        if old is None:
            # Differs: a pod without any terms may have been refused by those of pods on nodes.
            return _answer(bool(far) or not near or any(key in after for key in near))
        before = old.metadata.labels
        if any(key in after and before.get(key) != after[key] for key in near):
            return QueueingHint.QUEUE
        # Differs: likewise, so the keys of terms that mean the pod count as its own do.
        far += self._keys_of_others(pod)
        return _answer(any(key in before and before[key] != after.get(key) for key in far))

    def _keys_of_others(self, pod: PodInfo) -> list[str]:
        """Returns the topology keys of pods' anti-affinity that means the waiting pod."""
        metadata, snapshot = pod.metadata, self._snapshot()
        labels = snapshot.namespaces.labels(metadata.namespace)
        index = snapshot.terms.anti_affinity
        found = index.matching(metadata.namespace, labels, metadata.labels)
        return topology_keys(held.term for held in found)

    def _snapshot(self) -> Snapshot:
        if self._handle is None:
            return Cache().snapshot()
        found: Any = self._handle.snapshot
        assert isinstance(found, Snapshot)
        return found


def _waiting(pod: PodInfo, snapshot: Snapshot) -> _Waiting:
    """Differs: upstream asks namespace selectors of no labels here, and so misses pods."""
    terms, namespaces = terms_of(pod), snapshot.namespaces
    return _Waiting(
        pod,
        terms,
        meant_by_all(terms.affinity, namespaces),
        tuple(matching_terms(term, namespaces) for term in terms.anti_affinity),
    )


def _now_satisfies_affinity(waiting: _Waiting, old: Pod | None, new: Pod | None) -> bool:
    """Returns all affinity terms mean the pod now, and did not before.

    Differs: or it was the last one that they meant, and the waiting pod may be the first now.
    """
    was_near, is_near = waiting.is_near_to(old), waiting.is_near_to(new)
    if was_near == is_near:
        return False
    return is_near or waiting.is_first


def _no_longer_blocks(
    waiting: _Waiting, old: Pod | None, new: Pod | None, snapshot: Snapshot
) -> bool:
    """An anti-affinity term meant the pod and means it no more, or its own meant the waiting one.

    Differs: upstream wants all of several terms to have meant it, where one is enough to refuse.
    """
    if old is None:
        return False
    for key in waiting.anti_affinity:
        if _means(key, old) and (new is None or not _means(key, new)):
            return True
    if new is not None:
        return False
    namespace = waiting.pod.metadata.namespace
    labels: Mapping[str, str] = snapshot.namespaces.labels(namespace)
    terms: Iterable[Any] = compile_terms(old.metadata.namespace, old.spec.affinity).anti_affinity
    return any(term.matches(namespace, labels, waiting.pod.metadata.labels) for term in terms)


def _means(key: CounterKey, pod: Pod) -> bool:
    return matches(key, pod.metadata.namespace, pod.metadata.labels)


def _is_assigned_or_nominated(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
