"""The invariants of the scheduler's queue and cache, checked after every step and at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.errors import PluginError, SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.scheduler.service import Service
from mooring.state.audit import audit
from mooring.state.cache import Cache
from tests.faults.harness.checkers import Decisions, Findings
from tests.faults.harness.faults import now_s
from tests.faults.harness.preemption_checker import (
    budget_paths,
    missing_victims,
    repeated_evictions,
    unjustified_evictions,
)
from tests.faults.harness.reference_topology import World
from tests.faults.harness.wakeup_checker import WakeupChecker

#: F16: before this exception at a pod, and later ones, there is a pause of so many seconds.
RAISES_MAX: Final = 4
QUARANTINE_S: Final = 300.0


class SchedulerChecker(Observer):
    """Observes every decision, and checks the scheduler after every step that changed anything.

    Attributes:
        service: The scheduler; set after it is created.
        messages: UID -> (time, message) of the last failed attempt of a pod without a node.
        attempts: Number of scheduling attempts.
        binds: Number of pods that the scheduler reported as bound.
        preemptions: Number of preemptions.
        wakeups: Checks the unschedulable pods; the scenario calls it once per second.
    """

    def __init__(self, findings: Findings, decisions: Decisions) -> None:
        self.service: Service | None = None
        self.messages: dict[str, tuple[float, str]] = {}
        self.attempted_at_s: dict[str, float] = {}
        self.attempts = 0
        self.preemptions = 0
        self.binds = 0
        self.wakeups = WakeupChecker()
        self._findings = findings
        self._trace = findings.trace
        self._decisions = decisions
        self._checked: tuple[object, ...] = ()
        self._audited = -1
        #: UID -> what a user may edit of the pod and the plugin that raised; when it did, in a row.
        self._raised: dict[str, tuple[object, list[float]]] = {}
        #: Of the last attempt that failed.
        self._diagnosis: Diagnosis | None = None

    def count(self, path: str) -> None:
        """Counts a path of a run."""
        self._findings.count(path)

    # -- an observer ------------------------------------------------------------------------------

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Adds the event to the trace."""
        self._findings.count(f"queue {queue_name.value}")
        self._trace.add(now_s(), f"moved {entry.pod.key} {entry.uid} {queue_name.value} {why}")

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Checks S4 and S7: compares the decision with the reference, on the same state."""
        del attempt
        self.attempts += 1
        pod = entry.pod.pod
        self.attempted_at_s[entry.uid] = now_s()
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            self._findings.report(
                "S7", f"{entry.pod.key} is gated or terminating, but was attempted"
            )
        if isinstance(result, Diagnosis):
            self._trace.add(now_s(), f"refused {entry.pod.key} {result.message}")
            self._diagnosis = result
            if self.service is not None:
                self.wakeups.rejected(entry, self.service)
            return
        self._trace.add(now_s(), f"chose {entry.pod.key} {entry.uid} {result.node_name}")
        self._decisions.note(entry.uid, result.node_name)
        self.wakeups.chosen(entry)
        cache = self._cache
        nodes = {node.metadata.name: node for node in cache.nodes.objects if node is not None}
        placed = [(other.info.pod, cache.nodes.names[other.row]) for other in cache.pods]
        why = World(nodes, placed).fit_error(pod, result.node_name)
        if why:
            self._findings.report("S4", f"{entry.pod.key} does not fit {result.node_name}: {why}")
            return
        nominated = [
            (other.pod, result.node_name)
            for other in cache.nominator.pods_on(result.node_name)
            if other.uid != entry.uid and other.priority >= entry.pod.priority
        ]
        if nominated:
            self._findings.count("placed beside nominated pods")
            nominated = World(nodes, placed).nominated_for(pod, nominated)
            why = World(nodes, placed + nominated).fit_error(pod, result.node_name)
        if why:
            message = f"{entry.pod.key} takes the place of pods nominated to {result.node_name}"
            self._findings.report("S4", f"{message}: {why}")

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Checks S6 on the state of the decision."""
        self.preemptions += 1
        self._findings.count("preemption")
        if len(post_filter_result.victims) > 1:
            self._findings.count("preemption of several")
        for path in budget_paths(post_filter_result, self._cache):
            self._findings.count(path)
        victims = ", ".join(victim.key for victim in post_filter_result.victims)
        self._trace.add(
            now_s(), f"preempts {entry.pod.key} {post_filter_result.node_name} {victims}"
        )
        for message in missing_victims(post_filter_result, self._cache):
            self._findings.report("S6", f"{entry.pod.key}: {message}")
        for message in unjustified_evictions(entry.pod, post_filter_result, self._cache):
            self._findings.report("S6", message)
        for message in repeated_evictions(
            entry.pod, self._diagnosis, self._decisions.evictions, self._cache
        ):
            self._findings.report("S6", message)
        for victim in post_filter_result.victims:
            self._decisions.evictions.note(victim.uid, entry.uid)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Adds the event to the trace."""
        del waiting
        self._findings.count("Permit waits")
        self._trace.add(now_s(), f"waits {entry.pod.key} {node_name}")

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Adds the event to the trace."""
        self._findings.count("Permit allowed")
        self._trace.add(now_s(), f"allowed {entry.pod.key} {node_name}")

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Adds the event to the trace."""
        self.binds += 1
        self._findings.count("bound")
        self.messages.pop(entry.uid, None)
        self._trace.add(now_s(), f"bound {entry.pod.key} {entry.uid} {node_name}")

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Records the message that the pod's condition must have."""
        text = error_text(why) if isinstance(why, SchedulerError) else why.message
        self.messages[entry.uid] = (now_s(), text)
        # An attempt in which a plugin raised has no decision.
        self.attempted_at_s[entry.uid] = now_s()
        self._findings.count(f"failed {_kind_of(why, text)}")
        if isinstance(why, PluginError) and why.location:
            self._check_quarantine(entry, why.plugin)
        else:
            self._raised.pop(entry.uid, None)
        self._trace.add(now_s(), f"failed {entry.pod.key} {text}")

    def _check_quarantine(self, entry: QueuedPod, plugin: str) -> None:
        """Checks F16: the fourth exception of a plugin comes five minutes after the third."""
        # A user who edits the pod ends its quarantine.
        pod = entry.pod.pod
        state = pod.metadata.labels, pod.metadata.annotations, pod.spec, plugin
        before, times = self._raised.get(entry.uid, (None, []))
        times = [*times, now_s()] if before == state else [now_s()]
        self._raised[entry.uid] = state, times
        if len(times) >= RAISES_MAX and times[-1] - times[-2] < QUARANTINE_S - 1.0:
            message = f"{entry.pod.key} raised {len(times)} times, but was not quarantined"
            self._findings.report("F16", message)

    # -- after every step -------------------------------------------------------------------------

    @property
    def _cache(self) -> Cache:
        assert self.service is not None
        return self.service.cache

    def on_step(self) -> None:
        """Checks all invariants, if anything has changed since the last check.

        Raises:
            InvariantBroken: one is violated, here or on the server.
        """
        service = self.service
        if service is None:
            return
        versions = [informer.version for informer in service.informers.values()]
        state = (len(self._trace), *versions)
        if state == self._checked:
            return
        self._checked = state
        for rule, message in self._problems(service):
            self._findings.report(rule, message)
        self._findings.raise_first()

    def _problems(self, service: Service) -> Iterator[tuple[str, str]]:
        for message in queue_problems(service):
            yield "L1", message
        for message in cache_problems(service):
            yield "S3", message
        for message in nomination_problems(service):
            yield "S3", message
        generation = service.cache.nodes.log.generation
        if generation != self._audited:
            self._audited = generation
            for message in audit(service.cache):
                yield "S3", message


def _kind_of(why: Diagnosis | Status | SchedulerError, text: str) -> str:
    """Returns why an attempt failed, in a few words."""
    if isinstance(why, SchedulerError):
        return f"with {type(why).__name__}"
    if "due to timeout" in text:
        return "as Permit expired"
    return "as rejected" if "rejected by" in text else "as no node fits"


def queue_problems(service: Service) -> Iterator[str]:
    """Yields violations of L1: pending pods not in exactly one state, and others in the queue."""
    pods, queue, cache = service.informers["Pod"].objects, service.queue, service.cache
    visited = _buffered_pods(service)
    for name, pod in pods.items():
        uid = pod.metadata.uid
        if uid in visited:
            continue
        visited.add(uid)
        is_ours = (pod.spec.scheduler_name or "default-scheduler") in service.profiles
        is_queued, is_assumed = queue.get(uid) is not None, cache.is_assumed(uid)
        if is_queued and (pod.spec.node_name or not is_ours):
            yield f"{name} is queued, but must not be scheduled"
        if pod.spec.node_name or not is_ours or pod.metadata.deletion_timestamp is not None:
            continue
        is_in_flight = queue.queue_of(uid) is QueueName.IN_FLIGHT
        entry = queue.get(uid)
        if entry is not None and entry.pod.pod is not pod:
            version = entry.pod.metadata.resource_version
            yield f"{name} is queued in version {version}, not {pod.metadata.resource_version}"
        if is_queued + (is_assumed or is_in_flight) != 1:
            message = f"queued: {is_queued}, assumed: {is_assumed}, in flight: {is_in_flight}"
            yield f"{name} ({uid}) is not in exactly one state: {message}"
    for entry in queue.pods():
        if entry.uid not in visited:
            yield f"{entry.pod.key} ({entry.uid}) is queued, but does not exist"


def _buffered_pods(service: Service) -> set[str]:
    """Returns the pods with buffered events: an extender is called, so their state is stale."""
    return {uid for kind, uid in service.events.buffered if kind == "Pod"}


def cache_problems(service: Service) -> Iterator[str]:
    """Yields violations of S3: the cache holds the informer's bound pods and the assumed ones."""
    cache = service.cache
    visited = _buffered_pods(service)
    placed = visited.copy()
    for name, pod in service.informers["Pod"].objects.items():
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        if uid in visited:
            continue
        visited.add(uid)
        if not node_name:
            continue
        placed.add(uid)
        cached = cache.pods.get(uid)
        at = cache.nodes.names[cached.row] if cached is not None else "no node"
        if at != node_name:
            yield f"{name} is on {node_name}, but counted on {at}"
    for cached_pod in cache.pods:
        uid = cached_pod.info.uid
        is_assumed = cache.is_assumed(uid)
        if not is_assumed and cache._uid_of.get(cached_pod.info.key) != uid:
            yield f"{cached_pod.info.key} ({uid}) is counted, but not found by its name"
        if uid not in placed and not is_assumed:
            yield f"{cached_pod.info.key} ({uid}) is counted, but does not exist"
        # A pod in Permit has been rejected by now, and is released in the next step. One that
        # Permit had allowed is released at once.
        waiting = service.handle.waiting.get(uid)
        is_rejected = waiting is not None and bool(waiting.status)
        if is_assumed and uid not in visited and not is_rejected:
            yield f"{cached_pod.info.key} ({uid}) is assumed, but does not exist"


def nomination_problems(service: Service) -> Iterator[str]:
    """Yields violations of S3: nominations of pods that are bound, assumed, or do not exist."""
    visited = _buffered_pods(service)
    objects = service.informers["Pod"].objects.values()
    pending = {pod.metadata.uid for pod in objects if not pod.spec.node_name}
    for info, node_name in service.cache.nominator.pods():
        if info.uid in visited:
            continue
        if info.uid not in pending or service.cache.is_assumed(info.uid):
            yield f"{info.key} ({info.uid}) is not pending, but nominated to {node_name}"


def leaks(service: Service) -> Iterator[str]:
    """Yields violations of L5: resources that must not exist when the scheduler is idle."""
    queue = service.queue
    counts = {
        "events of pods in flight": queue.in_flight_events,
        "pods in flight": queue.counts()[QueueName.IN_FLIGHT],
        "assumed pods": service.cache.assumed_count(),
        "bindings": len(service.bindings),
        "preemptions": len(service.preemption_executor),
        "pods waiting in Permit": len(list(service.handle.waiting_pods())),
        "queued status updates": len(service.writer),
        "queued events": sum(len(recorder) for recorder in service.recorders.values()),
    }
    for what, count in counts.items():
        if count:
            yield f"{count} {what}"
