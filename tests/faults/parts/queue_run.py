"""Thousands of calls of a scheduling queue without a scheduler around it: denser than any run.

A seed draws the options, the number of pods and how often each call is made. Every call is compared
with the model (``tests/faults/twins/queue_twin.py``), and the heaps keep no more than they may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.cluster_event import ClusterEventWithHint, QueueingHint
from mooring.errors import PluginError, SchedulerError
from mooring.framework import Reject
from mooring.queue import (
    InFlightAttempt,
    QueuedPod,
    QueueName,
    QueueOptions,
    quarantine,
    queueing_hints,
    queues,
)
from mooring.state import PodInfo
from tests.faults.parts.logged import logged
from tests.faults.parts.queue_plugins import HintCalls, SortWithoutKey, log_problems, reader
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.queue_twin import QueueTwin
from tests.helpers.queues import NODE_ADD, QUEUE, SKIP, Bench, Signer, framework_of, on, pod
from tests.machines.queue_model import EVENTS, REJECTORS
from tests.machines.queue_model import plugins as all_plugins

#: Calls of one run.
CALLS: Final = 700
WANTS: Final = ("x", "y")
URGENT: Final = 2
#: In such seeds, modulo five, a plugin has a pure hint and another one for the same event.
MIXED: Final = 4
MIXED_SHARE: Final = 0.3
#: A heap may have so many entries, stale ones included, whatever its size.
ITEMS_MIN: Final = 64

#: So many of the rejections are of the binding cycle.
BINDING_SHARE: Final = 0.2

#: Now and then a call is repeated: a namespace is deleted, say.
BURST: Final = 80
BURST_SHARE: Final = 0.01

WEIGHTS: Final = {
    "create": 6,
    "replace": 2,
    "delete": 2,
    "change": 6,
    "events": 6,
    "turn_door": 1,
    "activate": 3,
    "retry_after_backoff": 3,
    "wait": 10,
    "pop": 10,
    "end": 12,
    "detach": 2,
}
#: In such seeds, modulo seven, hints raise instead of queueing a pod, and gates too.
RAISES: Final = 6
#: In such seeds, modulo three, extenders reject pods, too.
EXTENDED: Final = 1
EXTENDED_SHARE: Final = 0.2
#: In such seeds, modulo eight, a plugin raises at many of the first pods, and so is broken.
BROKEN: Final = 3
#: In such seeds, modulo six, the plugin that sorts pods has no key.
WITHOUT_KEY: Final = 1
#: In such seeds, modulo four, pods have one of two profiles; the second one has fewer plugins.
PROFILES: Final = 3
OTHER: Final = "other"
#: So many events are recorded for pods in flight.
EVENTS_MAX: Final = (10_000, 10_000, 1, 2, 3, 8, 20)
#: In so many events nothing has changed; in others the object was another, or not there.
SAME_SHARE: Final = 0.6
OLD: Final = (*WANTS, None)
#: So many of the rejected pods are rejected by a plugin whose hint compares two versions.
READER_SHARE: Final = 0.15
#: So many of the pods that a plugin may gate are rejected by it, too.
GATE_REJECTS_SHARE: Final = 0.5
#: So many more retries are of a pod that may not be waiting.
ANY_RETRY_SHARE: Final = 0.3
#: Of the changes so many are of a quarantined pod, if there is one.
QUARANTINED_SHARE: Final = 0.4


class QueueUsers:
    """A queue with its model, and what changes it but for attempts: users and the cluster.

    Attributes:
        problems: What the queue did, and its model did not.

    Args:
        seed: Of all draws.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        options: dict[str, Any] = {
            "max_backoff_s": rng.choice((0.0, 4.0, 10.0, 10.0)),
            "max_unschedulable_s": rng.choice((15.0, 40.0, 300.0)),
            "pop_from_backoff": rng.random() < 0.6,
            "unschedulable_flush_interval_s": rng.choice((5.0, 30.0)),
        }
        self._is_door_open = True
        self._mixed = seeded_random(seed + 1_000_000) if seed % 5 == MIXED else None
        mixed = [_mixed_plugin()] if self._mixed is not None else []
        self._raises = seed % 7 == RAISES
        plugins = [*all_plugins(self._door), *mixed, reader(seeded_random(seed + 6_000_000))]
        if self._raises:
            for plugin in (it for it in plugins if hasattr(it, "registrations")):
                plugin.registrations = tuple(_raising(item) for item in plugin.registrations)
                if isinstance(plugin, Signer):
                    signer: Any = plugin
                    signer.sign = self._raising_sign(plugin)
        self._extended = seeded_random(seed + 3_000_000) if seed % 3 == EXTENDED else None
        self._is_broken = seed % 8 == BROKEN
        self._unsigned = seeded_random(seed + 4_000_000)
        self._unsigned_share = self._unsigned.choice((0.0, 0.0, 0.3))
        if self._raises:
            self._unsigned_share = 0.4
        #: How often a gate raised, and the sign of each plugin.
        self._n_gate_errors = 0
        self._sign_errors = Counter[str]()
        self._more, self._hints = seeded_random(seed + 2_000_000), HintCalls(plugins)
        self._schedulers = ("default-scheduler", OTHER)[: 1 + (seed % 4 == PROFILES)]
        sort = SortWithoutKey() if seed % 6 == WITHOUT_KEY else None
        frameworks = {"default-scheduler": framework_of(*plugins, sort=sort)}
        frameworks |= {name: framework_of(*plugins[:5]) for name in self._schedulers[1:]}
        if self._extended is not None:
            extender: Any = RejectingExtender()
            for framework in frameworks.values():
                framework.set_extenders([extender], self._extended.random)
        self._bench = Bench(schedulers=(), others=frameworks, recorder=self._hints, **options)
        self._queue, self._clock = self._bench.queue, self._bench.clock
        self._twin = twin = QueueTwin(self._bench.profiles, self._clock, QueueOptions(**options))
        self._limited = self._limit_events(seeded_random(seed + 5_000_000))
        self._binding = seeded_random(seed + 9_000_000)
        self._attached = AttachedQueue(self._queue, twin, self.problems.append)
        self._hints.follow(self._clock, lambda: self._attached._is_inside)
        self._pods_max = rng.choice((4, 4, 10, 150))  # so that heaps drop stale entries, or few
        #: The pods by name, and those whose attempt has not ended.
        self._pods: dict[str, PodInfo] = {}
        self._flights: list[tuple[QueuedPod, InFlightAttempt]] = []
        self._count = 0
        self._weights = {name: weight * rng.choice((0.3, 1, 1, 3)) for name, weight in _WEIGHTS}
        self._weights["create"] *= 1 + self._pods_max // 10
        self._failing_share = rng.choice((0.1, 0.3, 0.9))
        if self._raises:
            self._failing_share = 0.1  # what raises matters to pods that are rejected
        self._plugins = rng.choice((["First"], ["First", "First", "Second"]))

    def _limit_events(self, rng: Rng) -> Rng:
        """Draws how many events are recorded for pods in flight."""
        self._twin.events_max = self._queue._in_flight._max_events = rng.choice(EVENTS_MAX)
        return rng

    # -- pods -------------------------------------------------------------------------------------

    def _create(self) -> None:
        name = f"pod-{self._rng.randrange(self._pods_max)}"
        if name in self._pods:
            self._queue.add(self._pods[name])
            return
        new = self._pods[name] = self._new(name)
        if self._rng.random() < 0.8:
            self._queue.add(new)
        else:
            # Its creation was missed.
            self._queue.update(new, new)

    def _new(self, name: str) -> PodInfo:
        self._count += 1
        rng = self._rng
        gates = rng.choice((0, 0, 0, 1, 2))
        labels = {"wants": rng.choice(WANTS), **({"door": ""} if rng.random() < 0.2 else {})}
        if self._unsigned.random() < self._unsigned_share:
            labels["secret"] = ""  # plugins do not sign it
        return pod(
            name,
            uid=f"{name}-{self._count}",
            priority=rng.randrange(3),
            requests={"cpu": 2},
            labels=labels,
            gates=[f"gate-{number}" for number in range(gates)],
            scheduler_name=self._more.choice(self._schedulers),
        )

    def _replace(self) -> None:
        if (old := self._any_pod()) is None:
            return
        new = self._pods[old.metadata.name] = self._new(old.metadata.name)
        if self._rng.random() < 0.5:
            self._queue.update(old, new)
        else:
            self._queue.delete(old.uid)
            self._queue.add(new)

    def _delete(self) -> None:
        if (old := self._any_pod()) is not None:
            del self._pods[old.metadata.name]
            self._queue.delete(old.uid)

    def _change(self) -> None:
        """Changes up to three things of a pod at once."""
        quarantined = [it.pod for it in self._queue.pods() if it.is_quarantined]
        old = self._any_pod()
        if quarantined and self._more.random() < QUARANTINED_SHARE:
            old = self._more.choice(quarantined)
        if old is None or old.metadata.name not in self._pods:
            return
        changes = [self._change_label, self._change_annotation, self._change_spec, self._change_cpu]
        new = old.pod
        for change in self._rng.sample(changes, self._rng.choice((0, 1, 1, 2, 3))):
            new = change(new)
        if new is old.pod:
            new = replace(new, metadata=replace(new.metadata, resource_version="2"))
        info = self._pods[old.metadata.name] = PodInfo(new)
        self._queue.update(old, info)

    def _change_label(self, old: Any) -> Any:
        labels = {**old.metadata.labels, "wants": self._rng.choice(WANTS)}
        return replace(old, metadata=replace(old.metadata, labels=labels))

    def _change_annotation(self, old: Any) -> Any:
        annotations = {"touched": str(self._rng.randrange(5))}
        return replace(old, metadata=replace(old.metadata, annotations=annotations))

    def _change_spec(self, old: Any) -> Any:
        if old.spec.scheduling_gates and self._rng.random() < 0.7:
            return replace(old, spec=replace(old.spec, scheduling_gates=[]))
        if self._rng.random() < 0.2:
            return replace(old, spec=replace(old.spec, priority=self._rng.randrange(3)))
        more = pod("other", tolerations=["more"]).spec.tolerations
        return replace(old, spec=replace(old.spec, tolerations=[*old.spec.tolerations, *more]))

    def _change_cpu(self, old: Any) -> Any:
        containers = pod("other", requests={"cpu": self._rng.choice((1, 2))}).spec.containers
        return replace(old, spec=replace(old.spec, containers=containers))

    # -- the cluster ------------------------------------------------------------------------------

    def _events(self) -> None:
        rng = self._rng
        for kind in rng.choices(sorted(EVENTS), k=rng.choice((1, 1, 1, 3))):
            payload, most = rng.choice(WANTS), rng.randrange(3)
            only = (lambda info, most=most: info.priority <= most) if rng.random() < 0.2 else None
            old = payload if self._limited.random() < SAME_SHARE else self._limited.choice(OLD)
            self._queue.move(EVENTS[kind], old, payload, only=only)

    def _turn_door(self) -> None:
        self._is_door_open = not self._is_door_open

    def _door(self, info: PodInfo) -> Any:
        is_shut = "door" in info.metadata.labels and not self._is_door_open
        if is_shut and self._raises and _is_even(info):
            self._n_gate_errors += self._attached._is_inside
            raise ValueError("the door is broken")
        return Reject("shut") if is_shut else None

    def _raising_sign(self, plugin: Signer) -> Callable[[PodInfo], Any]:
        """Returns a function that signs a pod, or raises: such a pod is in no group."""
        sign = plugin.sign

        def broken(info: PodInfo) -> Any:
            if "secret" in info.metadata.labels:
                self._sign_errors[plugin.name] += self._attached._is_inside
                raise ValueError("sign is broken")
            return sign(info)

        return broken

    def _activate(self) -> None:
        chosen = [info for _ in range(self._rng.randrange(1, 5)) if (info := self._any_pod())]
        uids = list(dict.fromkeys([info.uid for info in chosen] + ["unknown"]))
        self._rng.shuffle(uids)
        self._queue.activate(uids)

    def _retry_after_backoff(self) -> None:
        waiting = [entry for entry in self._queue.pods() if entry.queue_name.waits_for_event]
        if waiting:
            self._queue.retry_after_backoff(self._rng.choice(waiting).uid)
        if self._limited.random() < ANY_RETRY_SHARE:
            # Of any pod, which may be in another queue, in flight, or gone.
            uids = [*self._twin.pods, *(it.uid for it in self._twin.flying.values()), "unknown"]
            self._queue.retry_after_backoff(self._limited.choice(uids))

    def _wait(self) -> None:
        """Lets time pass; the owner of the queue flushes it when it is due, or late."""
        self._clock.advance(self._rng.choice((0.1, 0.3, 1.0, 1.0, 2.0, 6.0, 31.0, 301.0)))
        if self._rng.random() < 0.8 and self._queue.next_flush_at_s() <= self._clock.monotonic_s():
            self._queue.flush()

    def _any_pod(self) -> PodInfo | None:
        return self._rng.choice(list(self._pods.values())) if self._pods else None


class QueueRun(QueueUsers):
    """One run."""

    def run(self) -> None:
        """Makes all calls, until one differs, and compares what was logged."""
        with logged(quarantine, queueing_hints, queues) as log:
            self._make_calls()
        self.problems += log_problems(log.lines, self._errors(), self._twin.quarantines)

    def _make_calls(self) -> None:
        if self._queue.resources() != self._twin.resources():
            self.problems.append(f"events of {self._queue.resources()} matter")
        if self._is_broken:
            self._break()
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(CALLS):
            action: Callable[[], None] = getattr(self, f"_{self._rng.choices(names, weights)[0]}")
            for _ in range(BURST if self._rng.random() < BURST_SHARE else 1):
                stale = self._stale()
                action()
                self._check_heaps(stale)
            self._attached.compare_metrics()
            self.problems += self._hints.problems()
            self._attached.compare_attempted()
            self._compare_errors()
            if self.problems:
                return

    def _break(self) -> None:
        """Lets a plugin raise at many of the first pods, mostly around half of them."""
        share = self._more.choice((0.7, 0.8, 1.0))
        for number in range(self._more.choice((20, 30, 40))):
            self._queue.add(self._new(f"broken-{number}"))
            while (entry := self._queue.pop()) is not None:
                with self._queue.in_flight(entry):
                    raises = self._more.random() < share
                    error = _plugin_error(self._more, ["First"]) if raises else None
                    self._queue.quarantine.failed(entry, error)
                self._attached.compare_attempted()

    def _compare_errors(self) -> None:
        """Compares how many errors of hints and of gates are counted."""
        counts: Counter[tuple[str, str]] = Counter()
        for framework in self._bench.profiles.values():
            counts.update(framework.errors.statistics())
        if counts != self._errors():
            self.problems.append(f"errors {dict(counts)}, not {dict(self._errors())}")

    def _errors(self) -> Counter[tuple[str, str]]:
        """Returns the errors of hints, gates and signatures by plugin and point."""
        errors = Counter({("Door", "PreEnqueue"): self._n_gate_errors})
        errors.update({(it, "QueueingHint"): n for it, n in self._hints.errors.items()})
        errors.update({(it, "Sign"): n for it, n in self._sign_errors.items()})
        return +errors

    # -- attempts ---------------------------------------------------------------------------------

    def _pop(self) -> None:
        for _ in range(self._rng.choice((1, 1, 2, 4))):
            if (entry := self._queue.pop()) is not None:
                self._flights.append((entry, self._queue.in_flight(entry)))

    def _end(self) -> None:
        """Ends an attempt: refused, failed, or without a result."""
        if not self._flights:
            return
        rng = self._rng
        entry, flight = self._flights.pop(rng.randrange(len(self._flights)))
        newest = self._pods.get(entry.pod.metadata.name)
        with flight:
            if newest is not None and rng.random() < 0.95:
                self._requeue(entry, newest)
            elif newest is not None and newest.uid == entry.uid:
                # It is bound, say, and not requeued.
                del self._pods[entry.pod.metadata.name]
            if rng.random() < 0.4:
                self._pop()

    def _requeue(self, entry: QueuedPod, newest: PodInfo) -> None:
        rng = self._rng
        if rng.random() < self._failing_share:
            is_of_plugin = rng.random() < 0.8
            error = _plugin_error(rng, self._plugins) if is_of_plugin else SchedulerError("none")
            self._queue.quarantine.failed(entry, error)
            self._queue.add_unschedulable(entry, newest)
            return
        self._queue.quarantine.failed(entry, None)
        refusing = rng.sample(REJECTORS, rng.choice((1, 1, 1, 2, 3)))
        if self._mixed is not None and self._mixed.random() < MIXED_SHARE:
            refusing.append("Mixed")
        if self._extended is not None and self._extended.random() < EXTENDED_SHARE:
            refusing = self._extended.choice((["Extender"], [*refusing, "Extender"]))
        if self._limited.random() < READER_SHARE:
            refusing.append("Reader")
        if "door" in newest.metadata.labels and self._limited.random() < GATE_REJECTS_SHARE:
            # A plugin may reject a pod that it also gates, before the pending ones or after them.
            refusing.insert(self._limited.choice((0, len(refusing))), "Door")
        n_pending = rng.choice((0, 0, 0, 1, 2))
        self._queue.add_unschedulable(
            entry,
            newest,
            refused_by=refusing[n_pending:],
            pending_on=refusing[:n_pending],
            is_binding=self._binding.random() < BINDING_SHARE,
        )

    def _detach(self) -> None:
        """Ends the recording of events: the pod is being bound, which succeeds or fails."""
        if not self._flights:
            return
        entry, flight = self._flights.pop(self._rng.randrange(len(self._flights)))
        with flight:
            flight.detach()
        newest = self._pods.get(entry.pod.metadata.name)
        if newest is None or newest.uid != entry.uid or self._rng.random() < 0.5:
            flight.done()
            self._pods = {name: it for name, it in self._pods.items() if it.uid != entry.uid}
            return
        if self._rng.random() < 0.5:
            # The events during its binding are not recorded.
            flight.done()
        self._requeue(entry, newest)
        self._pop()
        flight.done()

    def _stale(self) -> list[int]:
        return [len(heap._items) - len(heap) for heap in _heaps(self._queue)]

    def _check_heaps(self, stale_before: list[int]) -> None:
        """Checks that a call that left stale entries has dropped them, if there are too many."""
        for heap, before in zip(_heaps(self._queue), stale_before, strict=True):
            n_stale = len(heap._items) - len(heap)
            if n_stale > before and len(heap._items) > max(ITEMS_MIN, 2 * len(heap)):
                self.problems.append(f"a heap of {len(heap)} pods has {n_stale} stale entries")
        counted = sum(self._queue.counts().values())
        flying = self._queue.counts()[QueueName.IN_FLIGHT]
        if counted != len(self._queue.pods()) + flying:
            self.problems.append(f"{counted} pods are counted, not {len(self._queue.pods())}")


_WEIGHTS: Final = list(WEIGHTS.items())


def _heaps(queue: Any) -> list[Any]:
    return [queue._queues._active, *queue._queues.backoff._heaps]


def _mixed_plugin() -> Any:
    """Returns a plugin that signs the labels of pods, and has a hint that reads more than that."""
    return Signer("Mixed", on(NODE_ADD, _wants, pure=True), on(NODE_ADD, _is_urgent))


def _raising(item: ClusterEventWithHint) -> ClusterEventWithHint:
    """Returns a registration whose hint raises for some pods, and returns nothing for others."""
    hint = item.hint
    if hint is None:
        return item

    def broken(info: PodInfo, old: Any, new: Any) -> Any:
        result = hint(info, old, new)
        if result is not QUEUE:
            return result
        if item.pure or _is_even(info):
            raise ValueError("the hint is broken")
        return None

    return ClusterEventWithHint(item.event, broken, pure=item.pure)


class RejectingExtender:
    """An extender: the run says which pods it rejects, so it is not called."""

    name = "http://extender"
    is_ignorable = False
    weight = 1
    has_filter = True
    has_prioritize = has_preempt = has_bind = False

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns True for each pod."""
        del pod
        return True


def _is_even(info: PodInfo) -> bool:
    return int(info.uid.rpartition("-")[2]) % 2 == 0


def _wants(info: PodInfo, old: Any, new: Any) -> QueueingHint:
    del old
    return QUEUE if info.metadata.labels["wants"] == new else SKIP


def _is_urgent(info: PodInfo, old: Any, new: Any) -> QueueingHint:
    del old, new
    return QUEUE if info.priority == URGENT else SKIP


def _plugin_error(rng: Rng, plugins: list[str]) -> PluginError:
    """Returns an error of a plugin: mostly an exception, at times one of the network."""
    error = PluginError(rng.choice(plugins), "Filter", "broken")
    try:
        raise OSError("no route") if rng.random() < 0.1 else ValueError("a bug")
    except (OSError, ValueError) as cause:
        error.__cause__ = cause if rng.random() < 0.9 else None
    return error


def run_queue(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the queue differs from its model.
    """
    run = QueueRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
