"""The requests of a pod: resource amounts, host ports, images.

A pod's request for a resource is the larger of two things: what its containers need while they
run, and the most that its init containers need while they start. A sidecar (an init container that
is restarted) runs along with all that come after it::

    running  = sum(containers) + sum(sidecars)
    starting = max over init containers of (itself + the sidecars before it)
    request  = max(running, starting), or the pod's own request if it has one, + overhead

Sums are exact; only the units that are compared in the end are rounded.

Source: component-helpers v0.36.3, resource/helpers.go; kubernetes v1.36.3, pkg/scheduler/framework
/types.go (CalculateResource), util/utils.go, plugins/noderesources/resource_allocation.go. Feature
gates as they are by default: pod-level resources and both kinds of in-place resize are on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mooring.objects.names import label_key_problem
from mooring.objects.quantity import ZERO, Quantity
from mooring.objects.text_cache import text_cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.objects.meta import ResourceList
    from mooring.objects.pod import Container, Pod

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: Requests assumed in scoring for a container without its own.
DEFAULT_CPU_MILLI: Final = 100
DEFAULT_MEMORY_BYTES: Final = 200 * 1024 * 1024

ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - a value of the API, nothing is bound to it

_HUGE_PAGES_PREFIX: Final = "hugepages-"
NON_MISSING: Final = {
    CPU: Quantity.of_milli(DEFAULT_CPU_MILLI),
    MEMORY: Quantity.of_value(DEFAULT_MEMORY_BYTES),
}

#: Resource names come from a small vocabulary; a hostile one must not fill the memory.
_CACHE_SIZE: Final = 4096

#: Resource name -> exact amount.
Amounts: TypeAlias = dict[str, Quantity]


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    use_pod_level: bool = True,
    non_missing: Mapping[str, Quantity] | None = None,
) -> Amounts:
    """Returns the pod's total requests per resource, exactly.

    Args:
        pod: The pod.
        use_status: Count what a pod on a node really holds: during a resize, the most of what is
            wanted, granted and in force. For a pod that is still to be placed, leave it out.
        use_pod_level: Let the pod's own requests replace the sum over its containers.
        non_missing: Taken for every container that does not name the resource; a container's own
            zero stays zero.
        use_pod_level: Let requests of the pod itself replace the sum over its containers.

    Example:
        >>> from mooring.objects.meta import ResourceRequirements
        >>> from mooring.objects.pod import Container, Pod, PodSpec
        >>> web = Container(resources=ResourceRequirements(requests={"cpu": "250m"}))
        >>> pod_requests(Pod(spec=PodSpec(containers=(web, web))))["cpu"].milli()
        500
    """
    totals = _container_requests(pod, use_status=use_status, non_missing=non_missing or {})
    if use_pod_level and has_pod_level_requests(pod):
        totals.update(_pod_level_requests(pod, use_status=use_status))
    _add(totals, _amounts(pod.spec.overhead))
    return totals


def pod_limits(pod: Pod) -> Amounts:
    """Returns the pod's total limits per resource, exactly; overhead adds to those that exist.

    A container without a limit adds nothing, so the total is no limit of the pod.
    """
    running: Amounts = {}
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.containers:
        _add(running, _amounts(container.resources.limits))
    for container in pod.spec.init_containers:
        limits = _amounts(container.resources.limits)
        if is_sidecar(container):
            _add(running, limits)
            _add(sidecars, limits)
            _raise_to(starting, sidecars)
        else:
            _add(limits, sidecars)
            _raise_to(starting, limits)
    _raise_to(running, starting)
    resources = pod.spec.resources
    if resources is not None:
        own = _amounts(resources.limits)
        running.update({name: own[name] for name in filter(_is_pod_level_resource, own)})
    _add(running, {n: a for n, a in _amounts(pod.spec.overhead).items() if _is_set(running, n)})
    return running


def _is_set(amounts: Mapping[str, Quantity], name: str) -> bool:
    return name in amounts and not amounts[name].is_zero


def scheduler_units(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Amounts as a scheduler compares them: cpu in millicores, all else in whole units, rounded up.

    Resources that no scheduler counts (an unknown name without a domain, such as ``storage``) are
    left out.
    """
    return {
        name: _units(amounts, name)
        for name in amounts
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar_resource_name(name)
    }


def allocatable_units(resources: ResourceList) -> dict[str, int]:
    """Returns a node's allocatable amounts in the units of ``scheduler_units``, with ``pods``."""
    amounts = _amounts(resources)
    units = scheduler_units(amounts)
    if PODS in amounts:
        units[PODS] = amounts[PODS].value()
    return units


def nonzero_requests(pod: Pod, *, use_status: bool = False) -> tuple[int, int]:
    """Millicores and bytes of memory that the pod is taken to need when nodes are scored.

    A container that asks for none counts as 100m and 200 MiB. With requests of the pod's own, that
    is done only for what neither the pod nor any container asks for.
    """
    if not has_pod_level_requests(pod):
        requests = pod_requests(pod, use_status=use_status, non_missing=NON_MISSING)
    else:
        requests = pod_requests(pod, use_status=use_status)
        missing = {name: NON_MISSING[name] for name in NON_MISSING if name not in requests}
        if missing:
            requests = pod_requests(pod, use_status=use_status, non_missing=missing)
    return _units(requests, CPU), _units(requests, MEMORY)


def fit_scored_units(pod: Pod, resource: str) -> int:
    """Returns the amount of a resource that the pod adds in the scores of NodeResourcesFit.

    Millicores for cpu, whole units for all else. Every container that asks for none counts as 100m
    cpu and 200 MiB memory; the pod's own requests and its status do not count.

    Source: kubernetes v1.36.3, plugins/noderesources/fit.go: getScorer leaves the feature gates of
    the scorer off, although the plugin's own are on. The nodes' side does know the pod's own
    requests (``nonzero_requests``).
    """
    return _units(pod_requests(pod, use_pod_level=False, non_missing=NON_MISSING), resource)


def balanced_scored_units(pod: Pod, resource: str) -> int:
    """Returns the amounts that the pod adds in the scores of NodeResourcesBalancedAllocation.

    Millicores for cpu, whole units for all else; what the pod really asks for, nothing assumed.
    """
    return _units(pod_requests(pod, use_status=True), resource)


def _units(amounts: Mapping[str, Quantity], resource: str) -> int:
    amount = amounts.get(resource, ZERO)
    return amount.milli() if resource == CPU else amount.value()


def has_pod_level_requests(pod: Pod) -> bool:
    """Returns whether the pod has pod-level requests of cpu, memory or huge pages."""
    resources = pod.spec.resources
    return resources is not None and any(map(_is_pod_level_resource, resources.requests))


def is_resize_infeasible(pod: Pod) -> bool:
    """Returns whether the kubelet has marked the resize as infeasible; then it does not count."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


@text_cache(_CACHE_SIZE)
def is_extended_resource_name(name: str) -> bool:
    """Returns whether the name is of an extended resource, such as ``example.com/gpu``."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    # It must stay a valid name with the prefix of a quota.
    return not label_key_problem(f"requests.{name}")


@text_cache(_CACHE_SIZE)
def is_scalar_resource_name(name: str) -> bool:
    """Returns whether a scheduler counts the resource, besides cpu, memory, storage and pods."""
    return (
        is_extended_resource_name(name)
        or name.startswith((_HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


class HostPort(NamedTuple):
    """A host port of a pod: the address 0.0.0.0 means all addresses of the node."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Returns the host ports of the pod: its sidecars', then its containers'.

    No address means all of them, no protocol TCP.
    """
    spec = pod.spec
    running = [*filter(is_sidecar, spec.init_containers), *spec.containers]
    return tuple(
        HostPort(port.host_ip or ALL_ADDRESSES, port.protocol or "TCP", port.host_port)
        for container in running
        for port in container.ports
        if port.host_port > 0
    )


def is_sidecar(container: Container) -> bool:
    """Returns whether an init container is a sidecar, which keeps running after its start."""
    return container.restart_policy == "Always"


def normalized_image_name(name: str) -> str:
    """Returns the name under which a node lists an image: ``:latest`` added if there is no tag.

    Example:
        >>> normalized_image_name("localhost:5000/web"), normalized_image_name("web:2")
        ('localhost:5000/web:latest', 'web:2')
    """
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


def _container_requests(
    pod: Pod, *, use_status: bool, non_missing: Mapping[str, Quantity]
) -> Amounts:
    """Returns the total requests of all containers, including the init phase."""
    allocations = _allocations_by_container(pod) if use_status else {}
    running: Amounts = {}
    for container in pod.spec.containers:
        _add(running, _container_request(container, allocations, non_missing))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            requests = _container_request(container, allocations, non_missing)
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            requests = dict(_container_request(container, {}, non_missing))
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _raise_to(running, starting)
    return running


def _container_request(
    container: Container,
    allocations: Mapping[str, tuple[bool, ResourceList, ResourceList]],
    non_missing: Mapping[str, Quantity],
) -> Amounts:
    requests = _amounts(container.resources.requests)
    if container.name in allocations:
        is_infeasible, in_force, allocated = allocations[container.name]
        requests = _effective(requests, in_force, allocated, is_infeasible=is_infeasible)
    for name, amount in non_missing.items():
        requests.setdefault(name, amount)
    return requests


def _allocations_by_container(pod: Pod) -> dict[str, tuple[bool, ResourceList, ResourceList]]:
    """Returns container name -> (is the resize infeasible, requests in force, allocated)."""
    is_infeasible = is_resize_infeasible(pod)
    status = pod.status
    last_of_name = {
        container_status.name: container_status
        for container_status in (*status.container_statuses, *status.init_container_statuses)
    }
    return {
        name: (
            is_infeasible,
            container_status.resources.requests,
            container_status.allocated_resources,
        )
        for name, container_status in last_of_name.items()
        if container_status.resources is not None
    }


def _pod_level_requests(pod: Pod, *, use_status: bool) -> Amounts:
    """Returns the pod's own requests, which replace the sum over its containers."""
    resources = pod.spec.resources
    if resources is None:
        return {}
    requests = _amounts(resources.requests)
    effective = requests
    if use_status and pod.status.resources is not None:
        effective = _effective(
            requests,
            pod.status.resources.requests,
            pod.status.allocated_resources,
            is_infeasible=is_resize_infeasible(pod),
        )
    return {name: effective.get(name, ZERO) for name in filter(_is_pod_level_resource, requests)}


def _is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES_PREFIX)


def _effective(
    requested: Amounts, in_force: ResourceList, allocated: ResourceList, *, is_infeasible: bool
) -> Amounts:
    """Returns the maximum of requested, in force and allocated; infeasible requests are omitted."""
    result: Amounts = {} if is_infeasible else dict(requested)
    _raise_to(result, _amounts(in_force))
    _raise_to(result, _amounts(allocated))
    return result


def _amounts(resources: ResourceList) -> Amounts:
    return {name: Quantity.from_wire(raw) for name, raw in resources.items()}


def _add(totals: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total = totals.get(name)
        totals[name] = amount if total is None else total + amount


def _raise_to(totals: Amounts, others: Mapping[str, Quantity]) -> None:
    for name, amount in others.items():
        total = totals.get(name)
        if total is None or amount > total:
            totals[name] = amount
