"""Notes what becomes of every pod, node and job of a run, one row each."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.objects.meta import controller_of, key
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.queue import QueuedPod
from mooring.scenario.tables.events import ERROR, REFUSED, REJECTED, EventLog
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.clock import Clock
    from mooring.scenario.usage import ClusterUsage

#: The states of a pod at its end, or at the end of the run.
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
DELETED: Final = "Deleted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
STATES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED, DELETED, EVICTED, PREEMPTED)
_STATE_OF: Final = {state: number for number, state in enumerate(STATES)}
_NAN: Final = math.nan


class PodRows:
    """The pods of a run as columns; a pod without a node or an end has nan there."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.names: list[str] = []
        self.groups: list[str] = []
        self.nodes: list[str] = []
        self.priorities = array("q")
        self.submitted_s = array("d")
        self.bound_s = array("d")
        self.finished_s = array("d")
        self.lost_s = array("d")
        self.attempts = array("q")
        self.states = array("b")
        self.requests = {resource: array("q") for resource in resources}

    def __len__(self) -> int:
        """Returns the number of pods."""
        return len(self.names)

    def add(self, pod: Pod, group: str, at_s: float, shape: tuple[int, ...]) -> int:
        """Adds a pod; returns its row."""
        self.names.append(key(pod))
        self.groups.append(group)
        self.nodes.append("")
        self.priorities.append(pod.spec.priority or 0)
        self.submitted_s.append(at_s)
        self.bound_s.append(_NAN)
        self.finished_s.append(_NAN)
        self.lost_s.append(0.0)
        self.attempts.append(0)
        self.states.append(0)
        for column, amount in zip(self.requests.values(), shape, strict=False):
            column.append(amount)
        return len(self.names) - 1


class JobRow:
    """One Job: when it came, when its first pod ran, when it ended, and how."""

    __slots__ = ("finished_s", "group", "name", "started_s", "state", "submitted_s")

    def __init__(self, name: str, group: str, submitted_s: float) -> None:
        self.name = name
        self.group = group
        self.submitted_s = submitted_s
        self.started_s = _NAN
        self.finished_s = _NAN
        self.state = RUNNING


class NodeRow:
    """One node: when it was added and removed, and how many pods were bound to it."""

    __slots__ = ("added_s", "name", "removed_s", "used")

    def __init__(self, name: str, added_s: float) -> None:
        self.name = name
        self.added_s = added_s
        self.removed_s = _NAN
        #: Pods that were bound to it.
        self.used = 0


class History(Observer):
    """Follows the writes of a cluster, and the attempts of its scheduler.

    Attributes:
        pods: A row for every pod.
        jobs: By "namespace/name".
        nodes: All nodes that there ever were, in order.
        refusals: Plugin -> failed attempts that it had a part in.
        reasons: Key -> the last message of pods that wait.
        counts: Events by name: evictions, preemptions, errors.
        events: The events that the rows do not have.
        group_of: Returns the group of a pod.
        on_pending: Called when a pod was refused, for an autoscaler.
        running_since: Returns when a pod began to run; infinity if it does not.

    Args:
        usage: Gives the requests of pods.
        clock: Virtual time.
    """

    def __init__(self, usage: ClusterUsage, *, clock: Clock) -> None:
        self.pods = PodRows(usage.resources)
        self.jobs: list[JobRow] = []
        self._job_rows: dict[str, JobRow] = {}
        self.nodes: list[NodeRow] = []
        self.refusals: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.events = EventLog(clock)
        self.group_of: Callable[[Pod], str] = lambda _: ""
        self.on_pending: Callable[[], None] = lambda: None
        self.running_since: Callable[[str], float] = lambda _: math.inf
        self._usage = usage
        self._clock = clock
        self._rows: dict[str, int] = {}
        self._nodes: dict[str, NodeRow] = {}
        #: Key -> the state of a pod that is about to leave, and since when it is.
        self._ends: dict[str, tuple[str, float]] = {}

    # -- objects ----------------------------------------------------------------------------------

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows a write."""
        if kind == "Pod":
            self._on_pod(change.old, change.new)
        elif kind == "Node":
            self._on_node(change.old, change.new)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        now_s = self._clock.monotonic_s()
        if old is None and new is not None:
            shape = self._usage.shape_of(new)
            row = self.pods.add(new, self.group_of(new), now_s, shape)
            self._rows[self.pods.names[row]] = row
            self._note_gates(None, new)
            if new.spec.node_name:
                self._bind(row, new, now_s)
            return
        if new is None:
            assert old is not None
            self._leave(old, now_s)
        elif old is not None and new.spec.node_name and not old.spec.node_name:
            pod_key = key(new)
            row = self._rows[pod_key]
            self.reasons.pop(pod_key, None)
            self._bind(row, new, now_s)
        elif old is not None and _has_finished(old, new):
            self._end(self._rows[key(new)], new.status.phase, now_s)
        else:
            self._note_gates(old, new)

    def _note_gates(self, old: Pod | None, new: Pod) -> None:
        gates = new.spec.scheduling_gates
        if gates != (old.spec.scheduling_gates if old is not None else ()):
            self.events.gated(key(new), [gate.name for gate in gates])

    def _bind(self, row: int, pod: Pod, now_s: float) -> None:
        pods, node = self.pods, pod.spec.node_name
        pods.nodes[row] = node
        pods.bound_s[row] = now_s
        pods.states[row] = _STATE_OF[RUNNING]
        if node in self._nodes:
            self._nodes[node].used += 1
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind == "Job":
            job = self._job_rows.get(f"{pod.metadata.namespace}/{owner.name}")
            if job is not None and math.isnan(job.started_s):
                job.started_s = now_s

    def _end(self, row: int, state: str, now_s: float) -> None:
        self.pods.states[row] = _STATE_OF[state]
        self.pods.finished_s[row] = now_s

    def _leave(self, pod: Pod, now_s: float) -> None:
        pod_key = key(pod)
        row = self._rows.pop(pod_key)
        self.reasons.pop(pod_key, None)
        state, noted_s = self._ends.pop(pod_key, (DELETED, now_s))
        if pod.status.phase not in FINISHED_PHASES:
            self._end(row, state, now_s)
            if state in (EVICTED, PREEMPTED):
                self._lose(row, pod_key, noted_s)

    def will_end(self, pod_key: str, state: str) -> None:
        """Notes the state of a pod that is about to be removed."""
        self._ends[pod_key] = state, self._clock.monotonic_s()

    def evicted(self, pod_key: str) -> None:
        """Notes a pod that a drain, a crash or the autoscaler evicts."""
        self.counts["evictions"] += 1
        if pod_key in self._rows:
            self.will_end(pod_key, EVICTED)

    def crashed(self, pod_key: str) -> None:
        """Notes a pod whose run is about to end with its node."""
        row = self._rows.get(pod_key)
        if row is not None:
            self._lose(row, pod_key, self._clock.monotonic_s())

    def _lose(self, row: int, pod_key: str, until_s: float) -> None:
        """Counts the work of a pod that is lost: all since it began to run."""
        since_s = self.running_since(pod_key)
        if since_s < until_s:
            self.pods.lost_s[row] += until_s - since_s

    def _on_node(self, old: Any, new: Any) -> None:
        now_s = self._clock.monotonic_s()
        if old is None:
            self.add_node(new.metadata.name, now_s)
        elif new is None:
            self._nodes.pop(old.metadata.name).removed_s = now_s
            self.events.node_removed(old.metadata.name)
        if new is not None:
            self.events.node(new)

    def add_node(self, name: str, at_s: float) -> None:
        """Adds a row for a node."""
        row = self._nodes[name] = NodeRow(name, at_s)
        self.nodes.append(row)

    # -- jobs -------------------------------------------------------------------------------------

    def on_job(self, name: str, status: dict[str, Any], group: str) -> None:
        """Follows a Job, which is complete or failed by its status."""
        now_s = self._clock.monotonic_s()
        job = self._job_rows.get(name)
        if job is None:
            job = self._job_rows[name] = JobRow(name, group, now_s)
            self.jobs.append(job)
        for condition in status.get("conditions") or ():
            is_end = condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
            if is_end and math.isnan(job.finished_s):
                job.finished_s = now_s
                job.state = SUCCEEDED if condition["type"] == "Complete" else FAILED

    def remove_job(self, name: str) -> None:
        """Notes that a Job is gone: it was deleted, by a person or a controller."""
        job = self._job_rows.pop(name, None)
        if job is not None and math.isnan(job.finished_s):
            job.finished_s = self._clock.monotonic_s()
            job.state = DELETED

    # -- attempts ---------------------------------------------------------------------------------

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Counts an attempt."""
        del attempt, result
        row = self._rows.get(entry.pod.key)
        if row is not None:
            self.pods.attempts[row] += 1

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Notes the victims."""
        victims = [victim.key for victim in post_filter_result.victims]
        if victims:
            node = post_filter_result.node_name or ""
            self.events.preempts(entry.pod.key, node, victims)
        for victim in post_filter_result.victims:
            if victim.metadata.deletion_timestamp is None:
                self.counts["preemptions"] += 1
                self.will_end(victim.key, PREEMPTED)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Notes the reasons."""
        name, plugins = REFUSED, set[str]()
        if isinstance(why, Diagnosis):
            plugins, message = {*why.unschedulable_plugins, *why.pending_plugins}, why.message
            self.refusals.update(plugins)
        elif isinstance(why, Status):
            name, plugins, message = REJECTED, {why.plugin or "none"}, why.message
            self.refusals.update(plugins)
        else:
            self.counts["errors"] += 1
            name, message = ERROR, error_text(why)
        self.reasons[entry.pod.key] = message
        self.events.failed(name, entry.pod.key, message, plugins)
        self.on_pending()

    def note_gated(self, entries: Iterable[QueuedPod]) -> None:
        """Notes which plugin holds pods back, of those that a PreEnqueue plugin does."""
        for entry in entries:
            if entry.gating_plugin:
                self.reasons[entry.pod.key] = f"gated by {entry.gating_plugin}"


def _has_finished(old: Pod, new: Pod) -> bool:
    phase = new.status.phase
    return phase != old.status.phase and phase in FINISHED_PHASES
