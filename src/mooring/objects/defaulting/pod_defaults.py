"""The defaults that an API server writes into pods, as far as scheduling reads them.

Every function here gives an equal pod back if there is nothing to fill in, so pods that an API
server has filled in already stay as they are.

Source: pkg/apis/core/v1/defaults.go, with PodLevelResources on, as by default.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mooring.objects.meta import ResourceList, ResourceRequirements
from mooring.objects.pod import Container, ContainerPort, Pod
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_requests

DEFAULT_SCHEDULER_NAME = "default-scheduler"
TERMINATION_GRACE_PERIOD_SECONDS = 30

_HUGE_PAGES_PREFIX = "hugepages-"
_NANOS_PER_MILLI = 10**6


def with_defaults(pod: Pod) -> Pod:
    """Returns the pod with requests, ports and names filled in."""
    filled = _with_each_container(pod, _container_defaults)
    filled = _with_pod_level_resources(filled)
    if filled.spec.host_network:
        filled = _with_each_container(filled, _host_ports)
    spec = filled.spec
    grace = spec.termination_grace_period_seconds
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        termination_grace_period_seconds=(
            TERMINATION_GRACE_PERIOD_SECONDS if grace is None else grace
        ),
        overhead=rounded_to_milli(spec.overhead),
    )
    status = filled.status
    return replace(filled, spec=spec, status=replace(status, phase=status.phase or "Pending"))


def rounded_to_milli(resources: ResourceList) -> ResourceList:
    """The resources without anything finer than a thousandth, rounded up, as they are stored.

    It matters for sums: two containers of ``100u`` cpu ask for 2m, not for 1m.
    """
    return {name: _rounded(raw) for name, raw in resources.items()}


def _rounded(raw: str | int | float) -> str | int | float:
    amount = Quantity.from_wire(raw)
    if amount.nanos % _NANOS_PER_MILLI == 0:
        return raw
    nanos = -(-amount.nanos // _NANOS_PER_MILLI) * _NANOS_PER_MILLI
    return str(Quantity(nanos, amount.format))


def _with_each_container(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    spec = replace(
        pod.spec,
        containers=tuple(map(change, pod.spec.containers)),
        init_containers=tuple(map(change, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec)


def _container_defaults(container: Container) -> Container:
    """Requests that are missing become the limits; ports are TCP."""
    limits = rounded_to_milli(container.resources.limits)
    requests = {**limits, **rounded_to_milli(container.resources.requests)}
    return replace(
        container,
        resources=replace(container.resources, limits=limits, requests=requests),
        ports=tuple(replace(port, protocol=port.protocol or "TCP") for port in container.ports),
    )


def _host_ports(container: Container) -> Container:
    """On the node's own network every port of a container is a port of the node."""
    return replace(container, ports=tuple(map(_host_port, container.ports)))


def _host_port(port: ContainerPort) -> ContainerPort:
    return replace(port, host_port=port.host_port or port.container_port)


def _with_pod_level_resources(pod: Pod) -> Pod:
    """Pod-level limits and requests, completed from the containers' if some are given."""
    own = pod.spec.resources
    if own is None:
        return pod
    limits = rounded_to_milli(own.limits)
    requests = rounded_to_milli(own.requests)
    if limits or requests:
        for name, amount in _total(pod, lambda container: container.resources.limits).items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name not in requests:
                limits.setdefault(name, amount)
    if limits:
        for name, amount in _total(pod, lambda container: container.resources.requests).items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, raw in limits.items():
            if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES_PREFIX):
                requests.setdefault(name, raw)
    resources = replace(own, limits=limits, requests=requests)
    return replace(pod, spec=replace(pod.spec, resources=resources))


def _total(pod: Pod, chosen: Callable[[Container], ResourceList]) -> ResourceList:
    """What the containers come to together: init containers and sidecars count as for requests."""

    def counted(container: Container) -> Container:
        return replace(container, resources=ResourceRequirements(requests=chosen(container)))

    bare = replace(pod, spec=replace(pod.spec, resources=None, overhead={}))
    totals = pod_requests(_with_each_container(bare, counted))
    return {name: str(amount) for name, amount in totals.items()}
