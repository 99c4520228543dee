"""The answers of CEL selectors for devices, cached by the content of the device.

The compiler itself is elsewhere: ``SelectorCompiler`` is all that the allocator needs of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol

from mooring.dra.devices import SliceDevice
from mooring.dra.errors import SelectorFailed

#: Answers that are cached per expression; a hostile cluster must not fill the memory.
ANSWERS_MAX: Final = 1 << 17

#: Expressions whose answers are cached; a cluster has few device classes and templates.
EXPRESSIONS_MAX: Final = 512

#: Devices of each expression whose answers are kept by device. They may be of deleted slices, which
#: then take memory, so they are few: those of some dozens of nodes, which pods search again.
DEVICES_MAX: Final = 256


#: Attributes as pairs of domain and id; None = all of a device.
Names = frozenset[tuple[str, str]] | None


class SelectorProgram(Protocol):
    """A compiled selector.

    Attributes:
        names: The attributes that it reads.
    """

    names: Names

    def matches(self, device: SliceDevice) -> bool:
        """Returns whether the selector is true for a device.

        Raises:
            SelectorFailed: "CEL runtime error: ...".
        """
        ...

    def content(self, device: SliceDevice) -> Hashable:
        """Returns what the selector reads of the device: equal contents have equal answers."""
        ...


class SelectorCompiler(Protocol):
    """Compiles CEL expressions."""

    def compile(self, expression: str) -> SelectorProgram:
        """Returns the compiled expression.

        Raises:
            SelectorFailed: "CEL compile error: ...".
        """
        ...


class Condition(NamedTuple):
    """A selector, and the prefix of the messages of its errors.

    ``owner`` is like "class gpu: selector #0: " or "claim default/mine: selector #1: ".
    """

    owner: str
    expression: str


class Selectors:
    """Expression and device -> true, false, or the message of the error."""

    def __init__(self, compiler: SelectorCompiler) -> None:
        self._compiler = compiler
        self._answers: dict[str, _Answers] = {}

    def answer(self, expression: str, device: SliceDevice) -> bool | str:
        """Returns the answer for a device; a text = the error, which ends the attempt."""
        answers = self._answers.get(expression)
        if answers is None:
            answers = self._compile(expression)
        return answers.of(device)

    def names(self, expression: str) -> Names:
        """Returns the attributes that an expression reads; none if it does not compile."""
        answers = self._answers.get(expression) or self._compile(expression)
        return answers.names

    def _compile(self, expression: str) -> _Answers:
        if len(self._answers) >= EXPRESSIONS_MAX:
            self._answers.clear()
        try:
            answers = _Answers(self._compiler.compile(expression))
        except SelectorFailed as error:
            answers = _Answers(None, str(error))
        self._answers[expression] = answers
        return answers


class _Answers:
    """The answers of one expression."""

    def __init__(self, program: SelectorProgram | None, problem: str = "") -> None:
        self.names: Names = program.names if program is not None else frozenset()
        self._program = program
        self._problem = problem
        self._by_content: dict[Hashable, bool | str] = {}
        #: The answers for the last devices: contents are costly to make, and a device stays.
        self._by_device: dict[SliceDevice, bool | str] = {}

    def of(self, device: SliceDevice) -> bool | str:
        """Returns the answer for a device: of this one, of an equal one, or evaluated."""
        answer = self._by_device.get(device)
        if answer is None:
            if len(self._by_device) >= DEVICES_MAX:
                self._by_device.clear()
            answer = self._by_device[device] = self._of_content(device)
        return answer

    def _of_content(self, device: SliceDevice) -> bool | str:
        if self._program is None:
            return self._problem
        content = self._program.content(device)
        answer = self._by_content.get(content)
        if answer is None:
            answer = self._evaluate(self._program, device)
            if len(self._by_content) >= ANSWERS_MAX:
                self._by_content.clear()
            self._by_content[content] = answer
        return answer

    def _evaluate(self, program: SelectorProgram, device: SliceDevice) -> bool | str:
        try:
            return program.matches(device)
        except SelectorFailed as error:
            return str(error)


def whole_content(device: SliceDevice) -> Hashable:
    """Returns all of a device that a selector can read."""
    return (
        device.driver,
        device.allows_sharing,
        tuple(device.device.attributes.items()),
        tuple(device.device.capacity.items()),
    )
