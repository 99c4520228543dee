"""The selectors of ``mooring.cel``, as the allocator calls them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from mooring.cel import CompileError, EvaluationError, Reads, Selector, compile_selector
from mooring.dra.devices import SliceDevice
from mooring.dra.errors import SelectorFailed
from mooring.dra.selectors import SelectorProgram, whole_content


class CELProgram:
    """A compiled expression."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        is_partial = not selector.reads.everything
        self._content = content_of(selector.reads) if is_partial else whole_content

    def matches(self, device: SliceDevice) -> bool:
        """Returns whether the expression is true for a device.

        Raises:
            SelectorFailed: "CEL runtime error: ...".
        """
        try:
            return self._selector.matches(device.selector_input)
        except EvaluationError as error:
            raise SelectorFailed(f"CEL runtime error: {error}") from error

    def content(self, device: SliceDevice) -> Hashable:
        """Returns the values of the names that the expression reads.

        A device that cannot be read at all fails every selector with the same text.
        """
        return device.selector_input.problem or self._content(device)


class CELCompiler:
    """Compiles selectors with ``mooring.cel``."""

    def compile(self, expression: str) -> SelectorProgram:
        """Returns the compiled expression.

        Raises:
            SelectorFailed: "CEL compile error: ...".
        """
        try:
            return CELProgram(compile_selector(expression))
        except CompileError as error:
            raise SelectorFailed(f"CEL compile error: {error}") from error


def content_of(reads: Reads) -> Callable[[SliceDevice], Hashable]:
    """Returns the function from a device to the values of some of its names."""
    attributes, capacity = sorted(reads.attributes), sorted(reads.capacity)

    def content(device: SliceDevice) -> Hashable:
        spec, driver = device.device, device.driver
        return (
            driver if reads.driver else None,
            device.is_shared if reads.allow_multiple_allocations else None,
            *(_values(spec.attributes, driver, *name) for name in attributes),
            *(_values(spec.capacity, driver, *name) for name in capacity),
        )

    return content


def _values(entries: Mapping[str, Hashable], driver: str, domain: str, identifier: str) -> Hashable:
    """Returns what a device has under a name, with its domain and without the driver's."""
    plain = entries.get(identifier) if domain == driver else None
    return entries.get(f"{domain}/{identifier}"), plain
