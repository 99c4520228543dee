"""A hypothesis run over everything that can happen to the scheduling queue.

Beside it runs a model of plain dicts that walks all pods for every event: after every step both
must have every pod in the same place, and nothing that happened may be lost on a pod.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.queue import InFlightAttempt, QueuedPod, QueueName, QueueOptions
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.queue_twin import QueueTwin
from tests.helpers.queues import Bench
from tests.machines.queue_model import EVENTS, REJECTORS, Model, Modelled, Version, What, plugins

NAMES = ["web", "db", "job", "gpu"]
WANTS = ["x", "y"]
#: Mostly one plugin refuses a pod; with many, any event would help.
BY = st.one_of(
    st.sets(st.sampled_from(REJECTORS), min_size=1, max_size=1),
    st.sets(st.sampled_from(REJECTORS), min_size=1, max_size=1),
    st.sets(st.sampled_from(REJECTORS), max_size=3),
)


def differences_of(bench: Bench) -> list[str]:
    """Attaches the model of the fault seeds; returns the list of its differences to the queue."""
    differences: list[str] = []
    twin = QueueTwin({"default-scheduler": bench.framework}, bench.clock, QueueOptions())
    AttachedQueue(bench.queue, twin, differences.append)
    return differences


class QueueMachine(Model, RuleBasedStateMachine):
    """Pods come, change, are tried and go, while the cluster changes around them."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        self.it = Bench(*plugins(self.door))
        self.queue = self.it.queue
        self.differences = differences_of(self.it)
        Model.__init__(self, self.it.clock)
        self.count = 0
        self.flights: dict[str, tuple[QueuedPod, InFlightAttempt]] = {}
        self.next_leftover_s = self.clock.monotonic_s() + 30

    # -- people -----------------------------------------------------------------------------------

    @initialize(wants=st.lists(st.sampled_from(WANTS), min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, wants: list[str]) -> None:
        for number, name in enumerate(NAMES):
            version = Version(wants[number], number // 2, gates=number % 2, is_at_door=number > 1)
            new = self.born(name, version)
            self.queue.add(new.info)

    @rule(
        name=st.sampled_from(NAMES),
        wants=st.sampled_from(WANTS),
        priority=st.integers(0, 2),
        gates=st.sampled_from([0, 0, 0, 0, 0, 0, 0, 2]),
        is_at_door=st.sampled_from([False, False, False, True]),
    )
    def create(self, name: str, *, wants: str, priority: int, gates: int, is_at_door: bool) -> None:
        """Adds a pod; an existing one of this name is reported again."""
        if (old := self.alive(name)) is not None:
            self.queue.add(old.info)
            if old.queue_name is not QueueName.IN_FLIGHT:
                self.changed(old, [What("own other", about=old.uid)])
            return
        new = self.born(name, Version(wants, priority, gates=gates, is_at_door=is_at_door))
        if self.count % 3:
            self.queue.add(new.info)
        else:
            # Its coming was missed: it is first heard of when it changes.
            self.queue.update(new.info, new.info)

    @rule(name=st.sampled_from(NAMES[1:3]), is_seen_as_update=st.booleans())
    def recreate(self, name: str, *, is_seen_as_update: bool) -> None:
        """Deletes a pod and recreates it."""
        if (old := self.alive(name)) is None:
            return
        self.forget(old)
        new = self.born(name, replace(old.version))
        if is_seen_as_update:
            self.queue.update(old.info, new.info)
        else:
            self.queue.delete(old.uid)
            self.queue.add(new.info)

    def born(self, name: str, version: Version) -> Modelled:
        """Returns a pod with a UID that no other had."""
        self.count += 1
        uid = f"{name}-{self.count}"
        new = Modelled(name, uid, version, version.info(name, uid), self.clock.monotonic_s())
        self.pods[uid] = new
        self.put(new, 2)
        return new

    @rule(name=st.sampled_from(NAMES[:2]))
    def delete(self, name: str) -> None:
        if (each := self.alive(name)) is not None:
            self.queue.delete(each.uid)
            self.forget(each)

    @rule(
        name=st.sampled_from(NAMES),
        changes=st.sets(st.sampled_from(["label", "smaller", "gates", "toleration", "priority"])),
    )
    def change(self, name: str, changes: set[str]) -> None:
        each = self.alive(name)
        if each is None:
            return
        old, before = each.version, each.info
        new = Version(
            wants="xy".replace(old.wants, "") if "label" in changes else old.wants,
            priority=(old.priority + 1) % 3 if "priority" in changes else old.priority,
            cpu=max(old.cpu - 1, 0) if "smaller" in changes else old.cpu,
            gates=max(old.gates - 1, 0) if "gates" in changes else old.gates,
            tolerations=old.tolerations + ("toleration" in changes),
            is_at_door=old.is_at_door,
        )
        kinds = {
            "own label": new.wants != old.wants,
            "own smaller": new.cpu < old.cpu,
            "own gates": old.gates > 0 and not new.gates,
            "own toleration": new.tolerations != old.tolerations,
        }
        events = [What(kind, about=each.uid) for kind, is_so in kinds.items() if is_so]
        each.version, each.info = new, new.info(name, each.uid)
        self.queue.update(before, each.info)
        self.changed(each, events or [What("own other", about=each.uid)])

    # -- the cluster ------------------------------------------------------------------------------

    @rule(
        kinds=st.lists(st.sampled_from(sorted(EVENTS)), min_size=1, max_size=3),
        payload=st.sampled_from(WANTS),
    )
    def events(self, kinds: list[str], payload: str) -> None:
        for kind in kinds:
            self.queue.move(EVENTS[kind], payload, payload)
            self.happened(What(kind, payload))

    @rule()
    def turn_the_door(self) -> None:
        self.is_door_open = not self.is_door_open

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
    def activate(self, names: set[str]) -> None:
        chosen = [each for name in sorted(names) if (each := self.alive(name)) is not None]
        self.queue.activate([each.uid for each in chosen] + ["unknown"])
        for each in chosen:
            if each.queue_name is QueueName.IN_FLIGHT:
                for other in self.pods.values():
                    flying = other.queue_name is QueueName.IN_FLIGHT
                    other.history += [What("force", about=each.uid)] if flying else []
            elif each.queue_name is QueueName.BACKOFF:
                each.queue_name = QueueName.ACTIVE
            elif each.queue_name in (QueueName.UNSCHEDULABLE, QueueName.GATED):
                self.put(each, 2)

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5, 11.0, 31.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([0.3, 0.3, 0.7, 1.0, 1.0, 1.0, 2.0, 4.0, 301.0]))
    def wait_and_flush(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.flush()

    @rule()
    def flush(self) -> None:
        now_s = self.clock.monotonic_s()
        is_due = self.queue.next_flush_at_s() <= now_s
        before = {uid: each.queue_name for uid, each in self.pods.items()}
        self.queue.flush()
        for each in self.pods.values():
            if each.queue_name is QueueName.BACKOFF and not self.is_backing_off(each):
                each.queue_name = QueueName.ACTIVE
        if now_s >= self.next_leftover_s:
            self.next_leftover_s = now_s + 30
            self.record_flush(now_s)
            for each in self.pods.values():
                if each.queue_name is QueueName.UNSCHEDULABLE and now_s - each.came_s > 300:
                    self.put(each, 1)
        moved = any(each.queue_name is not before[uid] for uid, each in self.pods.items())
        assert is_due or not moved

    # -- the scheduler ----------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def pop_some(self, count: int) -> None:
        for _ in range(count):
            self.pop()

    def pop(self) -> None:
        best, entry = self.best(), self.queue.pop()
        assert (entry.uid in best) if entry else not best
        if entry is not None:
            each = self.pods[entry.uid]
            assert entry.pod is each.info
            each.queue_name, each.history = QueueName.IN_FLIGHT, []
            self.flights[entry.uid] = entry, self.queue.in_flight(entry)

    @precondition(lambda self: self.flights)
    @rule(data=st.data(), by=BY, is_pending=st.booleans(), pops=st.booleans())
    def add_unschedulable(
        self, data: st.DataObject, by: set[str], *, is_pending: bool, pops: bool
    ) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flights)))
        self.end(uid, by, is_pending, pops, data.draw(st.sampled_from([False, False, True])))

    @rule(by=BY, is_pending=st.booleans())
    def try_one(self, by: set[str], *, is_pending: bool) -> None:
        """Runs a whole attempt at once."""
        before = set(self.flights)
        self.pop()
        for uid in self.flights.keys() - before:
            self.end(uid, by, is_pending, False, False)

    def end(self, uid: str, by: set[str], is_pending: bool, pops: bool, is_binding: bool) -> None:
        """Rejects the pod; another one may be popped before the attempt's block ends."""
        entry, flight = self.flights.pop(uid)
        each = self.pods[uid]
        pending = set(sorted(by)[:1]) if is_pending else set()
        found = self.alive(each.name)
        with flight:
            if found is not None:
                # Looked up by name: it may be another pod by now, which is in the queue already.
                rejectors = {"refused_by": by - pending, "pending_on": pending}
                self.queue.add_unschedulable(entry, found.info, **rejectors, is_binding=is_binding)
            if found is each:
                self.refused(each, by - pending, pending, is_binding=is_binding)
            else:
                del self.pods[uid]
            if pops:
                self.pop()

    @precondition(lambda self: len(self.flights) > 2)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flights)))
        _, flight = self.flights.pop(uid)
        with flight:
            flight.detach()
        assert self.queue.queue_of(uid) is QueueName.IN_FLIGHT
        flight.done()
        del self.pods[uid]

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def every_pod_is_in_the_one_place_of_the_model(self) -> None:
        assert self.differences == []
        places = {uid: each.queue_name for uid, each in self.pods.items()}
        assert {uid: self.queue.queue_of(uid) for uid in self.pods} == places
        queued = [entry.uid for entry in self.queue.pods()]
        flying = [uid for uid, queue_name in places.items() if queue_name is QueueName.IN_FLIGHT]
        assert sorted(queued + flying) == sorted(places)
        of_model = list(places.values())
        counts = self.queue.counts()
        assert counts == {queue_name: of_model.count(queue_name) for queue_name in counts}
        assert sum(counts.values()) == len(places)

    @invariant()
    def gates_are_those_of_the_model(self) -> None:
        found = {entry.uid: entry.gating_plugin for entry in self.queue.pods()}
        assert found == {uid: self.pods[uid].gate for uid in found}

    @invariant()
    def nothing_that_helps_a_parked_pod_was_missed(self) -> None:
        for each in self.pods.values():
            if each.queue_name is QueueName.UNSCHEDULABLE:
                assert not any(each.judged(what) for what in each.history)

    @invariant()
    def events_are_kept_for_those_in_flight_only(self) -> None:
        flying = [each for each in self.pods.values() if each.queue_name is QueueName.IN_FLIGHT]
        kept = max((len(each.history) for each in flying), default=0)
        assert self.queue.in_flight_events == kept


QueueMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestQueue = QueueMachine.TestCase
