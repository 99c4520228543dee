"""Table of pods: status, ready containers and restarts, from conditions and container statuses.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.cells import age
from mooring.apiserver.printers.formatting import NONE, human_duration
from mooring.apiserver.schema.times import seconds_of

if TYPE_CHECKING:
    from mooring.objects.types import Json

_COMPLETED_MESSAGES = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass(slots=True)
class _Restarts:
    """Number of container restarts, and the time of the last one."""

    count: int = 0
    last_s: float = 0.0

    def add(self, status: Json) -> None:
        self.count += status.get("restartCount") or 0
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if ended:
            self.last_s = max(self.last_s, seconds_of(ended))

    def text(self, now_s: float) -> str:
        if self.count and self.last_s:
            return f"{self.count} ({human_duration(now_s - self.last_s)} ago)"
        return str(self.count)


@dataclass(slots=True)
class _Summary:
    """Summary of a pod's container statuses."""

    reason: str
    ready: int = 0
    is_initializing: bool = False
    restarts: _Restarts = field(default_factory=_Restarts)
    sidecar_restarts: _Restarts = field(default_factory=_Restarts)


def pod_cells(pod: Json, now_s: float) -> list[Any]:
    """Returns name, ready, status, restarts, age, IP, node, nominated node, readiness gates."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = _summary(pod, spec, status)
    sidecars = sum(map(_is_sidecar, spec.get("initContainers") or ()))
    total = len(spec.get("containers") or ()) + sidecars
    addresses = status.get("podIPs") or ()
    return [
        pod["metadata"].get("name", ""),
        f"{summary.ready}/{total}",
        summary.reason,
        summary.restarts.text(now_s),
        age(pod, now_s),
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_conditions(pod: Json) -> list[dict[str, str]] | None:
    """Returns the conditions of a pod's row: "Completed" if the pod has finished."""
    phase = (pod.get("status") or {}).get("phase", "")
    message = _COMPLETED_MESSAGES.get(phase)
    if message is None:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _summary(pod: Json, spec: Json, status: Json) -> _Summary:
    phase = status.get("phase") or ""
    summary = _Summary(status.get("reason") or phase)
    conditions = status.get("conditions") or ()
    for condition in conditions:
        is_gated = condition.get("reason") == "SchedulingGated"
        if condition.get("type") == "PodScheduled" and is_gated:
            summary.reason = "SchedulingGated"
    _summarize_init_containers(spec, status, summary)
    if not summary.is_initializing or _is_true(conditions, "Initialized"):
        _summarize_containers(status, conditions, summary)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _is_sidecar(container: Json) -> bool:
    return (container or {}).get("restartPolicy") == "Always"


def _is_true(conditions: Any, name: str) -> bool:
    condition = next((c for c in conditions if c.get("type") == name), None)
    return condition is not None and condition.get("status") == "True"


def _summarize_init_containers(spec: Json, status: Json, summary: _Summary) -> None:
    """Adds the init containers to a summary, up to the first that has not finished."""
    by_name = {container.get("name"): container for container in spec.get("initContainers") or ()}
    for number, container_status in enumerate(status.get("initContainerStatuses") or ()):
        summary.restarts.add(container_status)
        is_sidecar = _is_sidecar(by_name.get(container_status.get("name")))
        if is_sidecar:
            summary.sidecar_restarts.add(container_status)
        state = container_status.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and container_status.get("started"):
            summary.ready += bool(container_status.get("ready"))
            continue
        summary.reason = _init_reason(state, number, len(by_name))
        summary.is_initializing = True
        return


def _init_reason(state: Json, number: int, count: int) -> str:
    ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
    if ended is not None:
        return f"Init:{_end_reason(ended)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{number}/{count}"


def _end_reason(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _summarize_containers(status: Json, conditions: Any, summary: _Summary) -> None:
    """Adds the containers to a summary, from the last to the first; the first one's reason wins."""
    summary.restarts = summary.sidecar_restarts
    has_running, error_reason = False, ""
    for container_status in reversed(status.get("containerStatuses") or ()):
        summary.restarts.add(container_status)
        state = container_status.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif ended is not None:
            summary.reason = _end_reason(ended)
            if ended.get("exitCode"):
                error_reason = summary.reason
        elif container_status.get("ready") and state.get("running") is not None:
            has_running = True
            summary.ready += 1
    if summary.reason != "Completed":
        return
    # As long as one container runs, the pod is not completed.
    if has_running and _is_true(conditions, "Ready"):
        summary.reason = "Running"
    elif error_reason:
        summary.reason = error_reason
    elif has_running:
        summary.reason = "NotReady"


def _readiness_gates(spec: Json, status: Json) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = status.get("conditions") or ()
    passed = sum(_is_true(conditions, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}"
