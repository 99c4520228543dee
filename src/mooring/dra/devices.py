"""Devices and slices in the form in which the allocator reads them, parsed once per slice."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mooring import cel
from mooring.dra.features import ALL_FEATURES, DeviceFeatures
from mooring.dra.nodes import Reach, TargetNode, reach_of
from mooring.objects.meta import RawQuantity
from mooring.objects.quantity import Quantity
from mooring.objects.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourceSlice,
)
from mooring.objects.tolerations import HARD_EFFECTS

if TYPE_CHECKING:
    from mooring.cel import DeviceInput, Version


class DeviceID(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


#: The identity of a pool: driver and name.
PoolKey = tuple[str, str]

#: A counter of a pool: counter set and name.
CounterKey = tuple[str, str]


class RequestPolicy(NamedTuple):
    """The amounts of a capacity that a request may consume; None = no limit of this kind."""

    default: Quantity | None
    valid_values: tuple[Quantity, ...]
    has_range: bool
    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None


class Capacity(NamedTuple):
    """One capacity of a device."""

    value: Quantity
    policy: RequestPolicy | None


class SliceDevice:
    """One device of a slice.

    Attributes:
        id: The identity.
        device: The API object.
        slice: The slice that lists it.
        allows_sharing: Whether the driver lets several requests use it, as selectors read it.
        is_shared: Whether several requests may use it at the same time.
        consumption: What it takes of each counter, in billionths.
        taints: Those that prevent the allocation, unless they are tolerated.
        capacity: What requests consume; empty if no device can be shared.
        is_selectable: Whether selectors are asked at all.
        is_blocked: Whether it cannot be taken although it may be selected.
    """

    def __init__(self, prepared: PreparedSlice, device: Device) -> None:
        spec, features = prepared.obj.spec, prepared.features
        self.id = DeviceID(spec.driver, spec.pool.name, device.name)
        self.device = device
        self.slice = prepared
        self.allows_sharing = bool(device.allow_multiple_allocations) and not features.is_stable
        self.is_shared = self.allows_sharing and features.is_shareable
        self.binds_to_node = bool(device.binds_to_node) and not features.is_stable
        self.capacity: dict[str, Capacity] = {}
        if features.is_shareable:
            self.capacity = {name: _capacity(value) for name, value in device.capacity.items()}
        self.is_selectable = features.has_binding_conditions or not device.binding_conditions
        self.is_blocked = not features.has_partitions and bool(device.consumes_counters)
        self.consumption: tuple[tuple[CounterKey, int], ...] = tuple(
            ((consumed.counter_set, name), Quantity.from_wire(counter.value).nanos)
            for consumed in device.consumes_counters
            for name, counter in consumed.counters.items()
        )
        self.taints: tuple[DeviceTaint, ...] = ()
        if features.has_taints:
            self.taints = tuple(taint for taint in device.taints if taint.effect in HARD_EFFECTS)
        self.reach: Reach | None = None
        if prepared.is_per_device:
            self.reach = reach_of(device.node_name, device.all_nodes, device.node_selector)

    def __repr__(self) -> str:
        return f"SliceDevice({self.id})"

    @cached_property
    def selector_input(self) -> DeviceInput:
        """The device as selectors read it."""
        return cel.DeviceInput(
            self.id.driver,
            allow_multiple_allocations=self.allows_sharing,
            attributes={name: _value(value) for name, value in self.device.attributes.items()},
            capacity={
                name: Quantity.from_wire(capacity.value)
                for name, capacity in self.device.capacity.items()
            },
        )

    @cached_property
    def problem(self) -> str | None:
        """The text with which every selector fails for the device, or None.

        Only versions and lists can be unreadable, so most devices need no ``selector_input``.
        """
        for value in self.device.attributes.values():
            if value.string_value is None and value.int_value is None and value.bool_value is None:
                return self.selector_input.problem
        return None

    @property
    def driver(self) -> str:
        """The driver's name."""
        return self.id.driver

    @property
    def pool_key(self) -> PoolKey:
        """Driver and name of the pool."""
        return self.slice.pool_key

    def is_on(self, node: TargetNode) -> bool:
        """Returns whether the node can use the device, if the slice lists it for the node."""
        return self.reach is None or self.reach.matches(node)


class PreparedSlice:
    """A slice: its nodes, and its devices, which are parsed when they are first read."""

    def __init__(self, obj: ResourceSlice, features: DeviceFeatures = ALL_FEATURES) -> None:
        spec = obj.spec
        self.obj = obj
        self.features = features
        self.name = obj.metadata.name
        self.pool_key: PoolKey = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.has_counters = bool(spec.shared_counters)
        self.is_per_device = bool(spec.per_device_node_selection)
        self.is_ignored = not features.has_partitions and (
            spec.per_device_node_selection is not None or self.has_counters
        )
        self.reach = reach_of(spec.node_name, spec.all_nodes, spec.node_selector)

    @property
    def only_node(self) -> str:
        """The node whose devices these are; "" if other nodes may need the slice, too."""
        return "" if self.has_counters else self.reach.node_name

    @cached_property
    def devices(self) -> tuple[SliceDevice, ...]:
        """The devices as listed; a slice with counter sets has none."""
        if self.has_counters:
            return ()
        return self.all_devices

    @cached_property
    def all_devices(self) -> tuple[SliceDevice, ...]:
        """The devices as listed, also of a slice with counter sets, which the API forbids."""
        return tuple(SliceDevice(self, device) for device in self.obj.spec.devices)

    @cached_property
    def has_binding_conditions(self) -> bool:
        """True if a device of the slice has binding conditions."""
        return any(device.device.binding_conditions for device in self.devices)


def _value(attribute: DeviceAttribute) -> bool | int | str | Version | None:
    """Returns the value of an attribute; None for a list."""
    if attribute.version_value is not None:
        return cel.Version(attribute.version_value)
    values = (attribute.bool_value, attribute.int_value, attribute.string_value)
    return next((value for value in values if value is not None), None)


def _capacity(capacity: DeviceCapacity) -> Capacity:
    policy = capacity.request_policy
    return Capacity(Quantity.from_wire(capacity.value), None if policy is None else _policy(policy))


def _policy(policy: CapacityRequestPolicy) -> RequestPolicy:
    limits = policy.valid_range or CapacityRequestPolicyRange()
    return RequestPolicy(
        default=_optional(policy.default),
        valid_values=tuple(map(Quantity.from_wire, policy.valid_values)),
        has_range=policy.valid_range is not None,
        minimum=_optional(limits.min),
        maximum=_optional(limits.max),
        step=_optional(limits.step),
    )


def _optional(raw: RawQuantity | None) -> Quantity | None:
    return None if raw is None else Quantity.from_wire(raw)
