"""Attaches the plain model of the queue to a real one: every call is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from mooring.queue import QueuedPod, QueueName, SchedulingQueue
from tests.faults.twins.queue_twin import Moved, QueueTwin, TwinPod

#: The calls that change the queue.
CALLS: Final = (
    "add",
    "update",
    "delete",
    "pop",
    "done",
    "_end",
    "add_unschedulable",
    "move",
    "activate",
    "retry_after_backoff",
    "flush",
)
#: Of fewer pods none shows that a plugin is broken.
ATTEMPTED_MIN: Final = 10
#: ``flush`` is called once a second, when it is due: it is so at two checks, and no more.
DUE_MAX: Final = 2

#: Called before each call from outside, with its name and arguments.
OnCall = Callable[[str, tuple[Any, ...], dict[str, Any]], None]


class AttachedQueue:
    """Compares a queue with its model after each call.

    Attributes:
        calls: Number of calls that were compared.

    Args:
        queue: The real one, from its beginning.
        twin: The model.
        report: Called with each difference; after the first there is no further one.
    """

    def __init__(
        self, queue: SchedulingQueue, twin: QueueTwin, report: Callable[[str], None]
    ) -> None:
        self.calls = 0
        self._listeners: list[OnCall] = []
        self._queue = queue
        self._twin = twin
        self._report = report
        self._is_inside = self._differs = False
        self._moved: list[Moved] = []
        self._due, self._due_at_s = 0, 0.0
        for name in CALLS:
            setattr(queue, name, self._followed(name, getattr(queue, name)))
        quarantine: Any = queue.quarantine
        quarantine.failed = self._followed("failed", quarantine.failed)
        queue.next_flush_at_s = self._next_flush(queue.next_flush_at_s)  # type: ignore[method-assign]
        queues = queue._queues
        self._on_move, queues.on_move = queues.on_move, self._note
        self._on_ready, queues.on_ready = queues.on_ready, self._note_ready
        self._ready = 0

    def listen(self, listener: OnCall) -> None:
        """Calls this before each call that changes the queue."""
        self._listeners.append(listener)

    def _note(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        self._moved.append(Moved(entry.uid, queue_name, why))
        if self._on_move is not None:
            self._on_move(entry, queue_name, why)

    def _note_ready(self) -> None:
        self._ready += 1
        if self._on_ready is not None:
            self._on_ready()

    def overdue(self, now_s: float) -> str:
        """Returns how long a flush has been due; "" if it is not. Called once per second."""
        at_s = self._twin.next_flush_at_s()
        is_same = at_s == self._due_at_s and at_s <= now_s
        self._due, self._due_at_s = self._due + 1 if is_same else 0, at_s
        return f"no flush for {self._due} s" if self._due > DUE_MAX and not self._differs else ""

    def _next_flush(self, real: Callable[[], float]) -> Callable[[], float]:
        def next_flush_at_s() -> float:
            at_s = real()
            expected_s = self._twin.next_flush_at_s()
            if at_s != expected_s:
                self._differ(f"next_flush_at_s is {at_s}, not {expected_s}")
            return at_s

        return next_flush_at_s

    def _followed(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the method, followed by that of the model and the comparison."""

        def call(*args: Any, **named: Any) -> Any:
            if self._is_inside:
                return real(*args, **named)
            for listener in self._listeners:
                listener(name, args, named)
            self._is_inside = True
            self._moved, self._ready = [], 0
            try:
                result = real(*args, **named)
            finally:
                self._is_inside = False
            if not self._differs:
                self._compare(name, args, named, result)
            return result

        return call

    def _compare(
        self, name: str, args: tuple[Any, ...], named: dict[str, Any], result: Any
    ) -> None:
        twin = self._twin
        twin.moves, twin.touched = [], []
        expected = getattr(twin, name)(*args, **named)
        self.calls += 1
        if self._due and not twin.is_flush_due():
            self._due = 0  # all that wait were in flight meanwhile, perhaps when the owner looked
        what = f"{name}({', '.join(map(_shown, args))})"
        if name == "failed" and result != expected:
            self._differ(f"{what} returns {result}, not {expected}")
        if name == "pop":
            popped = result.uid if result is not None else None
            if popped != (expected.uid if expected is not None else None):
                self._differ(f"pop returns {popped}, not {expected and expected.uid}")
                return
        if self._moved != twin.moves:
            self._differ(f"{what} moves {_moves(self._moved)}, not {_moves(twin.moves)}")
        # An idle scheduler waits for this, also if it takes pods out of the backoff.
        n_ready = sum(it.queue in (QueueName.ACTIVE, QueueName.BACKOFF) for it in self._moved)
        if self._ready != n_ready:
            self._differ(f"{what} calls on_ready {self._ready} times, not {n_ready}")
        queues = {uid: self._queue.queue_of(uid) for uid in twin.pods}
        for uid, queue_name in queues.items():
            if queue_name is not twin.pods[uid].queue:
                self._differ(f"after {what} {uid} is {queue_name}, not {twin.pods[uid].queue}")
        numbers = self._queue.counts(), self._queue.in_flight_events
        if numbers != (twin.counts(), twin.event_count()):
            self._differ(f"after {what}: {numbers}, not {twin.counts()}, {twin.event_count()}")
        for queued in twin.touched:
            self._compare_pod(what, queued, result if name == "pop" else None)

    def _compare_pod(self, what: str, queued: TwinPod, popped: QueuedPod | None) -> None:
        entry = popped if popped is not None else self._queue.get(queued.uid)
        # A pod that is terminating may be queued anew before its binding fails.
        is_other = popped is None and self._twin.pods.get(queued.uid) is not queued
        if entry is None or is_other:
            return
        real, expected = _state_of(entry), _twin_state(queued)
        if queued.queue is QueueName.BACKOFF:
            real["expires"] = self._queue._queues.backoff.expiration_s(entry)
            expected["expires"] = self._twin.expires_s(queued)
        wrong = [
            f"{name} {real[name]} is {expected[name]} in the model"
            for name in expected
            if real[name] != expected[name]
        ]
        if wrong or entry.pod is not queued.info:
            self._differ(f"after {what} {queued.info.key}: {', '.join(wrong) or 'another version'}")

    def compare_metrics(self) -> None:
        """Compares the numbers that metrics show, which no call reads."""
        twin, statistics = self._twin, self._queue.statistics()
        rejected = {key: n for key, n in statistics.rejected.items() if n}
        events = Counter(event.label for event, _, _ in twin.recorded())
        for what, actual, expected in (
            ("rejected", rejected, dict(twin.rejected())),
            ("incoming", dict(statistics.incoming), dict(+twin.incoming)),
            ("in flight", +statistics.in_flight, +(events + Counter(PodPopped=len(twin.flying)))),
            ("quarantined", self._queue.quarantined_count, twin.quarantined_count()),
        ):
            if actual != expected and not self._differs:
                self._differ(f"{what} pods: {actual}, not {expected}")

    def compare_attempted(self) -> None:
        """Compares which pods were attempted last, by which a plugin counts as broken."""
        attempted = list(self._queue.quarantine._attempted.items())
        if attempted != self._twin.attempted:
            self._differ(f"attempted last: {attempted}, not {self._twin.attempted}")
        n_pods, expected = len(self._twin.attempted), None
        for plugin, count in Counter(plugin for _, plugin in self._twin.attempted).items():
            if plugin and n_pods >= ATTEMPTED_MIN and 2 * count > n_pods:
                expected = f'plugin "{plugin}" raises at {count} of the last {n_pods} pods'
        if (broken := self._queue.quarantine.broken_plugin()) != expected:
            self._differ(f"broken: {broken}, not {expected}")
        counts = Counter(plugin for _, plugin, _, _ in self._twin.quarantines)
        if self._queue.quarantine.counts != counts:
            self._differ(f"quarantines: {self._queue.quarantine.counts}, not {counts}")

    def _differ(self, message: str) -> None:
        if not self._differs:
            self._differs = True
            self._report(message)


def _state_of(entry: QueuedPod) -> dict[str, Any]:
    return {
        "timestamp": entry.timestamp_s,
        "attempts": entry.attempts,
        "refusals": entry.unschedulable_count,
        "errors": entry.consecutive_errors,
        "refused by": set(entry.unschedulable_plugins),
        "pending on": set(entry.pending_plugins),
        "gate": entry.gating_plugin,
        "quarantine": entry.quarantine_s,
        "failing plugin": (entry.failing_plugin, entry.plugin_failures),
        "was flushed": entry.was_flushed,
        "keeps backoff": entry.keeps_backoff,
        "first active": entry.initial_attempt_s,
    }


def _twin_state(queued: TwinPod) -> dict[str, Any]:
    return {
        "timestamp": queued.since_s,
        "attempts": queued.attempts,
        "refusals": queued.refusals,
        "errors": queued.errors,
        "refused by": queued.refused_by,
        "pending on": queued.pending_on,
        "gate": queued.gate,
        "quarantine": queued.quarantine_s,
        "failing plugin": (queued.failing, queued.failures),
        "was flushed": queued.was_flushed,
        "keeps backoff": queued.was_binding,
        "first active": queued.first_active_s,
    }


def _moves(moves: list[Moved]) -> str:
    return str([f"{uid} {queue.value} {why}" for uid, queue, why in moves])


def _shown(argument: Any) -> str:
    label = getattr(argument, "label", None)
    metadata = getattr(argument, "metadata", None)
    if metadata is None and isinstance(argument, QueuedPod):
        metadata = argument.pod.metadata
    return str(label or (metadata and f"{metadata.name} {metadata.uid}") or argument)[:80]
