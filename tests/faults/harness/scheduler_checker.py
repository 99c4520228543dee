"""What must hold inside the scheduler, after every step and at rest, and who looks."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.service import Service
from mooring.state.audit import audit
from mooring.state.cache import Cache
from tests.faults.harness.checkers import Decisions, Findings
from tests.faults.harness.faults import now_s
from tests.faults.harness.preemption_checker import unjustified_evictions
from tests.faults.harness.reference_fit import fit_error


class SchedulerChecker(Observer):
    """Told of every decision, and looks at the scheduler after every step in which anything moved.

    Attributes:
        service: The scheduler; set once it is made.
        messages: UID -> (time, message) of the last failed attempt of a pod without a node.
        attempts: How many decisions were made.
        binds: How many pods the scheduler says it has bound.
        preemptions: How often pods were to leave for another one.
    """

    def __init__(self, findings: Findings, decisions: Decisions) -> None:
        self.service: Service | None = None
        self.messages: dict[str, tuple[float, str]] = {}
        self.attempted_at_s: dict[str, float] = {}
        self.attempts = 0
        self.preemptions = 0
        self.binds = 0
        self._findings = findings
        self._trace = findings.trace
        self._decisions = decisions
        self._seen: tuple[object, ...] = ()
        self._audited = -1

    # -- an observer ------------------------------------------------------------------------------

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Into the trace."""
        self._trace.add(now_s(), f"moved {entry.pod.key} {entry.uid} {queue_name.value} {why}")

    def attempted(self, entry: QueuedPod, attempt: Attempt, found: Placement | Diagnosis) -> None:
        """S4 and S7: the decision against the reference, on the state that it was made on."""
        del attempt
        self.attempts += 1
        pod = entry.pod.pod
        self.attempted_at_s[entry.uid] = now_s()
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            self._findings.broken("S7", f"{entry.pod.key} is gated or deleted, and was tried")
        if isinstance(found, Diagnosis):
            self._trace.add(now_s(), f"refused {entry.pod.key} {found.message}")
            return
        self._trace.add(now_s(), f"chose {entry.pod.key} {entry.uid} {found.node_name}")
        self._decisions.note(entry.uid, found.node_name)
        cache = self._cache
        row = cache.nodes.live_row(found.node_name)
        others = [placed.info.pod for placed in cache.pods.on_row(row)]
        why = fit_error(pod, cache.nodes.node(row), others)
        if why:
            self._findings.broken("S4", f"{entry.pod.key} does not fit {found.node_name}: {why}")

    def preempts(self, entry: QueuedPod, room: PostFilterResult) -> None:
        """S6, on the state that it was decided on."""
        self.preemptions += 1
        victims = ", ".join(victim.key for victim in room.victims)
        self._trace.add(now_s(), f"preempts {entry.pod.key} {room.node_name} {victims}")
        for told in unjustified_evictions(entry.pod, room, self._cache):
            self._findings.broken("S6", told)
        for victim in room.victims:
            self._decisions.evictions.note(victim.uid, entry.uid)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Into the trace."""
        del waiting
        self._trace.add(now_s(), f"waits {entry.pod.key} {node_name}")

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Into the trace."""
        self._trace.add(now_s(), f"allowed {entry.pod.key} {node_name}")

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Into the trace."""
        self.binds += 1
        self.messages.pop(entry.uid, None)
        self._trace.add(now_s(), f"bound {entry.pod.key} {entry.uid} {node_name}")

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Remember what has to stand in the pod's condition."""
        text = str(why) if isinstance(why, SchedulerError) else why.message
        self.messages[entry.uid] = (now_s(), text)
        self._trace.add(now_s(), f"failed {entry.pod.key} {text}")

    # -- after every step -------------------------------------------------------------------------

    @property
    def _cache(self) -> Cache:
        assert self.service is not None
        return self.service.cache

    def on_step(self) -> None:
        """Look at everything, if anything has moved since the last time.

        Raises:
            InvariantBroken: something is wrong, here or on the server.
        """
        service = self.service
        if service is None:
            return
        versions = [informer.version for informer in service.informers.values()]
        seen = (len(self._trace), *versions)
        if seen == self._seen:
            return
        self._seen = seen
        for rule, told in self._problems(service):
            self._findings.broken(rule, told)
        self._findings.raise_first()

    def _problems(self, service: Service) -> Iterator[tuple[str, str]]:
        for told in misplaced(service):
            yield "L1", told
        for told in miscounted(service):
            yield "S3", told
        generation = service.cache.nodes.log.generation
        if generation != self._audited:
            self._audited = generation
            for told in audit(service.cache):
                yield "S3", told


def misplaced(service: Service) -> Iterator[str]:
    """L1: every pending pod is in exactly one place, and nothing else is in the queue."""
    pods, queue, cache = service.informers["Pod"].objects, service.queue, service.cache
    known = _buffered_pods(service)
    for name, pod in pods.items():
        uid = pod.metadata.uid
        if uid in known:
            continue
        known.add(uid)
        is_ours = (pod.spec.scheduler_name or "default-scheduler") in service.profiles
        is_queued, is_held = queue.get(uid) is not None, cache.is_assumed(uid)
        if is_queued and (pod.spec.node_name or not is_ours):
            yield f"{name} is queued, and is not to be placed"
        if pod.spec.node_name or not is_ours or pod.metadata.deletion_timestamp is not None:
            continue
        is_flying = queue.queue_of(uid) is QueueName.IN_FLIGHT
        if is_queued + (is_held or is_flying) != 1:
            told = f"queued: {is_queued}, held: {is_held}, in flight: {is_flying}"
            yield f"{name} ({uid}) is not in exactly one place: {told}"
    for entry in queue.pods():
        if entry.uid not in known:
            yield f"{entry.pod.key} ({entry.uid}) is queued, and is no pod any more"


def _buffered_pods(service: Service) -> set[str]:
    """The pods whose news waits for an extender's answer: nothing is known of them by now."""
    return {uid for kind, uid in service.events.buffered if kind == "Pod"}


def miscounted(service: Service) -> Iterator[str]:
    """S3: the cache has the pods that the informer has on nodes, and those that are assumed."""
    cache = service.cache
    known = _buffered_pods(service)
    placed = known.copy()
    for name, pod in service.informers["Pod"].objects.items():
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        if uid in known:
            continue
        known.add(uid)
        if not node_name:
            continue
        placed.add(uid)
        found = cache.pods.get(uid)
        at = cache.nodes.names[found.row] if found is not None else "no node"
        if at != node_name:
            yield f"{name} is on {node_name}, and counted on {at}"
    for each in cache.pods:
        uid = each.info.uid
        is_assumed = cache.is_assumed(uid)
        if uid not in placed and not is_assumed:
            yield f"{each.info.key} ({uid}) is counted, and is no pod any more"
        # One that waits in Permit has been turned back by now, and lets go in its next step.
        if is_assumed and uid not in known and service.handle.waiting.get(uid) is None:
            yield f"{each.info.key} ({uid}) is assumed, and is no pod any more"


def leaks(service: Service) -> Iterator[str]:
    """L5: what there must be none of when nothing is going on."""
    queue = service.queue
    counts = {
        "events of pods in flight": queue.in_flight_events,
        "pods in flight": queue.counts()[QueueName.IN_FLIGHT],
        "assumed pods": service.cache.assumed_count(),
        "bindings": len(service.bindings),
        "preemptions": len(service.preemption_executor),
        "pods that wait in Permit": len(list(service.handle.waiting_pods())),
        "conditions to be written": len(service.writer),
        "events to be written": sum(len(each) for each in service.recorders.values()),
    }
    for what, count in counts.items():
        if count:
            yield f"{count} {what}"
