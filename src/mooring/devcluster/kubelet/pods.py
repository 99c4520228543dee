"""Pods with the fields that only kubelets read and write."""

from __future__ import annotations

from typing import Any, Final

from mooring.objects.kinds import Kind
from mooring.objects.meta import ApiStruct
from mooring.objects.pod import Container, Pod, PodSpec, PodStatus


class ExecAction(ApiStruct, frozen=True, kw_only=True):
    """A command that runs in a container."""

    command: tuple[str, ...] = ()


class Probe(ApiStruct, frozen=True, kw_only=True):
    """A probe; those without a command succeed."""

    exec: ExecAction | None = None
    initial_delay_seconds: int = 0


class ExitCodes(ApiStruct, frozen=True, kw_only=True):
    """The exit codes for which a rule holds; ``operator`` is "In" or "NotIn"."""

    operator: str = ""
    values: tuple[int, ...] = ()


class KubeletRestartRule(ApiStruct, frozen=True, kw_only=True):
    """A rule for the exit of a container."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class KubeletContainer(Container, frozen=True, kw_only=True):
    """A container with its program."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    stdin: bool = False
    readiness_probe: Probe | None = None
    restart_policy_rules: tuple[KubeletRestartRule, ...] = ()  # type: ignore[assignment]


class ReadinessGate(ApiStruct, frozen=True, kw_only=True):
    """A condition that a pod must have, besides ready containers, to be Ready."""

    condition_type: str = ""


class KubeletPodSpec(PodSpec, frozen=True, kw_only=True):
    """The spec of a pod with what only kubelets read."""

    containers: tuple[KubeletContainer, ...] = ()
    init_containers: tuple[KubeletContainer, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    restart_policy: str = "Always"
    readiness_gates: tuple[ReadinessGate, ...] = ()
    active_deadline_seconds: int | None = None


class KubeletPodStatus(PodStatus, frozen=True, kw_only=True):
    """The status of a pod with what only kubelets write, as JSON."""

    ephemeral_container_statuses: tuple[dict[str, Any], ...] = ()


class KubeletPod(Pod, frozen=True, kw_only=True):
    """A pod as kubelets read it."""

    spec: KubeletPodSpec = KubeletPodSpec()
    status: KubeletPodStatus = KubeletPodStatus()


PODS: Final = Kind("Pod", KubeletPod, "", "v1", "pods", namespaced=True)
