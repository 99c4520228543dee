"""Checks what each change of an object makes the event handlers do, and their buffer.

The expected calls of the queue are computed from the change and the state before it, and compared
with the real ones: event, old and new object, order, and which pods may be moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.queue.watched_kinds import RESOURCES
from mooring.scheduler.service import Service
from mooring.state import PodInfo
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.changes import changes_of_node, changes_of_pod
from tests.faults.twins.recorded_calls import RecordedCalls

ADDED = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)

#: The cache reports these changes, also those that are only assumed.
REPORTED_BY_CACHE = ("ResourceClaim", "ResourceSlice")


class Call(NamedTuple):
    """A call of the queue.

    Attributes:
        name: Of the method.
        what: The event, or a UID.
        old: The object before the change.
        new: The object after it.
        at_most: The highest priority of the pods that it may move; None = all pods.
        nominated: The nomination that ``old`` has, be it written or not; None = that of the object.
    """

    name: str
    what: Any
    old: Any = None
    new: Any = None
    at_most: int | None = None
    nominated: str | None = None

    def __str__(self) -> str:
        what = self.what.label if isinstance(self.what, ClusterEvent) else self.what
        return f"{self.name} {what} {_version(self.old)} {_version(self.new)}"


class Before(NamedTuple):
    """The state of a pod before a change of it."""

    placed: Pod | None
    is_assumed: bool
    nominated: str


class Notifications:
    """Checks that those who wait for an object are notified of each change, once.

    Args:
        events: The event handlers.
        report: Called with each problem.
    """

    def __init__(self, events: Any, report: Callable[[str], None]) -> None:
        self._report = report
        self._objects: list[tuple[str, Any]] = []
        self._real, events._on_object = events._on_object, self._on_object

    def _on_object(self, kind: str, obj: Any) -> None:
        self._objects.append((kind, obj))
        self._real(kind, obj)

    def check(self, kind: str, change: ObjectChange) -> None:
        """Checks the notification of the change that was handled last."""
        objects, self._objects = self._objects, []
        obj = change.new if change.new is not None else change.old
        if [(it, id(other)) for it, other in objects] != [(kind, id(obj))]:
            self._report(f"a change of {kind} {_version(obj)} is notified as {objects}")


class AttachedHandlers:
    """Follows the event handlers of a service.

    Attributes:
        changes: Number of changes that were checked.

    Args:
        service: The scheduler.
        queue: Reports the calls of its queue.
        report: Called with each problem.
        recorded: Has the labels of the events that were handled.
    """

    def __init__(
        self,
        service: Service,
        queue: AttachedQueue,
        report: Callable[[str], None],
        recorded: RecordedCalls,
    ) -> None:
        self.changes = 0
        self._service = service
        self._report = report
        self._calls: list[Call] | None = None
        self._onlys: list[tuple[int, Callable[[PodInfo], bool] | None]] = []
        self._buffered: dict[tuple[str, str], ObjectChange] = {}
        self._recorded = recorded
        queue.listen(self._on_queue_call)
        events: Any = service.events
        self._real, events.on_change = events.on_change, self._on_change
        self._is_listed = True  # Plugins list the object of the change as it is now.
        self._list, events._listers.apply = events._listers.apply, self._on_listed
        self._notifications = Notifications(events, report)

    def _on_listed(self, kind: str, old: Any, new: Any) -> None:
        self._is_listed = True
        self._list(kind, old, new)

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._calls is None:
            return
        if not self._is_listed:
            self._report(f"{name} of the queue comes before the change of the listers")
        if name == "move":
            self._onlys.append((len(self._calls), named.get("only")))
            self._calls.append(Call(name, *args))
        elif name == "delete":
            self._calls.append(Call(name, *args))
        else:
            pods = [pod.pod for pod in args if isinstance(pod, PodInfo)]
            self._calls.append(Call(name, "", *([None, *pods] if len(pods) == 1 else pods)))

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if self._service.events._buffered_events is not None:
            self._real(kind, change)
            self._buffer(kind, change)
            return
        self._buffered = {}
        before = self._before(change) if kind == "Pod" else None
        self._calls, self._onlys = [], []
        self._recorded.handled.clear()
        self._is_listed = False
        self._real(kind, change)
        self._is_listed = True
        self._notifications.check(kind, change)
        calls, self._calls = self._calls, None
        self.changes += 1
        if before is not None:
            self._compare(change, calls, list(self._pod_calls(change, before)))
            self._check_pod(change, before)
        elif kind not in REPORTED_BY_CACHE:
            self._compare(change, calls, list(self._other_calls(kind, change)))
        if kind not in REPORTED_BY_CACHE:
            self._compare_labels(kind, change, calls, self._recorded.handled)

    def _compare_labels(
        self, kind: str, change: ObjectChange, calls: list[Call], labels: list[str]
    ) -> None:
        """Compares the events that metrics count; they follow the calls of the queue."""
        moves = [call.what.label for call in calls if call.name == "move"]
        expected = list(self._pod_labels(change, moves)) if kind == "Pod" else moves
        if Counter(labels) != Counter(expected):
            self._report(f"a change of {_version(change.new)} counts {labels}, not {expected}")

    def _pod_labels(self, change: ObjectChange, moves: list[str]) -> Iterator[str]:
        """Yields the labels for a pod, as kube-scheduler's handlers."""
        old, new = change.old, change.new
        if new is None:
            last = change.last if change.last is not None else old
            if last.spec.node_name:
                yield GONE.label
            elif self._is_ours(last):
                yield "UnschedulablePodDelete"
        elif new.spec.node_name and old is not None and old.spec.node_name:
            updates = (label for label in moves if label not in (ADDED.label, GONE.label))
            yield from (*updates, "AssignedPodUpdate")
        elif new.spec.node_name:
            yield ADDED.label
            if old is not None and self._is_ours(old):
                yield "UnschedulablePodDelete"
        elif self._is_ours(new) and old is None:
            yield "UnschedulablePodAdd"
        elif self._is_ours(new):
            yield "UnschedulablePodUpdate"
            for event in changes_of_pod(PodInfo(old), PodInfo(new)):
                if event.action is not ActionType.UPDATE_OTHER:
                    yield event.label

    def _is_ours(self, pod: Pod) -> bool:
        return (pod.spec.scheduler_name or "default-scheduler") in self._service.profiles

    # -- the buffer -------------------------------------------------------------------------------

    def _buffer(self, kind: str, change: ObjectChange) -> None:
        """Merges a change into the model of the buffer, and compares."""
        obj = change.new if change.new is not None else change.old
        at = kind, obj.metadata.uid or f"{obj.metadata.namespace}/{obj.metadata.name}"
        before = self._buffered.pop(at, change)
        if before.old is not None or change.new is not None:
            self._buffered[at] = ObjectChange(before.old, change.new, change.last)
        real = self._service.events.buffered
        is_equal = [*real] == [*self._buffered] and all(
            all(part is other for part, other in zip(real[at], merged, strict=True))
            for at, merged in self._buffered.items()
        )
        if not is_equal:
            self._report(f"buffered {[*real]}, not {list(self._buffered)}")

    # -- expected calls ---------------------------------------------------------------------------

    def _before(self, change: ObjectChange) -> Before:
        cache = self._service.cache
        uid = (change.new if change.new is not None else change.old).metadata.uid
        placed = cache.pods.get(uid)
        pod = placed.info.pod if placed is not None else None
        return Before(pod, cache.is_assumed(uid), cache.nominator.node_of(uid))

    def _other_calls(self, kind: str, change: ObjectChange) -> Iterator[Call]:
        """Yields the calls for a node, or an object of another kind than a pod."""
        old, new = change.old, change.new
        resource = EventResource.NODE if kind == "Node" else RESOURCES.get(kind)
        if resource is None:
            return
        if old is not None and new is not None:
            other = ClusterEvent(resource, ActionType.UPDATE_OTHER)
            for event in changes_of_node(old, new) if kind == "Node" else [other]:
                yield Call("move", event, old, new)
            return
        action = ActionType.ADD if old is None else ActionType.DELETE
        yield Call("move", ClusterEvent(resource, action), old, new)

    def _pod_calls(self, change: ObjectChange, before: Before) -> Iterator[Call]:
        """Yields the calls for a pod."""
        old, new = change.old, change.new
        if new is None:
            yield from self._deletion_calls(change, before)
        elif new.spec.node_name and old is not None and old.spec.node_name:
            if self._service.cache.pods.get(new.metadata.uid) is None:
                return
            if before.placed is None or before.is_assumed:
                yield from self._addition_calls(change, before)
            for event in changes_of_pod(PodInfo(before.placed or old), PodInfo(new)):
                yield Call("move", event, old, new)
        elif new.spec.node_name:
            yield from self._addition_calls(change, before)
        elif (new.spec.scheduler_name or "default-scheduler") in self._service.profiles:
            yield from self._pending_calls(change, before)
        elif before.placed is not None:
            yield Call("move", GONE, before.placed, None)

    def _addition_calls(self, change: ObjectChange, before: Before) -> Iterator[Call]:
        yield Call("move", ADDED, None, change.new)
        yield Call("delete", change.new.metadata.uid)
        placed = before.placed if before.is_assumed else None
        if placed is not None and placed.spec.node_name != change.new.spec.node_name:
            yield Call("move", GONE, placed, None)
        yield from self._left_nomination(change, before)

    def _left_nomination(self, change: ObjectChange, before: Before) -> Iterator[Call]:
        """Yields the call for the room that a pod held on a node, and is bound to another one."""
        old, new = change.old, change.new
        if old is None or before.is_assumed or not self._is_ours(old):
            return
        nominated = before.nominated or old.status.nominated_node_name
        if nominated and nominated != new.spec.node_name:
            yield _end_of_nomination(old, nominated)

    def _deletion_calls(self, change: ObjectChange, before: Before) -> Iterator[Call]:
        last = change.last if change.last is not None else change.old
        yield Call("delete", last.metadata.uid)
        if before.is_assumed:
            yield Call("move", GONE, before.placed, None)
        elif before.placed is not None or last.spec.node_name:
            yield Call("move", GONE, last, None)
        elif nominated := before.nominated or last.status.nominated_node_name:
            yield _end_of_nomination(last, nominated)

    def _pending_calls(self, change: ObjectChange, before: Before) -> Iterator[Call]:
        old, new = change.old, change.new
        if before.is_assumed:
            if _ends(change):
                yield Call("move", GONE, before.placed, None)
            return
        if before.placed is not None:
            yield Call("move", GONE, before.placed, None)
        if old is None:
            yield Call("add", "", None, new)
            return
        yield Call("update", "", old, new)
        was_nominated, is_nominated = old.status.nominated_node_name, new.status.nominated_node_name
        if was_nominated and was_nominated != is_nominated:
            yield _end_of_nomination(old, was_nominated)
        elif before.nominated and is_nominated and before.nominated != is_nominated:
            # A nomination that was not written yet gives way to another one.
            yield _end_of_nomination(old, before.nominated)

    def _compare(self, change: ObjectChange, calls: list[Call], expected: list[Call]) -> None:
        is_equal = len(calls) == len(expected) and all(
            (real.name, real.what) == (call.name, call.what)
            and _is_expected(real.old, call)
            and real.new is call.new
            for real, call in zip(calls, expected, strict=True)
        )
        if not is_equal:
            texts = [str(call) for call in calls], [str(call) for call in expected]
            self._report(f"a change of {_version(change.new)} calls {texts[0]}, not {texts[1]}")
            return
        for number, only in self._onlys:
            self._compare_only(expected[number], only)

    def _compare_only(self, call: Call, only: Callable[[PodInfo], bool] | None) -> None:
        """Compares which of the queued pods the event may move."""
        for entry in self._service.queue.pods():
            is_moved = only is None or only(entry.pod)
            if is_moved != (call.at_most is None or entry.pod.priority <= call.at_most):
                self._report(f"{call} {'moves' if is_moved else 'does not move'} {entry.pod.key}")

    # -- the state after a change of a pod --------------------------------------------------------

    def _check_pod(self, change: ObjectChange, before: Before) -> None:
        """Checks the nomination of the pod, and its wait in Permit."""
        new = change.new if change.new is not None else change.old
        uid, service = new.metadata.uid, self._service
        is_ours = (new.spec.scheduler_name or "default-scheduler") in service.profiles
        waiting = service.handle.waiting.get(uid)
        has_ended = change.new is None or bool(new.spec.node_name) or _ends(change)
        is_settled = waiting is None or waiting.status is not None
        if has_ended and is_ours and not is_settled and not _was_bound(change):
            self._report(f"{_version(new)} waits in Permit after its end")
        if before.is_assumed and not is_settled and has_ended and not is_ours:
            self._report(f"{_version(new)} waits in Permit, but is not ours")
        if change.new is None or new.spec.node_name or before.is_assumed or not is_ours:
            return
        old, named = change.old, new.status.nominated_node_name
        expected = named
        if old is not None and not named:
            expected = "" if old.status.nominated_node_name else before.nominated
        if old is None and service.queue.queue_of(uid) is QueueName.GATED:
            expected = before.nominated
        if (nominated := service.cache.nominator.node_of(uid)) != expected:
            self._report(f"{_version(new)} is nominated to {nominated!r}, not {expected!r}")


def _end_of_nomination(pod: Pod, nominated: str) -> Call:
    return Call("move", GONE, pod, at_most=PodInfo(pod).priority, nominated=nominated)


def _is_expected(old: Any, call: Call) -> bool:
    if call.nominated is None or call.nominated == call.old.status.nominated_node_name:
        return old is call.old
    status = replace(call.old.status, nominated_node_name=call.nominated)
    return bool(old == replace(call.old, status=status))


def _was_bound(change: ObjectChange) -> bool:
    return change.old is not None and bool(change.old.spec.node_name)


def _ends(change: ObjectChange) -> bool:
    """Returns whether the change is the beginning of a graceful deletion."""
    old, new = change.old, change.new
    if new is None or new.metadata.deletion_timestamp is None:
        return False
    return old is None or old.metadata.deletion_timestamp is None


def _version(obj: Any) -> str:
    if obj is None:
        return "-"
    metadata = obj.metadata
    return f"{metadata.name}@{metadata.resource_version}"
