"""The run times of pods: drawn when a pod is created, counted from when it runs.

A pod is bound, starts, runs for its time, and ends: it succeeds or fails. A pod without a
controller is removed then; one of a Job stays, finished, as its controller counts it. All times are
drawn at creation, in the order of creation: so a scheduler that is compared with another one has
the same pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from mooring.chance import Streams
from mooring.clock import Clock, Rng, rfc3339
from mooring.config.durations import parse_duration_s
from mooring.errors import SchedulerError
from mooring.objects.meta import controller_of, key
from mooring.objects.pod import FINISHED_PHASES, Pod, PodCondition
from mooring.simulation.engine.engine import PHASE_PODS, Engine

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.scenario.scenario import RunTime
    from mooring.simulation.engine.object_table import ObjectTable

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


class RunPlan(NamedTuple):
    """The draws of one pod.

    Attributes:
        group: The item of the scenario that it belongs to.
        start_s: From binding to running.
        duration_s: From running to the end; infinity = it has none.
        fails: Whether it fails at the end.
    """

    group: str
    start_s: float
    duration_s: float
    fails: bool


class Draws:
    """Draws the run times of the pods of one item.

    Args:
        group: Its name.
        run_time: Its distributions.
        streams: Of the run.
    """

    def __init__(self, group: str, run_time: RunTime, streams: Streams) -> None:
        self.group = group
        self._run_time = run_time
        self._start = streams.stream(group, "start")
        self._duration = streams.stream(group, "duration")
        self._failure = streams.stream(group, "failure")

    def next(
        self, annotations: Mapping[str, str], duration_s: float = math.nan, *, ends: bool = True
    ) -> RunPlan:
        """Returns the draws of the next pod.

        Args:
            annotations: Of the pod; those of KWOK replace what the scenario says.
            duration_s: Its run time, if it is known.
            ends: False for pods that their controller runs for ever.
        """
        run_time = self._run_time
        drawn_s = run_time.duration.draw(self._duration)
        if annotations:
            annotated_s = annotated_duration_s(annotations, self._duration)
            duration_s = duration_s if annotated_s is None else annotated_s
        fails = bool(run_time.failure) and self._failure.random() < run_time.failure
        if not ends:
            drawn_s = math.inf
        elif not math.isnan(duration_s):
            drawn_s = duration_s
        return RunPlan(self.group, run_time.start.draw(self._start), drawn_s, fails)


def annotated_duration_s(annotations: Mapping[str, str], rng: Rng) -> float | None:
    """Returns the run time that KWOK's annotations ask for; None = they do not.

    Between ``delay`` and ``jitter-delay``, if that is given. A text that is no duration counts as
    none.

    Source: KWOK's default stage pod-complete.

    Example:
        >>> delay = {"pod-complete.stage.kwok.x-k8s.io/delay": "90s"}
        >>> annotated_duration_s(delay, Rng(0))
        90.0
    """
    times = [_annotated_s(annotations, name) for name in ("delay", "jitter-delay")]
    delay_s, jitter_s = times
    if delay_s is None:
        return jitter_s if jitter_s is None else rng.random() * jitter_s
    if jitter_s is None or jitter_s <= delay_s:
        return delay_s
    return delay_s + rng.random() * (jitter_s - delay_s)


def _annotated_s(annotations: Mapping[str, str], name: str) -> float | None:
    text = annotations.get(f"pod-complete.stage.kwok.x-k8s.io/{name}")
    if text is None:
        return None
    try:
        return max(0.0, parse_duration_s(text))
    except ValueError:
        return None


class _Running(NamedTuple):
    """A pod on a node; ``number`` tells its runs apart."""

    uid: str
    number: int
    running_s: float


class RunTimes:
    """Starts and ends the pods of all nodes.

    Attributes:
        on_end: Called with key and final phase before a pod that has no controller is removed.
        on_running: Called with a pod that begins to run if its phase is not written.
        is_away: Whether a node has crashed: nothing begins on it before it is back.
        begin_elsewhere: Called with a pod that is on its node: something else starts and ends it;
            None = it starts and ends here.

    Args:
        table: The objects.
        engine: Calls back.
        clock: Its time.
        writes_phases: Whether pods without a controller get the phase Running, too; something reads
            it, such as a disruption budget.
    """

    def __init__(
        self, table: ObjectTable, engine: Engine, *, clock: Clock, writes_phases: bool
    ) -> None:
        self.on_end: Callable[[str, str], None] = lambda *_: None
        self.on_running: Callable[[Pod], None] | None = None
        self.is_away: Callable[[str], bool] = lambda _: False
        self.begin_elsewhere: Callable[[Pod], None] | None = None
        self.plans: dict[str, RunPlan] = {}
        self._table = table
        self._engine = engine
        self._clock = clock
        self._writes_phases = writes_phases
        self._running: dict[str, _Running] = {}
        self._numbers = 0

    def running_since(self, pod_key: str) -> float:
        """Returns when a pod began to run; infinity if it does not."""
        run = self._running.get(pod_key)
        return math.inf if run is None else run.running_s

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows the writes of the cluster."""
        if kind != "Pod":
            return
        pod: Pod | None = change.new
        if pod is None:
            pod_key = key(change.old)
            self._running.pop(pod_key, None)
            self.plans.pop(pod_key, None)
        elif (
            pod.spec.node_name
            and (change.old is None or not change.old.spec.node_name)
            and pod.status.phase not in FINISHED_PHASES
        ):
            self.begin(pod)

    def begin(self, pod: Pod) -> None:
        """Begins the run of a pod on its node, from the start; not if the node is away."""
        if self.is_away(pod.spec.node_name):
            return
        pod_key = key(pod)
        plan = self.plans.get(pod_key)
        now_s = self._clock.monotonic_s()
        start_s = 0.0 if plan is None else plan.start_s
        self._numbers += 1
        if self.begin_elsewhere is not None:
            running_s = now_s if pod.status.phase == "Running" else math.inf
            self._running[pod_key] = _Running(pod.metadata.uid, self._numbers, running_s)
            self.begin_elsewhere(pod)
            return
        run = _Running(pod.metadata.uid, self._numbers, now_s + start_s)
        self._running[pod_key] = run
        if self._writes_phases or pod.metadata.owner_references:
            begin = partial(self._set_running, pod_key, run)
            self._engine.call_at(run.running_s, PHASE_PODS, begin)
        elif self.on_running is not None:
            report = partial(self._report_running, pod_key, run)
            self._engine.call_at(run.running_s, PHASE_PODS, report)
        if plan is not None and plan.duration_s < math.inf:
            end = partial(self._end, pod_key, run)
            self._engine.call_at(run.running_s + plan.duration_s, PHASE_PODS, end)

    def note_running(self, pod_key: str) -> None:
        """Notes that a pod that is started elsewhere runs from now on."""
        run = self._running.get(pod_key)
        if run is not None and run.running_s == math.inf:
            self._running[pod_key] = run._replace(running_s=self._clock.monotonic_s())

    def stop(self, pod_key: str) -> None:
        """Ends the run of a pod without a result: its node has crashed."""
        self._running.pop(pod_key, None)

    def _set_running(self, pod_key: str, run: _Running) -> None:
        pod = self._live(pod_key, run)
        if pod is None or pod.status.phase == "Running":
            return
        now = rfc3339(self._clock.wall_s())
        ready = PodCondition(type="Ready", status="True", last_transition_time=now)
        others = [item for item in pod.status.conditions if item.type != "Ready"]
        status = replace(pod.status, phase="Running", conditions=(*others, ready))
        self._table.put(replace(pod, status=status))

    def _report_running(self, pod_key: str, run: _Running) -> None:
        pod = self._live(pod_key, run)
        if pod is not None and self.on_running is not None:
            self.on_running(pod)

    def _end(self, pod_key: str, run: _Running) -> None:
        pod = self._live(pod_key, run)
        if pod is None:
            return
        plan = self.plans[pod_key]
        self._running.pop(pod_key)
        self.finish(pod, FAILED if plan.fails else SUCCEEDED)

    def finish(self, pod: Pod, phase: str) -> None:
        """Ends a pod: finished if it has a controller, else removed."""
        if controller_of(pod.metadata) is None:
            pod_key = key(pod)
            self.on_end(pod_key, phase)
            with suppress(SchedulerError):
                self._table.delete("Pod", pod_key, grace_period_s=0)
            return
        others = [item for item in pod.status.conditions if item.type != "Ready"]
        not_ready = PodCondition(type="Ready", status="False", reason="PodCompleted")
        status = replace(pod.status, phase=phase, conditions=(*others, not_ready))
        self._table.put(replace(pod, status=status))

    def _live(self, pod_key: str, run: _Running) -> Pod | None:
        """Returns the pod, if this is still its run."""
        if self._running.get(pod_key) is not run:
            return None
        pod: Pod | None = self._table.objects("Pod").get(pod_key)
        return pod
