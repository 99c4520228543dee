"""One container on a node: it starts, ends, and starts again after a backoff.

Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go (doBackOff), pkg/kubelet/kubelet.go (the
limits of the backoff), pkg/api/v1/pod/util.go (ContainerShouldRestart).
"""

from __future__ import annotations

import math
from typing import Any, Final

from mooring.clock import rfc3339
from mooring.config.durations import duration_text
from mooring.devcluster.events.kubelet import full_name
from mooring.devcluster.kubelet.pods import KubeletContainer, KubeletPod
from mooring.devcluster.kubelet.programs import Program, program_of

#: A program that only prints something runs so long; a container restarts so long after its end.
TURN_S: Final = 1.0
BACKOFF_S: Final = 10.0
BACKOFF_S_MAX: Final = 300.0
#: A container that has run for so long begins with the first backoff again.
BACKOFF_RESET_S: Final = 2 * BACKOFF_S_MAX


class ContainerRun:
    """A container and its state.

    Attributes:
        container: The container.
        program: What runs in it; None = it runs until it is killed.
        is_init: Whether it is an init container, be it a sidecar.
        restarts: How often it has started again.
        exit_code: Of the last end; None = it has never ended.
        is_running: Whether its program runs.
        next_s: When it ends, or starts again, in monotonic seconds; infinity = neither.

    Args:
        pod: The pod.
        container: The container.
        program: As the attribute.
        is_init: As the attribute.
    """

    def __init__(
        self,
        pod: KubeletPod,
        container: KubeletContainer,
        program: Program | None,
        *,
        is_init: bool,
    ) -> None:
        self.container = container
        self.is_init = is_init
        self.restarts = 0
        self.exit_code: int | None = None
        self.is_running = False
        self.next_s = math.inf
        self.program = program
        self._policy = _Policy(pod, container, is_init=is_init)
        self._full_name = full_name(pod)
        reason = "ContainerCreating" if not pod.spec.init_containers else "PodInitializing"
        self._state: dict[str, Any] = {"waiting": {"reason": reason}}
        self._last_state: dict[str, Any] = {}
        self._started_at = ""
        self._started_s = 0.0
        self._backoff_s = 0.0

    @property
    def is_sidecar(self) -> bool:
        """True of an init container that runs as long as its pod."""
        return self.is_init and self.container.restart_policy == "Always"

    @property
    def has_ended(self) -> bool:
        """True if it has ended, and does not start again."""
        return not self.is_running and self.exit_code is not None and self.next_s == math.inf

    @property
    def has_started(self) -> bool:
        """True if it has run, or runs."""
        return self.is_running or self.exit_code is not None

    @property
    def has_failed(self) -> bool:
        """True if it has ended for good with an exit code that is not 0."""
        return self.has_ended and bool(self.exit_code)

    def start(self, now_s: float, wall_s: float) -> None:
        """Starts the program."""
        if self.exit_code is not None:
            self.restarts += 1
            if "terminated" in self._state:
                self._last_state = self._state
        self._started_at, self._started_s = rfc3339(wall_s), now_s
        self._state = {"running": {"startedAt": self._started_at}}
        self.is_running = True
        self.next_s = math.inf
        if self.program is not None:
            self.next_s = now_s + max(self.program.seconds, TURN_S)

    def end(self, wall_s: float, exit_code: int) -> None:
        """Ends the program for good."""
        self.is_running, self.exit_code, self.next_s = False, exit_code, math.inf
        self._state = {
            "terminated": {
                "exitCode": exit_code,
                "reason": "Error" if exit_code else "Completed",
                "startedAt": self._started_at,
                "finishedAt": rfc3339(wall_s),
            }
        }

    def advance(self, now_s: float, wall_s: float) -> bool:
        """Ends the program, or starts it again, if it is time; returns whether it waits now."""
        if now_s < self.next_s:
            return False
        if not self.is_running:
            self.start(now_s, wall_s)
            return False
        assert self.program is not None
        exit_code = self.program.exit_code
        self.end(wall_s, exit_code)
        if not self._policy.restarts(exit_code):
            return False
        return self._wait(now_s)

    def _wait(self, now_s: float) -> bool:
        """Waits for the next start; returns whether in backoff: the first restart has none."""
        if now_s - self._started_s > BACKOFF_RESET_S:
            self._backoff_s = 0.0
        wait_s, self._backoff_s = (
            self._backoff_s,
            min(2 * self._backoff_s or BACKOFF_S, BACKOFF_S_MAX),
        )
        self.next_s = now_s + max(wait_s, TURN_S)
        if not wait_s:
            return False
        self._last_state = self._state
        failed = f"restarting failed container={self.container.name} pod={self._full_name}"
        message = f"back-off {duration_text(wait_s)} {failed}"
        self._state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        return True

    def is_ready(self, now_s: float) -> bool:
        """Returns whether its readiness probe succeeds; an init container must have ended."""
        if self.is_init and not self.is_sidecar:
            return self.has_ended and self.exit_code == 0
        return self.is_running and now_s >= self.ready_s

    @property
    def ready_s(self) -> float:
        """Time of the first successful readiness probe, in monotonic seconds; infinity = never."""
        probe = self.container.readiness_probe
        if probe is None or not self.is_running:
            return self._started_s
        if probe.exec is not None:
            program = program_of("", probe.exec.command, ())
            if program is not None and (program.exit_code or program.seconds):
                return math.inf
        return self._started_s + probe.initial_delay_seconds

    def status(self, now_s: float) -> dict[str, Any]:
        """Returns its status, as in the status of a pod."""
        return {
            "name": self.container.name,
            "image": self.container.image,
            "imageID": "",
            "ready": self.is_ready(now_s),
            "started": self.is_running,
            "restartCount": self.restarts,
            "state": self._state,
            "lastState": self._last_state,
        }


class _Policy:
    """Decides whether a container starts again after its end."""

    def __init__(self, pod: KubeletPod, container: KubeletContainer, *, is_init: bool) -> None:
        self._rules = container.restart_policy_rules
        self._policy = container.restart_policy or pod.spec.restart_policy
        if is_init and container.restart_policy is None and self._policy == "Always":
            self._policy = "OnFailure"  # an init container that has succeeded is done

    def restarts(self, exit_code: int) -> bool:
        for rule in self._rules:
            codes = rule.exit_codes
            if codes is None or rule.action != "Restart":
                continue
            if (exit_code in codes.values) is (codes.operator == "In"):
                return True
        return self._policy == "Always" or (self._policy == "OnFailure" and exit_code != 0)
