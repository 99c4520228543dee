"""The input of a selector: one device.

Source: dynamic-resource-allocation v0.36.3, cel/compile.go (DeviceMatches).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from mooring.cel.errors import EvaluationError
from mooring.cel.library import quantities, semvers
from mooring.cel.values import DomainMap, ErrorValue, StringMap, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.objects.quantity import Quantity

#: Lengths that the API allows; longer texts make every evaluation count its cost.
MAX_VALUE_LENGTH: Final = 64


class Version(str):
    """The text of a version attribute."""

    __slots__ = ()


#: Value of an attribute; None stands for one that the language does not have, such as a list.
AttributeValue: TypeAlias = "bool | int | str | Version | None"


class DeviceInput:
    """A device as selectors see it.

    It can be kept and used for any number of selectors.

    Example:
        >>> device = DeviceInput("gpu.example.com", attributes={"model": "A100"})
        >>> device.problem
        ''
    """

    __slots__ = ("is_large", "problem", "root")

    def __init__(
        self,
        driver: str,
        *,
        allow_multiple_allocations: bool = False,
        attributes: Mapping[str, AttributeValue] | None = None,
        capacity: Mapping[str, Quantity | str] | None = None,
    ) -> None:
        """Converts the values of a device.

        Args:
            driver: Name of the driver; names without a domain are its own.
            allow_multiple_allocations: As in the ResourceSlice.
            attributes: Values by qualified name (``domain/id`` or ``id``).
            capacity: Amounts by qualified name.
        """
        #: Why no selector can be evaluated, in kube-scheduler's words; "" if one can.
        self.problem = ""
        #: Whether a text is longer than the API allows.
        self.is_large = len(driver) > MAX_VALUE_LENGTH
        attribute_maps = self._attributes(driver, attributes or {})
        capacity_maps = _by_domain(
            driver, {name: _quantity(amount) for name, amount in (capacity or {}).items()}
        )
        self.root = StringMap(
            {
                "driver": driver,
                "allowMultipleAllocations": allow_multiple_allocations,
                "attributes": attribute_maps,
                "capacity": capacity_maps,
            }
        )

    def _attributes(self, driver: str, attributes: Mapping[str, AttributeValue]) -> DomainMap:
        values: dict[str, Value] = {}
        for name, raw in attributes.items():
            value = _attribute(raw)
            if isinstance(value, ErrorValue):
                self.problem = self.problem or f"attribute {name}: {value.message}"
            values[name] = value
            self.is_large = self.is_large or (isinstance(raw, str) and len(raw) > MAX_VALUE_LENGTH)
        return _by_domain(driver, values)

    def check(self) -> None:
        """Makes sure that the device can be read.

        Raises:
            EvaluationError: It has an attribute that the language does not have.
        """
        if self.problem:
            raise EvaluationError(self.problem)


def _attribute(raw: AttributeValue) -> Value:
    if isinstance(raw, Version):
        value = semvers.parse(str(raw))
        if isinstance(value, ErrorValue):
            return ErrorValue(f"parse semantic version: {value.message}")
        return value
    if raw is None:
        return ErrorValue("unsupported attribute value")
    return raw


def _quantity(amount: Quantity | str) -> Value:
    return quantities.of_quantity(amount)


def _by_domain(driver: str, values: Mapping[str, Value]) -> DomainMap:
    domains: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = driver, name
        domains.setdefault(domain, {})[identifier] = value
    return DomainMap({domain: StringMap(entries) for domain, entries in domains.items()})
