"""A pod on its node: its containers start and end, and its status says so.

::

    init containers, one after the other ──> all containers ──> Succeeded or Failed
       (sidecars go on)                      (restarts: ``container_run``)

A pod is Ready when all its containers are, and the conditions of its readiness gates hold.

Source: pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go,
pkg/kubelet/active_deadline.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.clock import rfc3339
from mooring.devcluster.kubelet.container_run import ContainerRun
from mooring.devcluster.kubelet.pods import KubeletContainer, KubeletPod
from mooring.devcluster.kubelet.programs import Program, program_of
from mooring.objects.pod import FINISHED_PHASES

DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_TEXT: Final = "Pod was active on the node longer than the specified deadline"
#: Exit code of a program that is killed.
KILLED: Final = 137


class Step(NamedTuple):
    """The changes of a pod in one step.

    Attributes:
        started: The containers that have started.
        backing_off: The containers that wait for a restart since now.
    """

    started: list[ContainerRun]
    backing_off: list[ContainerRun]


class PodRun:
    """The containers of a pod, and its status.

    Attributes:
        pod: The pod, as last seen.
        phase: Its phase.
        written: The status that was written last.

    Args:
        pod: The pod.
        program: The program of its containers, if its annotations describe one.
        address: Its IP address.
    """

    def __init__(self, pod: KubeletPod, program: Program | None, address: str) -> None:
        self.pod = pod
        self.phase = "Pending"
        self.written: dict[str, Any] = {}
        self._address = address
        self._inits = [
            ContainerRun(pod, item, _program(item), is_init=True)
            for item in pod.spec.init_containers
        ]
        self._mains = [
            ContainerRun(pod, item, program or _program(item), is_init=False)
            for item in pod.spec.containers
        ]
        self._deadline_s = math.inf
        self._is_late = False
        self._started_at = ""
        self._conditions: dict[str, dict[str, Any]] = {}
        self._ready_s: list[float] = []

    @property
    def next_s(self) -> float:
        """Time at which something happens next, in monotonic seconds; infinity = nothing does."""
        if self.phase in FINISHED_PHASES:
            return math.inf
        ends = [run.next_s for run in (*self._inits, *self._mains)]
        return min([self._deadline_s, *ends, *self._ready_s])

    def advance(self, now_s: float, wall_s: float) -> Step:
        """Makes everything happen that is due."""
        step = Step([], [])
        if self.phase in FINISHED_PHASES:
            return step
        if not self._started_at:
            self._started_at = rfc3339(wall_s)
            seconds = self.pod.spec.active_deadline_seconds
            self._deadline_s = math.inf if seconds is None else now_s + seconds
        if now_s >= self._deadline_s:
            self._is_late = True
            self._finish(wall_s, "Failed", KILLED)
            return step
        for run in (*self._inits, *self._mains):
            was_running = run.is_running
            if run.advance(now_s, wall_s):
                step.backing_off.append(run)
            if run.is_running and not was_running:
                step.started.append(run)
        self._start_due(now_s, wall_s, step)
        self._update_phase(wall_s)
        self._ready_s = [
            run.ready_s for run in self._mains if run.is_running and now_s < run.ready_s < math.inf
        ]
        return step

    def _start_due(self, now_s: float, wall_s: float, step: Step) -> None:
        """Starts the next init container, or all containers when these are done.

        An init container whose program is not known succeeds at once.
        """
        for run in self._inits:
            if not run.has_started:
                run.start(now_s, wall_s)
                step.started.append(run)
                if run.program is None and not run.is_sidecar:
                    run.end(wall_s, 0)
            if not (run.is_ready(now_s) or (run.is_sidecar and run.has_started)):
                return
        for run in self._mains:
            if not run.has_started:
                run.start(now_s, wall_s)
                step.started.append(run)

    def _update_phase(self, wall_s: float) -> None:
        if any(run.has_failed for run in self._inits if not run.is_sidecar):
            self._finish(wall_s, "Failed", 0)
        elif all(run.has_ended for run in self._mains):
            has_failed = any(run.exit_code for run in self._mains)
            self._finish(wall_s, "Failed" if has_failed else "Succeeded", 0)
        elif all(run.has_started for run in self._mains):
            self.phase = "Running"

    def _finish(self, wall_s: float, phase: str, exit_code: int) -> None:
        """Ends the pod, and what still runs in it."""
        self.phase = phase
        for run in (*self._inits, *self._mains):
            if run.is_running:
                run.end(wall_s, exit_code)

    # -- status -----------------------------------------------------------------------------------

    def status(self, now_s: float, wall_s: float) -> dict[str, Any]:
        """Returns the pod's status, as its kubelet patches it."""
        inits = [run.status(now_s) for run in self._inits]
        status: dict[str, Any] = {
            "phase": self.phase,
            "startTime": self._started_at,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": self._updated_conditions(now_s, wall_s),
            "containerStatuses": [run.status(now_s) for run in self._mains],
        }
        if inits:
            status["initContainerStatuses"] = inits
        if self._is_late:
            status |= {"reason": DEADLINE_REASON, "message": DEADLINE_TEXT}
        return status

    def _updated_conditions(self, now_s: float, wall_s: float) -> list[dict[str, Any]]:
        containers = self._containers_ready(now_s)
        ready = containers if containers[0] == "False" else self._gates_open()
        for name, (state, reason, message) in (
            ("Initialized", self._initialized(now_s)),
            ("Ready", ready),
            ("ContainersReady", containers),
        ):
            before = self._conditions.get(name, {})
            changed_at = before.get("lastTransitionTime")
            if before.get("status") != state:
                changed_at = rfc3339(wall_s)
            condition = {
                "type": name,
                "status": state,
                "lastProbeTime": None,
                "lastTransitionTime": changed_at,
            }
            for field, text in (("reason", reason), ("message", message)):
                if text or field in before:
                    condition[field] = text or None  # None deletes what an earlier state had
            self._conditions[name] = condition
        return list(self._conditions.values())

    def _initialized(self, now_s: float) -> tuple[str, str, str]:
        if self.phase == "Succeeded":
            return "True", "PodCompleted", ""
        if any(run.has_started for run in self._mains):
            return "True", "", ""
        incomplete = [
            run.container.name
            for run in self._inits
            if not (run.is_running if run.is_sidecar else run.is_ready(now_s))
        ]
        if not incomplete:
            return "True", "", ""
        text = f"containers with incomplete status: [{' '.join(incomplete)}]"
        return "False", "ContainersNotInitialized", text

    def _containers_ready(self, now_s: float) -> tuple[str, str, str]:
        if self.phase in FINISHED_PHASES:
            return "False", "PodCompleted" if self.phase == "Succeeded" else "PodFailed", ""
        runs = [run for run in self._inits if run.is_sidecar] + self._mains
        unready = [run.container.name for run in runs if not run.is_ready(now_s)]
        if not unready:
            return "True", "", ""
        text = f"containers with unready status: [{' '.join(unready)}]"
        return "False", "ContainersNotReady", text

    def _gates_open(self) -> tuple[str, str, str]:
        states = gate_states(self.pod)
        texts = []
        for gate in self.pod.spec.readiness_gates:
            name = gate.condition_type
            state = states.get(name)
            if state is None:
                texts.append(
                    f'corresponding condition of pod readiness gate "{name}" does not exist.'
                )
            elif state != "True":
                texts.append(
                    f'the status of pod readiness gate "{name}" is not "True", but {state}'
                )
        return ("False", "ReadinessGatesNotReady", ", ".join(texts)) if texts else ("True", "", "")


def gate_states(pod: KubeletPod) -> Mapping[str, str]:
    """Returns the status of the conditions that are readiness gates of a pod."""
    names = {gate.condition_type for gate in pod.spec.readiness_gates}
    return {item.type: item.status for item in pod.status.conditions if item.type in names}


def _program(container: KubeletContainer) -> Program | None:
    return program_of(container.image, container.command, container.args, has_input=container.stdin)
