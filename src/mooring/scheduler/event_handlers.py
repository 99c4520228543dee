"""Applies watch events to the cache, then to the scheduling queue.

::

    informers ──> on_change ──> cache ──> queue.move(event): requeues unschedulable pods
                      │
                      └─ while an attempt waits for an extender: buffered, until it is over

A pod is on a node (in the cache), pending for one of the profiles (in the queue), or ignored.

Source: pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.framework import Framework
from mooring.framework.waiting_pods import WaitingPods
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceSlice
from mooring.queue import QueueName, SchedulingQueue, node_changes, pod_changes, profile_of
from mooring.queue.scheduling_queue import POD_ADDED, POD_DELETED, POD_UPDATED
from mooring.queue.watched_kinds import RESOURCES
from mooring.state import PodInfo
from mooring.state.apply import apply_change
from mooring.state.cache import Cache
from mooring.state.listers import Listers

POD_ASSIGNED = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
POD_CHANGED = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_OTHER)
POD_GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
NODE_ADDED = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_GONE = ClusterEvent(EventResource.NODE, ActionType.DELETE)

CLAIM: Final = "ResourceClaim"
SLICE: Final = "ResourceSlice"


class EventHandlers:
    """Handles the changes of every watched kind.

    Args:
        cache: Updated first.
        queue: Updated second.
        profiles: Pending pods of other schedulerNames are ignored.
        waiting: The pods that wait in Permit.
        listers: The objects that plugins list; updated before the cache.
        resources: Kind -> name of its resource in events, for further kinds that plugins follow.
        on_object: Called last, with the kind and the changed object.
        recorder: Records how long each event takes as metrics.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Mapping[str, Framework],
        waiting: WaitingPods,
        *,
        listers: Listers | None = None,
        resources: Mapping[str, str] = MappingProxyType({}),
        on_object: Callable[[str, Any], None] = lambda *_: None,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._waiting = waiting
        self._listers = listers if listers is not None else Listers()
        self._resources: Mapping[str, EventResource | str] = {**resources, **RESOURCES}
        self._on_object = on_object
        self._recorder = recorder
        self._buffered_events: dict[tuple[str, str], ObjectChange] | None = None
        cache.devices.claims.listen(self._on_claim)
        cache.devices.taint_rules.listen(self._on_slice)

    def handler(self, kind: str) -> Callable[[ObjectChange], None]:
        """Returns the function to call with every change of an object of ``kind``."""
        return lambda change: self.on_change(kind, change)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Applies a change, or buffers it inside ``buffer_events``."""
        if self._buffered_events is not None:
            self._buffer(kind, change)
            return
        self._listers.apply(kind, change.old, change.new)
        if kind == "Pod":
            self._on_pod(change)
        elif kind == "Node":
            self._on_node(change)
        else:
            self._on_other(kind, change)
        self._on_object(kind, change.new if change.new is not None else change.old)

    @property
    def buffered(self) -> Mapping[tuple[str, str], ObjectChange]:
        """Buffered changes: (kind, UID) -> change."""
        return self._buffered_events or {}

    @contextmanager
    def buffer_events(self) -> Iterator[Mapping[tuple[str, str], ObjectChange]]:
        """Buffers changes until the block ends: an attempt that waits sees one cluster state.

        Several changes of an object are merged into one. Yields the buffer, (kind, UID) -> change;
        it keeps its entries after the block.
        """
        assert self._buffered_events is None, "one attempt at a time"
        self._buffered_events = {}
        try:
            yield self._buffered_events
        finally:
            buffered, self._buffered_events = self._buffered_events, None
            for (kind, _), change in buffered.items():
                self.on_change(kind, change)

    def _buffer(self, kind: str, change: ObjectChange) -> None:
        assert self._buffered_events is not None
        obj = change.new if change.new is not None else change.old
        at = kind, obj.metadata.uid or key(obj)
        before = self._buffered_events.pop(at, None)
        if before is not None:
            change = change._replace(old=before.old)
        # Created and deleted again: no change. Changes are in the order of the last ones.
        if change.old is not None or change.new is not None:
            self._buffered_events[at] = change

    # -- nodes and others -------------------------------------------------------------------------

    def _on_node(self, change: ObjectChange) -> None:
        old: Node | None = change.old
        new: Node | None = change.new
        started_s = self._recorder.now()
        apply_change(self._cache, "Node", old, new)
        if new is None or old is None:
            event = NODE_GONE if new is None else NODE_ADDED
            self._queue.move(event, old, new)
            self._recorder.event_handled(event.label, started_s)
            return
        for event in node_changes(old, new):
            self._queue.move(event, old, new)
            self._recorder.event_handled(event.label, started_s)

    def _on_other(self, kind: str, change: ObjectChange) -> None:
        started_s = self._recorder.now()
        apply_change(self._cache, kind, change.old, change.new)
        if kind not in (CLAIM, SLICE):  # the cache reports them: ``_on_claim``, ``_on_slice``
            self._move_others(kind, change, started_s)

    def _on_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handles a change of a claim in the cache, be it reported or assumed."""
        self._move_others(CLAIM, ObjectChange(old, new), self._recorder.now())

    def _on_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Handles a change of a slice, be it of the driver or of a DeviceTaintRule."""
        self._move_others(SLICE, ObjectChange(old, new), self._recorder.now())

    def _move_others(self, kind: str, change: ObjectChange, started_s: float) -> None:
        """Moves the pods that a change of an object helps."""
        resource = self._resources.get(kind)
        if resource is None:
            return  # plugins read it, but as upstream its events requeue no pod
        event = ClusterEvent(resource, _action(change))
        self._queue.move(event, change.old, change.new)
        self._recorder.event_handled(event.label, started_s)

    # -- pods -------------------------------------------------------------------------------------

    def _on_pod(self, change: ObjectChange) -> None:
        old: Pod | None = change.old
        new: Pod | None = change.new
        started_s = self._recorder.now()
        if new is None:
            assert old is not None
            last = change.last if change.last is not None else old
            self._on_pod_deleted(last)
            if not last.spec.node_name and not self._is_ours(last):
                return
            label = POD_GONE.label if last.spec.node_name else POD_DELETED
        elif new.spec.node_name:
            self._on_assigned(old, new)
            label = POD_ASSIGNED.label
            if old is not None and old.spec.node_name:
                label = POD_CHANGED.label
        elif self._is_ours(new):
            self._on_pending(old, new)
            label = POD_ADDED if old is None else POD_UPDATED
        else:
            self._on_lost_binding(new.metadata.uid)
            return
        self._recorder.event_handled(label, started_s)

    def _is_ours(self, pod: Pod) -> bool:
        return profile_of(pod) in self._profiles

    def _on_assigned(self, old: Pod | None, new: Pod) -> None:
        """Handles a pod with a node: created, updated, or just bound."""
        started_s, uid = self._recorder.now(), new.metadata.uid
        placed, was_assumed = self._cache.pods.get(uid), self._cache.is_assumed(uid)
        before = placed.info if placed is not None else None
        nominated = self._cache.nominator.node_of(uid)
        self._cache.put_pod(new)
        after = self._cache.pods.get(uid)
        is_update = old is not None and bool(old.spec.node_name)
        if is_update and after is None:
            return  # it has finished
        # Differs: kube-scheduler does not add a pod to its cache whose addition it has missed.
        if not is_update or before is None or was_assumed:
            self._queue.move(POD_ASSIGNED, None, new)
            # A pod bound by another scheduler may still be in a queue, or wait in Permit.
            self._queue.delete(uid)
            if (waiting := self._waiting.get(uid)) is not None:
                waiting.reject("", f"assigned to node {new.spec.node_name} by another scheduler")
            if was_assumed and before is not None and before.node_name != new.spec.node_name:
                # Differs: kube-scheduler reports this room only when its own binding has failed.
                self._queue.move(POD_GONE, before.pod, None)
            elif old is not None and self._is_ours(old) and not was_assumed:
                nominated = nominated or old.status.nominated_node_name
                if nominated not in ("", new.spec.node_name):
                    # Differs: this room is free, too (kubernetes/kubernetes#134859).
                    self._requeue_lower_priority_pods(old, nominated)
        if is_update and old is not None and after is not None:
            for event in pod_changes(before or PodInfo(old), after.info):
                self._queue.move(event, old, new)
                self._recorder.event_handled(event.label, started_s)
        elif old is not None and self._is_ours(old):  # as upstream: the queue deletes it
            self._recorder.event_handled(POD_DELETED, started_s)

    def _on_pending(self, old: Pod | None, new: Pod) -> None:
        started_s = self._recorder.now()
        info = self._cache.pending_info(new)
        if self._cache.is_assumed(info.uid):
            if new.metadata.deletion_timestamp is not None and (
                old is None or old.metadata.deletion_timestamp is None
            ):
                self._release_assumed(info.uid)
            if old is not None:
                _record_changes(self._recorder, PodInfo(old), info, started_s)
            return
        self._on_lost_binding(info.uid)
        if old is None:
            self._queue.add(info)
            named = info.status.nominated_node_name
            if named and self._queue.queue_of(info.uid) is not QueueName.GATED:
                self._cache.nominator.nominate(info, named)
            return
        queued = self._queue.get(info.uid)
        before = queued.pod if queued is not None and queued.pod.pod is old else PodInfo(old)
        self._queue.update(before, info)
        nominator = self._cache.nominator
        in_memory = nominator.node_of(info.uid)
        nominator.update(before, info)
        if ended := _ended_nomination(old, new, in_memory, nominator.node_of(info.uid)):
            self._requeue_lower_priority_pods(before.pod, ended)
        _record_changes(self._recorder, before, info, started_s)

    def _on_lost_binding(self, uid: str) -> None:
        """Frees the resources of a pod that has no node any more, be it ours or not.

        Only an API server that was restored from a backup reports such a pod.
        """
        placed = self._cache.pods.get(uid)
        if placed is not None:
            self._cache.remove_pod(uid)
            self._queue.move(POD_GONE, placed.info.pod, None)

    def _on_pod_deleted(self, last: Pod) -> None:
        """Handles a deleted or terminated pod: frees its resources and requeues pods."""
        uid = last.metadata.uid
        nominated = self._cache.nominator.node_of(uid) or last.status.nominated_node_name
        self._queue.delete(uid)
        if self._cache.is_assumed(uid):
            self._release_assumed(uid)
            return
        was_placed = self._cache.pods.get(uid) is not None
        self._cache.remove_pod(uid)
        if was_placed or last.spec.node_name:
            self._queue.move(POD_GONE, last, None)
        elif nominated:
            self._requeue_lower_priority_pods(last, nominated)

    def _requeue_lower_priority_pods(self, deleted: Pod, nominated: str) -> None:
        """Requeues pods of lower or equal priority, after a nomination has ended."""
        priority = deleted.spec.priority or 0
        last = _with_nomination(deleted, nominated)
        self._queue.move(POD_GONE, last, None, only=lambda pod: pod.priority <= priority)

    def _release_assumed(self, uid: str) -> None:
        """Releases the resources of an assumed pod that was deleted.

        Its binding continues and fails, since the pod does not exist.
        """
        placed = self._cache.pods.get(uid)
        assert placed is not None
        waiting = self._waiting.get(uid)
        if waiting is not None and waiting.status is None:
            waiting.reject("", "removed")
        else:
            # Also after Permit has allowed it, while its nomination is still being written.
            self._cache.forget(uid)
        self._queue.move(POD_GONE, placed.info.pod, None)


def _ended_nomination(old: Pod, new: Pod, before: str, after: str) -> str:
    """Returns the nomination that a new version of a pending pod ends; "" if none.

    Args:
        old: The version before.
        new: The new version.
        before: The nomination in memory before, which may not be written yet; "" if none.
        after: The nomination in memory now.
    """
    now = new.status.nominated_node_name or after
    names = old.status.nominated_node_name, before
    return next((name for name in names if name not in ("", now)), "")


def _with_nomination(pod: Pod, node_name: str) -> Pod:
    """Returns a pod with a nomination that is possibly not written yet.

    Differs: without it the hints take the pod for one that no node had room for.
    """
    if pod.status.nominated_node_name == node_name:
        return pod
    return replace(pod, status=replace(pod.status, nominated_node_name=node_name))


def _action(change: ObjectChange) -> ActionType:
    """Returns what happened to an object of a kind without finer events."""
    if change.old is None:
        return ActionType.ADD
    return ActionType.DELETE if change.new is None else ActionType.UPDATE_OTHER


def _record_changes(
    recorder: SchedulerRecorder, before: PodInfo, info: PodInfo, started_s: float
) -> None:
    """Records the events of a pending pod besides its update, as metrics."""
    for event in pod_changes(before, info):
        if event.action is not ActionType.UPDATE_OTHER:
            recorder.event_handled(event.label, started_s)
