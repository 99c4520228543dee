"""Extended resources that stand for device classes: the special claim of a pod.

PreFilter finds the claim of an earlier attempt, or makes one in memory without requests. Filter
gives each node a copy with the requests for the resources that this node has by devices; the
others it has by a device plugin, and NodeResourcesFit counts those.

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.objects.meta import ObjectMeta, OwnerReference
from mooring.objects.node import Node
from mooring.objects.pod import Container, ContainerExtendedResourceRequest, Pod
from mooring.objects.quantity import Quantity
from mooring.objects.requests import is_extended_resource_name, is_sidecar
from mooring.objects.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.state import PodInfo
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.state.kinds.device_classes import RESOURCE_PREFIX, DeviceClasses

#: The name of the special claim until it is written; no object can have it.
NAME_IN_MEMORY: Final = "<extended-resources>"


class ExtendedRequests(NamedTuple):
    """The requests of the special claim, and which containers use which of them."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def requested_resources(pod: PodInfo) -> list[str]:
    """Returns the extended resources that the pod requests, by name."""
    return sorted(name for name, amount in pod.requests.items() if amount and may_be_devices(name))


def may_be_devices(resource: str) -> bool:
    """Returns whether a resource of this name can stand for a device class."""
    return resource.startswith(RESOURCE_PREFIX) or is_extended_resource_name(resource)


def has_class(pod: PodInfo, classes: DeviceClasses) -> bool:
    """Returns whether an extended resource that the pod requests stands for a device class."""
    if not len(classes):
        return False
    for name, amount in pod.requests.items():
        if amount and classes.class_of(name) is not None and may_be_devices(name):
            return True
    return False


def claim_in_memory(pod: Pod, uid: str) -> ResourceClaim:
    """Returns the special claim without requests; it is made in PreBind.

    Args:
        pod: The pod that owns it.
        uid: Its UID until then.
    """
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=metadata.namespace,
            name=NAME_IN_MEMORY,
            uid=uid,
            generate_name=f"{metadata.name}-extended-resources-",
            annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
            owner_references=(owner,),
        )
    )


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """Returns the special claim with the requests of one node."""
    return replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))


def resources_by_devices(
    node: Node, resources: Iterable[str], classes: DeviceClasses
) -> tuple[str, ...] | None:
    """Returns the resources that the node has by devices; None if it lacks one of the others.

    Args:
        node: The node.
        resources: The extended resources that the pod requests, sorted.
        classes: The device classes.
    """
    allocatable = node.status.allocatable
    by_devices = []
    for resource in resources:
        raw = allocatable.get(resource)
        amount = Quantity.from_wire(raw).value() if raw is not None else 0
        if amount == 0 and classes.class_of(resource) is not None:
            by_devices.append(resource)
        elif raw is None:
            return None
    return tuple(by_devices)


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: DeviceClasses
) -> ExtendedRequests:
    """Returns the requests for some resources, by name, and the containers' use of them.

    A container that runs as long as the pod has a request of its own. Init containers run one
    after the other: they use the requests of the containers that start later, and share one more
    request for what is missing.

    Args:
        pod: The pod.
        resources: The resources, sorted.
        classes: The device classes.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    is_short_lived = [
        index < len(pod.spec.init_containers) and not is_sidecar(container)
        for index, container in enumerate(containers)
    ]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in resources:
        class_name = classes.class_of(resource)
        if class_name is None:
            continue
        of_resource = _OfResource(resource, class_name, containers, is_short_lived)
        requests += of_resource.requests()
        mappings += of_resource.mappings
    requests.sort(key=lambda request: request.name)
    return ExtendedRequests(tuple(requests), tuple(mappings))


class _OfResource:
    """The requests and mappings for one resource."""

    def __init__(
        self,
        resource: str,
        class_name: str,
        containers: Sequence[Container],
        is_short_lived: Sequence[bool],
    ) -> None:
        self.mappings: list[ContainerExtendedResourceRequest] = []
        self._resource = resource
        self._class_name = class_name
        self._containers = containers
        self._is_short_lived = is_short_lived

    def requests(self) -> list[DeviceRequest]:
        """Returns the requests, and fills ``mappings``: long-lived containers first."""
        own: dict[int, DeviceRequest] = {}
        for index, is_short_lived in enumerate(self._is_short_lived):
            request = None if is_short_lived else self._request(index, ())
            if request is not None:
                own[index] = request
        first_short_lived = len(self.mappings)
        missing: list[DeviceRequest] = []
        for index, is_short_lived in enumerate(self._is_short_lived):
            later = [request for other, request in own.items() if other >= index]
            request = self._request(index, later) if is_short_lived else None
            if request is not None:
                missing.append(request)
        if not missing:
            return list(own.values())
        largest = max(missing, key=_count)
        self._rename({request.name for request in missing}, largest.name, first_short_lived)
        return [largest, *own.values()]

    def _request(self, index: int, usable: Iterable[DeviceRequest]) -> DeviceRequest | None:
        """Returns a request for what ``usable`` ones lack; maps the container to all of them."""
        container = self._containers[index]
        amounts: Mapping[str, object] = container.resources.requests
        requested = _whole(container, self._resource)
        available = 0
        if requested == 0:
            return None
        for request in usable:
            available += _count(request)
            self._map(container, request.name)
            if available >= requested:
                return None
        number = sorted(amounts).index(self._resource)
        name = f"container-{index}-request-{number}"
        self._map(container, name)
        exactly = ExactDeviceRequest(
            device_class_name=self._class_name,
            allocation_mode="ExactCount",
            count=requested - available,
        )
        return DeviceRequest(name=name, exactly=exactly)

    def _map(self, container: Container, request_name: str) -> None:
        self.mappings.append(
            ContainerExtendedResourceRequest(
                container_name=container.name,
                resource_name=self._resource,
                request_name=request_name,
            )
        )

    def _rename(self, names: set[str], new_name: str, start: int) -> None:
        """Lets the mappings from ``start`` on name the one request that stands for several."""
        self.mappings[start:] = [
            replace(mapping, request_name=new_name) if mapping.request_name in names else mapping
            for mapping in self.mappings[start:]
        ]


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count


def _whole(container: Container, resource: str) -> int:
    """Returns the amount that a container requests; 0 if it is not a whole number."""
    raw = container.resources.requests.get(resource)
    if raw is None:
        return 0
    amount = Quantity.from_wire(raw)
    return amount.value() if amount == Quantity.of_value(amount.value()) else 0
