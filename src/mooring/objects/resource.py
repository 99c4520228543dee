"""Devices (resource.k8s.io/v1): slices of nodes, claims of pods, and allocations."""

from __future__ import annotations

from typing import Final

from msgspec import field

from mooring.objects.meta import (
    AnyJson,
    ApiStruct,
    Condition,
    Int64,
    NodeSelector,
    ObjectMeta,
    RawQuantity,
    ResourceList,
)

#: The finalizer of allocated claims.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class DeviceAttribute(ApiStruct, frozen=True, kw_only=True):
    """One property of a device: exactly one of the values is set."""

    int_value: Int64 | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[Int64, ...] = field(default=(), name="ints")
    bool_values: tuple[bool, ...] = field(default=(), name="bools")
    string_values: tuple[str, ...] = field(default=(), name="strings")
    version_values: tuple[str, ...] = field(default=(), name="versions")


class CapacityRequestPolicyRange(ApiStruct, frozen=True, kw_only=True):
    """Amounts from ``min`` to ``max`` in steps of ``step``."""

    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    """The amounts of a shared device that may be requested, and the default."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """A capacity of a device."""

    value: RawQuantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount in a counter set that devices share."""

    value: RawQuantity = 0


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """A set of counters that devices share."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """The amounts that a device consumes from a counter set while it is in use."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """A device taint, which repels claims without toleration: None, NoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableResourceMapping(ApiStruct, frozen=True, kw_only=True):
    """The mapping of a device's capacity to a resource of its node."""

    capacity_key: str | None = None
    allocation_multiplier: RawQuantity | None = None


class Device(ApiStruct, frozen=True, kw_only=True):
    """A device that can be allocated to a claim."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = field(
        default_factory=dict
    )


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """The pool that a slice is a part of; only slices of the highest generation count."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """Devices of one driver, and the nodes that can reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """A part of a pool of devices, as its driver published it."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    """The devices of a rule: those with all values that are set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    """A taint, and the devices that get it; without a selector all devices."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiStruct, frozen=True, kw_only=True):
    """A taint that an administrator adds to devices, whatever their driver publishes."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1beta2")
    kind: str = field(default_factory=lambda: "DeviceTaintRule")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """An expression that is true for matching devices."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A condition on a device."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(ApiStruct, frozen=True, kw_only=True):
    """A toleration of device taints by a request."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """The requested capacity of a device."""

    requests: ResourceList = field(default_factory=dict)


class ExactDeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """One or more devices of a class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(ApiStruct, frozen=True, kw_only=True):
    """One alternative of a request: devices of a class."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A request: exactly this, or the first alternative that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """A constraint on the devices of several requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters that only the driver understands; handed through untouched."""

    driver: str = ""
    parameters: AnyJson = None


class DeviceClaimConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters for some requests of a claim (none named = all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct, frozen=True, kw_only=True):
    """Requests for devices, with constraints and configuration."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a resource claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """One device allocated to a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: ResourceList = field(default_factory=dict)


class DeviceAllocationConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters for the driver, and whether the class or the claim gave them."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """All devices allocated to a claim."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The allocation of a claim, and the nodes that can use it (None = all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """A consumer of a claim: nearly always a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


def pod_as_user(pod: ObjectMeta) -> ResourceClaimConsumerReference:
    """Returns the entry of ``reservedFor`` for a pod."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """A driver's status of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: AnyJson = None
    network_data: AnyJson = None


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The allocation of a claim, and its consumers."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim for devices, and its allocation."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The labels, annotations and spec of the claims that are made from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """A template for the claims of pods: each pod gets a claim of its own."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters that a class gives to every claim that uses it."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """The devices of a class; an extended resource can map to it."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A named kind of devices, as an administrator defined it."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


def devices_in(allocation: AllocationResult | None) -> frozenset[tuple[str, ...]]:
    """Returns what identifies the devices of an allocation, and for which requests they are."""
    results = allocation.devices.results if allocation is not None else ()
    return frozenset(
        (result.request, result.driver, result.pool, result.device, result.share_id or "")
        for result in results
    )
