"""Constraints on the devices of a claim: one attribute is equal, or distinct.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating (allocator_incubating.go,
constraint.go), with the slips of ``distinctAttribute`` that the class describes.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.dra.devices import SliceDevice
from mooring.objects.resource import DeviceAttribute, DeviceConstraint

#: Kind and value of an attribute; None for a list, or without any value.
Value = tuple[str, object] | None


class Constraint:
    """The devices of one claim that a constraint counts, during one search."""

    def __init__(self, spec: DeviceConstraint) -> None:
        self._requests = frozenset(spec.requests)
        self._attribute = spec.match_attribute or spec.distinct_attribute or ""
        self._count = 0

    def add(self, parent: str, sub: str, device: SliceDevice) -> bool:
        """Counts a device; False = it would violate the constraint, and is not counted.

        Args:
            parent: The name of the request.
            sub: The name of its alternative; "" if it has none.
            device: The device.
        """
        if not self._concerns(parent, sub):
            return True
        attribute = attribute_of(device, self._attribute)
        if attribute is None or not self._accepts(parent, value_of(attribute)):
            return False
        self._count += 1
        return True

    def remove(self, parent: str, sub: str) -> None:
        """Discounts a device that ``add`` counted for this request."""
        if self._concerns(parent, sub):
            self._count -= 1
            self._discard(parent)

    def _concerns(self, parent: str, sub: str) -> bool:
        requests = self._requests
        return not requests or parent in requests or (sub != "" and f"{parent}/{sub}" in requests)

    def _accepts(self, parent: str, value: Value) -> bool:
        raise NotImplementedError

    def _discard(self, parent: str) -> None:
        """Forgets a value; nothing by default."""


class MatchAttribute(Constraint):
    """All devices have the value of the first one."""

    def __init__(self, spec: DeviceConstraint) -> None:
        super().__init__(spec)
        self._value: Value = None

    def _accepts(self, parent: str, value: Value) -> bool:
        del parent
        if not self._count:
            self._value = value
            return True
        return value is not None and value == self._value


class DistinctAttribute(Constraint):
    """No two devices have the same value, with the slips of upstream's bookkeeping.

    One value is stored per request, the one of its last device; after a device was removed, none.
    So two devices of one request may have the same value if a third was between them.
    """

    def __init__(self, spec: DeviceConstraint) -> None:
        super().__init__(spec)
        self._values: dict[str, Value] = {}

    def _accepts(self, parent: str, value: Value) -> bool:
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[parent] = value
        return True

    def _discard(self, parent: str) -> None:
        self._values.pop(parent, None)


def ignore_released(specs: Iterable[DeviceConstraint]) -> bool:
    """Returns whether devices that a search has released make no difference to constraints.

    They do to those for distinct attributes, by the slips of upstream's bookkeeping.
    """
    return all(spec.match_attribute is not None for spec in specs)


def constraint_of(spec: DeviceConstraint) -> Constraint:
    """Returns a new constraint without devices."""
    return MatchAttribute(spec) if spec.match_attribute is not None else DistinctAttribute(spec)


def attribute_of(device: SliceDevice, name: str) -> DeviceAttribute | None:
    """Returns the attribute with a fully qualified name; the driver's own need no domain."""
    attributes = device.device.attributes
    attribute = attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.driver else None


def value_of(attribute: DeviceAttribute) -> Value:
    """Returns kind and value of an attribute; None for a list."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None
