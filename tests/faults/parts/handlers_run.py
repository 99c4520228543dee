"""Hundreds of changes of few pods, handled while the pods are attempted, bound, and given up.

The API server has a history. Its pods have gates, and nominations of a cluster autoscaler; they are
replaced under their name, and bound by others; and it is restored from a backup, so that a bound
pod is pending again, or a deleted one is back. The watch merges changes, or misses the last version
of a deleted pod. The models are those of whole runs: the calls of the queue at each change,
the nominations, and the room that pods leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Rng, seeded_random
from mooring.framework import Reject
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.objects.pod import Pod
from mooring.queue import InFlightAttempt, QueuedPod, QueueOptions
from mooring.scheduler.event_handlers import EventHandlers
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.harness.scheduler_checker import (
    cache_problems,
    nomination_problems,
    queue_problems,
)
from tests.faults.twins.attached_handlers import AttachedHandlers
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.freed import FreedRoom
from tests.faults.twins.nominations import AttachedNominations
from tests.faults.twins.queue_twin import QueueTwin
from tests.faults.twins.recorded_calls import RecordedCalls
from tests.helpers.queues import POD_GONE, Bench, GatePlugin, Refuser, on

CALLS: Final = 250
PODS: Final = 6
NODES: Final = ("a", "b")
PRIORITIES: Final = (0, 5, 10)
#: A restore goes back by so many writes at most.
BACK_MAX: Final = 40
DELETED: Final = "2026-01-01T00:00:00Z"
WEIGHTS: Final = {
    "create": 5,
    "delete": 2,
    "replace": 1,
    "nominate": 3,
    "clear_nomination": 2,
    "ungate": 2,
    "terminate": 1,
    "finish": 1,
    "bind_elsewhere": 1,
    "relabel": 1,
    "restore": 0.3,
    "watch": 12,
    "attempt": 8,
    "settle": 6,
    "wait": 4,
}


class Binding:
    """A pod that is assumed on a node, and not bound yet."""

    def __init__(
        self, entry: QueuedPod, flight: InFlightAttempt, node: str, waiting: WaitingPod | None
    ) -> None:
        self.entry = entry
        self.flight = flight
        self.node = node
        self.waiting = waiting


class PodHistory:
    """The pods of an API server after each write.

    Attributes:
        stored: Name -> the stored pod.
        count: Number of writes, of which each has a version.
    """

    def __init__(self, rng: Rng) -> None:
        self.stored: dict[str, Pod] = {}
        self.count = 0
        self._rng = rng
        self._states: list[dict[str, Pod]] = [{}]

    def any(self, selects: Callable[[Pod], bool] = lambda _: True) -> Pod | None:
        """Returns a pod."""
        chosen = [pod for pod in self.stored.values() if selects(pod)]
        return self._rng.choice(chosen) if chosen else None

    def store(self, pod: Pod, **status: Any) -> None:
        """Stores a pod in a new version."""
        self.count += 1
        metadata = replace(pod.metadata, resource_version=str(self.count))
        stored = replace(pod, metadata=metadata, status=replace(pod.status, **status))
        self.stored[pod.metadata.name] = stored
        self._states.append(dict(self.stored))

    def remove(self, pod: Pod) -> None:
        """Removes a pod."""
        del self.stored[pod.metadata.name]
        self._states.append(dict(self.stored))

    def backup(self, back: int) -> dict[str, Pod]:
        """Returns the pods before the last so many writes."""
        return dict(self._states[-min(back, len(self._states))])

    def restore(self, backup: dict[str, Pod]) -> None:
        """Goes back to earlier pods."""
        self.stored = backup
        self._states.append(dict(self.stored))

    def last_version(self, pod: Pod) -> Pod:
        """Returns the last stored version of a pod that is deleted."""
        name, uid = pod.metadata.name, pod.metadata.uid
        for pods in reversed(self._states):
            if name in pods and pods[name].metadata.uid == uid:
                return pods[name]
        return pod


class HandlersRun:
    """One run.

    Attributes:
        problems: Differences to the models.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        gates = GatePlugin("SchedulingGates", _gate)
        self._bench = Bench(gates, Refuser("Fit", on(POD_GONE)))
        self._queue, self._cache = self._bench.queue, Cache()
        for name in NODES:
            self._cache.put_node(make_node(name))
        self._waiting, self._live = WaitingPods(), dict[str, Pod]()
        profiles = {"default-scheduler": self._bench.framework}
        self._events = EventHandlers(self._cache, self._queue, profiles, self._waiting)
        twin = QueueTwin(profiles, self._bench.clock, QueueOptions())
        attached = AttachedQueue(self._queue, twin, self.problems.append)
        service: Any = SimpleNamespace(
            queue=self._queue,
            cache=self._cache,
            events=self._events,
            profiles=profiles,
            handle=SimpleNamespace(waiting=self._waiting),
            informers={"Pod": SimpleNamespace(objects=self._live)},
        )
        self._service = service
        self._freed = FreedRoom(service, attached, self.problems.append)
        recorded = RecordedCalls(service, attached, self._bench.clock, self.problems.append)
        AttachedHandlers(service, attached, self.problems.append, recorded)
        self._nominations = AttachedNominations(service, self.problems.append)
        self._server = PodHistory(self._rng)
        self._bindings: list[Binding] = []
        self._weights = {
            name: weight * self._rng.choice((0.3, 1, 1, 3)) for name, weight in WEIGHTS.items()
        }

    def run(self) -> None:
        """Makes all calls, until one differs."""
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(CALLS):
            self._call(self._rng.choices(names, weights)[0])
            if self.problems:
                return
        self.problems += audit(self._cache)

    def _call(self, name: str) -> None:
        action: Callable[[], None] = getattr(self, f"_{name}")
        action()
        self._freed.on_step()
        self._nominations.compare(f"after {name}")
        for problems in (queue_problems, cache_problems, nomination_problems):
            self.problems += problems(self._service)

    # -- the API server ---------------------------------------------------------------------------

    def _create(self) -> None:
        name = f"pod{self._rng.randrange(PODS)}"
        if name in self._server.stored:
            return
        rng = self._rng
        self._server.count += 1
        pod = make_pod(
            name,
            uid=f"{name}-{self._server.count}",
            requests={"cpu": 1},
            priority=rng.choice(PRIORITIES),
            gates=["gate"] if rng.random() < 0.3 else [],
            scheduler_name="other" if rng.random() < 0.1 else "default-scheduler",
        )
        self._server.store(pod)
        if rng.random() < 0.3:
            # Before the watch reports it.
            self._server.store(self._server.stored[name], nominated_node_name=rng.choice(NODES))

    def _delete(self) -> None:
        if (pod := self._server.any()) is not None:
            self._server.remove(pod)

    def _replace(self) -> None:
        self._delete()
        self._create()

    def _nominate(self) -> None:
        """Nominates a pod, as a cluster autoscaler may."""
        if (pod := self._server.any(_is_pending)) is not None:
            self._server.store(pod, nominated_node_name=self._rng.choice(NODES))

    def _clear_nomination(self) -> None:
        if (pod := self._server.any(lambda pod: bool(pod.status.nominated_node_name))) is not None:
            self._server.store(pod, nominated_node_name="")

    def _ungate(self) -> None:
        if (pod := self._server.any(lambda pod: bool(pod.spec.scheduling_gates))) is not None:
            self._server.store(replace(pod, spec=replace(pod.spec, scheduling_gates=[])))

    def _terminate(self) -> None:
        if (pod := self._server.any()) is not None:
            self._server.store(
                replace(pod, metadata=replace(pod.metadata, deletion_timestamp=DELETED))
            )

    def _finish(self) -> None:
        """Ends a pod: its watch, which selects the others, reports it as deleted."""
        self._delete()

    def _bind_elsewhere(self) -> None:
        if (pod := self._server.any(_is_pending)) is not None:
            self._bind(pod, self._rng.choice(NODES))

    def _bind(self, pod: Pod, node: str) -> None:
        spec = replace(pod.spec, node_name=node, scheduling_gates=[])
        self._server.store(replace(pod, spec=spec), nominated_node_name="")

    def _relabel(self) -> None:
        if (pod := self._server.any()) is not None:
            labels = {"touched": str(self._rng.randrange(5))}
            self._server.store(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _restore(self) -> None:
        """Restores the server from a backup; all watches list anew.

        A pod that was bound twice, since the server was restored before, may be on another node in
        the backup. The scheduler ends then, as kube-scheduler, so there is no such restore.
        """
        backup = self._server.backup(self._rng.randrange(1, BACK_MAX))
        if any(_has_moved(self._live, pod) for pod in backup.values()):
            return
        self._server.restore(backup)
        for name in sorted({*self._live_names(), *self._server.stored}):
            self._deliver(name, is_watched=False)

    # -- the watch --------------------------------------------------------------------------------

    def _live_names(self) -> list[str]:
        return [pod.metadata.name for pod in self._live.values()]

    def _watch(self) -> None:
        """Reports the changes of some pods; as in an attempt with extenders, perhaps buffered."""
        rng = self._rng
        names = sorted({*self._live_names(), *self._server.stored})
        chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 2, PODS))))
        if rng.random() < 0.8:
            for name in chosen:
                self._deliver(name, is_watched=rng.random() < 0.8)
            return
        with self._events.buffer_events():
            for name in chosen:
                self._deliver(name, is_watched=rng.random() < 0.8)
                if rng.random() < 0.3:
                    self._act_meanwhile()
                    self._deliver(name, is_watched=True)

    def _act_meanwhile(self) -> None:
        name = self._rng.choice(("create", "delete", "replace", "nominate", "relabel", "terminate"))
        action: Callable[[], None] = getattr(self, f"_{name}")
        action()

    def _deliver(self, name: str, *, is_watched: bool) -> None:
        """Reports the newest version of a pod; of a replaced one first its deletion."""
        key = f"default/{name}"
        old, new = self._live.get(key), self._server.stored.get(name)
        if old is new:
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            del self._live[key]
            last = self._server.last_version(old) if is_watched else None
            self._events.on_change("Pod", ObjectChange(old, None, last))
            old = None
        if new is not None:
            self._live[key] = new
            self._events.on_change("Pod", ObjectChange(old, new))

    # -- the scheduler ----------------------------------------------------------------------------

    def _wait(self) -> None:
        self._bench.clock.advance(self._rng.choice((0.5, 2.0, 11.0)))
        if self._queue.next_flush_at_s() <= self._bench.clock.monotonic_s():
            self._queue.flush()

    def _attempt(self) -> None:
        """Tries a pod: it is placed, nominated, or rejected."""
        if (entry := self._queue.pop()) is None:
            return
        rng = self._rng
        with self._queue.in_flight(entry) as flight:
            pod = entry.pod
            if pod.metadata.deletion_timestamp is not None or self._cache.pods.get(pod.uid):
                return
            if rng.random() < 0.5:
                self._fail(entry, rng.choice((None, "", *NODES)))
                return
            node, waiting = rng.choice(NODES), None
            self._cache.nominator.remove(pod.uid)
            with self._cache.assume(pod.on_node(node), node) as reservation:
                reservation.keep()
            if rng.random() < 0.5:
                waiting = WaitingPod(pod, node, {"Permit": 60.0}, 0.0)
                self._waiting.add(waiting)
            flight.detach()
            self._bindings.append(Binding(entry, flight, node, waiting))

    def _settle(self) -> None:
        """Ends a wait in Permit, or a binding: the pod is bound, or it is not."""
        if not self._bindings:
            return
        binding = self._rng.choice(self._bindings)
        pod, waiting = binding.entry.pod, binding.waiting
        if waiting is not None:
            if waiting.status is None:
                waiting.allow("Permit")
            if waiting.status == () and self._rng.random() < 0.5:
                return  # its nomination is being written
            self._waiting.remove(pod.uid)
        self._bindings.remove(binding)
        stored = self._server.stored.get(pod.metadata.name)
        is_rejected = waiting is not None and bool(waiting.status)
        may_be_bound = not is_rejected and self._rng.random() < 0.7
        with binding.flight:
            is_same = stored is not None and stored.metadata.uid == pod.uid
            if stored is not None and is_same and _is_pending(stored) and may_be_bound:
                self._bind(stored, binding.node)
            else:
                self._give_up(binding)
        binding.flight.done()
        if not self._cache.is_assumed(pod.uid):
            # A restore has brought it back: only the watch knows that it is bound.
            self._deliver(pod.metadata.name, is_watched=True)

    def _give_up(self, binding: Binding) -> None:
        uid = binding.entry.uid
        placed = self._cache.pods.get(uid)
        if self._cache.is_assumed(uid):
            self._cache.forget(uid)
        self._fail(binding.entry, "")
        info = placed.info if placed is not None else binding.entry.pod.on_node(binding.node)
        self._queue.move(POD_GONE, info.pod, None, only=lambda other: other.uid != uid)

    def _fail(self, entry: QueuedPod, nominated: str | None) -> None:
        """Requeues a pod that still exists, with its new nomination."""
        live, nominator = self._live.get(entry.pod.key), self._cache.nominator
        self._nominations.model.failed(entry.uid, live, nominated)
        if live is None or live.metadata.uid != entry.uid or live.spec.node_name:
            nominator.remove(entry.uid)
            return
        info = entry.pod if entry.pod.pod is live else PodInfo(live)
        self._queue.quarantine.failed(entry, None)
        self._queue.add_unschedulable(entry, info, refused_by=["Fit"])
        node = live.status.nominated_node_name if nominated is None else nominated
        nominator.remove(entry.uid)
        if node:
            nominator.nominate(info, node)


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name


def _gate(info: PodInfo) -> Any:
    return Reject("gated") if info.spec.scheduling_gates else None


def _has_moved(live: Mapping[str, Pod], pod: Pod) -> bool:
    """Returns whether the pod was reported on another node."""
    reported = live.get(f"default/{pod.metadata.name}")
    return (
        reported is not None
        and reported.metadata.uid == pod.metadata.uid
        and "" != reported.spec.node_name != pod.spec.node_name != ""
    )


def run_handlers(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a change is not handled as the models say.
    """
    run = HandlersRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
