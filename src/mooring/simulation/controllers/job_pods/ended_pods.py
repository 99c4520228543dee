"""Pods with the exit codes of their containers, which the policies of Jobs read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.objects.kinds import Kind
from mooring.objects.meta import ApiStruct
from mooring.objects.pod import ContainerStatus, Pod, PodStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The exit code of a container that has failed in a simulation, which has no programs.
FAILED: Final = 1


class Terminated(ApiStruct, frozen=True, kw_only=True):
    """The end of a container."""

    exit_code: int = 0


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    """The state of a container; None = it has not ended."""

    terminated: Terminated | None = None


class EndedContainerStatus(ContainerStatus, frozen=True, kw_only=True):
    """The status of a container with its state, and how often it has started again."""

    state: ContainerState = ContainerState()
    restart_count: int = 0


class EndedPodStatus(PodStatus, frozen=True, kw_only=True):
    """The status of a pod with the states of its containers."""

    container_statuses: tuple[EndedContainerStatus, ...] = ()
    init_container_statuses: tuple[EndedContainerStatus, ...] = ()


class EndedPod(Pod, frozen=True, kw_only=True):
    """A pod as the Job controller reads it."""

    status: EndedPodStatus = EndedPodStatus()


PODS: Final = Kind("Pod", EndedPod, "", "v1", "pods", namespaced=True)


def restarts_of(pod: Pod) -> int:
    """Returns how often the containers of a pod have started again, in all."""
    if not isinstance(pod, EndedPod):
        return 0
    status = pod.status
    statuses = (*status.container_statuses, *status.init_container_statuses)
    return sum(item.restart_count for item in statuses)


def failures_of(pod: Pod) -> Iterator[tuple[str, int]]:
    """Yields name and exit code of the containers of a pod that have failed.

    Where nothing has written their states, all of a failed pod have.
    """
    has_ends = False
    if isinstance(pod, EndedPod):
        for item in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            end = item.state.terminated
            has_ends = has_ends or end is not None
            if end is not None and end.exit_code:
                yield item.name, end.exit_code
    if not has_ends and pod.status.phase == "Failed":
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            yield container.name, FAILED
