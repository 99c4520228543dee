"""Queueing hints of InterPodAffinity.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go (EventsToRegister,
isSchedulableAfterPodChange, isSchedulableAfterNodeChange). *Differs:* these requeue a pod in some
cases in which upstream leaves it to the periodic flush; each is noted in the code.
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
    counter_key,
    counter_key_of_all,
    matches,
    topology_keys,
)
from mooring.state import PodInfo, Snapshot, empty_snapshot
from mooring.state.tables.counters import CounterKey
from mooring.state.tables.pod_terms import PodTerms, compile_terms, terms_of


class _UnschedulablePod(NamedTuple):
    """An unschedulable pod, and the pods that its terms select now."""

    pod: PodInfo
    terms: PodTerms
    all_affinity: CounterKey
    anti_affinity: tuple[CounterKey, ...]

    def has_affinity_to(self, other: Pod | None) -> bool:
        """Returns True if the other pod matches all of its affinity terms."""
        return other is not None and _matches_pod(self.all_affinity, other)

    @property
    def matches_itself(self) -> bool:
        """True if the pod matches its own affinity, so that it may be the first such pod."""
        return _matches_pod(self.all_affinity, self.pod.pod)


class Hints:
    """The events that may requeue a pod, with their hints."""

    def __init__(self, handle: Handle | None = None) -> None:
        """Reads namespaces and pods' terms through ``handle``; None = there are none."""
        self._handle = handle

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added, deleted and relabeled pods, and added and relabeled nodes."""
        add_or_delete = ActionType.ADD | ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, add_or_delete), self.after_pod_change, pure=True
            ),
            # Not pure: the changed pod may be the unschedulable pod itself.
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL), self.after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node), self.after_node_change, pure=True
            ),
        ]

    def after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queues if the change satisfies the affinity, or ends an anti-affinity conflict."""
        if old is not None and new is not None and new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        versions = (version for version in (old, new) if version is not None)
        if not all(_is_assigned_or_nominated(version) for version in versions):
            return QueueingHint.SKIP
        snapshot = self._snapshot()
        unschedulable = _unschedulable_pod(pod, snapshot)
        return QueueingHint.queue_if(
            bool(unschedulable.terms.problems)
            or _now_satisfies_affinity(unschedulable, old, new)
            or _no_longer_blocks(unschedulable, old, new, snapshot)
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Queues if the node is new or has moved to another domain of a relevant key."""
        terms = terms_of(pod)
        if terms.problems:
            return QueueingHint.QUEUE
        affinity_keys = topology_keys(terms.affinity)
        anti_affinity_keys = topology_keys(terms.anti_affinity)
        after = new.metadata.labels
        if old is None:
            # Differs: a pod without any terms may have been rejected by those of existing pods.
            return QueueingHint.queue_if(
                bool(anti_affinity_keys)
                or not affinity_keys
                or any(key in after for key in affinity_keys)
            )
        before = old.metadata.labels
        if any(key in after and before.get(key) != after[key] for key in affinity_keys):
            return QueueingHint.QUEUE
        # Differs: without a matching pod in any domain, the pod may be the first of its series.
        has_left = any(key in before and key not in after for key in affinity_keys)
        if has_left and _unschedulable_pod(pod, self._snapshot()).matches_itself:
            return QueueingHint.QUEUE
        # Differs: the keys of existing pods' terms that match the pod count like its own.
        anti_affinity_keys += self._keys_of_others(pod)
        return QueueingHint.queue_if(
            any(key in before and before[key] != after.get(key) for key in anti_affinity_keys)
        )

    def _keys_of_others(self, pod: PodInfo) -> list[str]:
        """Returns the topology keys of existing pods' anti-affinity that matches the pod."""
        metadata, snapshot = pod.metadata, self._snapshot()
        labels = snapshot.namespaces.labels(metadata.namespace)
        index = snapshot.terms.anti_affinity
        shared_terms = index.matching(metadata.namespace, labels, metadata.labels)
        return topology_keys(shared.term for shared in shared_terms)

    def _snapshot(self) -> Snapshot:
        if self._handle is None:
            return empty_snapshot()
        snapshot: Any = self._handle.snapshot
        assert isinstance(snapshot, Snapshot)
        return snapshot


def _unschedulable_pod(pod: PodInfo, snapshot: Snapshot) -> _UnschedulablePod:
    """Returns the pod with its counter keys.

    *Differs:* upstream matches namespace selectors with no labels here, and so misses pods.
    """
    terms, namespaces = terms_of(pod), snapshot.namespaces
    return _UnschedulablePod(
        pod,
        terms,
        counter_key_of_all(terms.affinity, namespaces),
        tuple(counter_key(term, namespaces) for term in terms.anti_affinity),
    )


def _now_satisfies_affinity(
    unschedulable: _UnschedulablePod, old: Pod | None, new: Pod | None
) -> bool:
    """Returns True if the changed pod matches all affinity terms now, and did not before.

    *Differs:* also if it was a match and the unschedulable pod may now be the first such pod.
    """
    did_match = unschedulable.has_affinity_to(old)
    does_match = unschedulable.has_affinity_to(new)
    if did_match == does_match:
        return False
    return does_match or unschedulable.matches_itself


def _no_longer_blocks(
    unschedulable: _UnschedulablePod, old: Pod | None, new: Pod | None, snapshot: Snapshot
) -> bool:
    """Returns True if the change removed an anti-affinity conflict between the two pods.

    *Differs:* upstream requires that all of several terms matched, but one is enough to reject.
    """
    if old is None:
        return False
    for key in unschedulable.anti_affinity:
        if _matches_pod(key, old) and (new is None or not _matches_pod(key, new)):
            return True
    if new is not None:
        return False
    namespace = unschedulable.pod.metadata.namespace
    labels: Mapping[str, str] = snapshot.namespaces.labels(namespace)
    terms: Iterable[Any] = compile_terms(old.metadata.namespace, old.spec.affinity).anti_affinity
    pod_labels = unschedulable.pod.metadata.labels
    return any(term.matches(namespace, labels, pod_labels) for term in terms)


def _matches_pod(key: CounterKey, pod: Pod) -> bool:
    return matches(key, pod.metadata.namespace, pod.metadata.labels)


def _is_assigned_or_nominated(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
