"""Devices (resource.k8s.io/v1): what nodes offer, what pods claim, and what was given to whom."""

from __future__ import annotations

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
    """Which amounts of a shared device may be asked for, and what is given without asking."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """How much of something a device has."""

    value: RawQuantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount that devices take from a common pot."""

    value: RawQuantity = 0


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """A common pot of several counters."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """What a device takes from a common pot while it is in use."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """What keeps claims away that do not tolerate it; effect: None, NoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableResourceMapping(ApiStruct, frozen=True, kw_only=True):
    """How a device's capacity counts against a node's own resource."""

    capacity_key: str | None = None
    allocation_multiplier: RawQuantity | None = None


class Device(ApiStruct, frozen=True, kw_only=True):
    """One thing that can be given to a claim."""

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


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """An expression that is true for the devices that will do."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A condition on a device."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(ApiStruct, frozen=True, kw_only=True):
    """Taints of devices that a request puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """How much of a device's capacity is wanted."""

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
    """What is wanted: exactly this, or the first alternative that can be had."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """What the devices of several requests must have in common, or must not."""

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
    """Requests for devices, and what must hold between them."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """What is wanted."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """One device that was given to a request."""

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
    """All devices that a claim got."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """What a claim got, and the nodes that can use it (None = all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """Who may use a claim: nearly always a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """What a driver says about a device that was given out."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: AnyJson = None
    network_data: AnyJson = None


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What a claim got, and who may use it."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A wish for devices, and its fulfilment."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Parameters that a class gives to every claim that uses it."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """Which devices belong to a class; an extended resource can stand for it."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A named kind of devices, as an administrator defined it."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
