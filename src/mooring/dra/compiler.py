"""The selectors of ``mooring.cel``, as the allocator calls them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from mooring import cel
from mooring.dra.devices import SliceDevice
from mooring.dra.errors import SelectorFailed
from mooring.dra.selectors import Names, SelectorProgram, whole_content

if TYPE_CHECKING:
    from mooring.cel import Reads, Selector


class CELProgram:
    """A compiled expression."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        reads = selector.reads
        self.names: Names = None if reads.everything else reads.attributes
        self._content = whole_content if reads.everything else content_of(reads)

    def matches(self, device: SliceDevice) -> bool:
        """Returns whether the expression is true for a device.

        Raises:
            SelectorFailed: "CEL runtime error: ...".
        """
        try:
            return self._selector.matches(device.selector_input)
        except cel.EvaluationError as error:
            raise SelectorFailed(f"CEL runtime error: {error}") from error

    def content(self, device: SliceDevice) -> Hashable:
        """Returns the values of the names that the expression reads.

        A device that cannot be read at all fails every selector with the same text.
        """
        return device.problem or self._content(device)


class CELCompiler:
    """Compiles selectors with ``mooring.cel``."""

    def compile(self, expression: str) -> SelectorProgram:
        """Returns the compiled expression.

        Raises:
            SelectorFailed: "CEL compile error: ...".
        """
        try:
            return CELProgram(cel.compile_selector(expression))
        except cel.CompileError as error:
            raise SelectorFailed(f"CEL compile error: {error}") from error


def content_of(reads: Reads) -> Callable[[SliceDevice], Hashable]:
    """Returns the function from a device to the values of some of its names."""
    attributes, capacity = sorted(reads.attributes), sorted(reads.capacity)

    def content(device: SliceDevice) -> Hashable:
        spec, driver = device.device, device.driver
        return (
            driver if reads.driver else None,
            device.allows_sharing if reads.allow_multiple_allocations else None,
            *[_values(spec.attributes, driver, *name) for name in attributes],
            *[_values(spec.capacity, driver, *name) for name in capacity],
        )

    return content


def values_of(device: SliceDevice, names: Names) -> Hashable:
    """Returns the values of some attributes of a device, with and without the driver's domain."""
    attributes = device.device.attributes
    if names is None:
        return tuple(attributes.items())
    return tuple([_values(attributes, device.driver, *name) for name in sorted(names)])


def _values(entries: Mapping[str, Hashable], driver: str, domain: str, identifier: str) -> Hashable:
    """Returns what a device has under a name, with its domain and without the driver's."""
    plain = entries.get(identifier) if domain == driver else None
    return entries.get(f"{domain}/{identifier}"), plain
