"""The steps of an evaluation, planned from a checked syntax tree.

Constants are folded here: literals, conversions of literals, membership in a constant list.
``mooring.cel.evaluation`` makes closures of the plan, with or without counting costs.

Source: cel-go v0.26.0, interpreter/planner.go and interpreter/decorators.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mooring.cel.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, eq=False)
class Const:
    """A value that is known when the expression is compiled."""

    id: int
    value: Value


@dataclass(slots=True, eq=False)
class Variable:
    """A slot of the frame; ``init`` computes it when it is first read (loop results only)."""

    slot: int
    init: Step | None = None


@dataclass(slots=True, eq=False)
class Operand:
    """A computed value whose fields or entries are read."""

    step: Step


@dataclass(slots=True, eq=False)
class Choice:
    """``condition ? truthy : falsy``."""

    condition: Step
    truthy: Attribute
    falsy: Attribute


@dataclass(slots=True, eq=False)
class Qualifier:
    """One ``.field`` or ``[index]``.

    Attributes:
        id: Number of the node.
        index: Constant key or index, or the attribute or step that computes it.
        is_optional: Whether an absent entry makes the result ``optional.none()``.
        is_test: Whether only presence is asked for.
    """

    id: int
    index: Const | Attribute | Step
    is_optional: bool = False
    is_test: bool = False


@dataclass(slots=True, eq=False)
class Attribute:
    """A variable, operand or choice, and what is read below it."""

    base_id: int
    base: Variable | Operand | Choice
    qualifiers: list[Qualifier] = field(default_factory=list)

    @property
    def id(self) -> int:
        """Number of the last node that reads: costs are tracked by it."""
        if isinstance(self.base, Choice):
            truthy = self.base.truthy.id
            return truthy if truthy == self.base.falsy.id else self.base_id
        return self.qualifiers[-1].id if self.qualifiers else self.base_id

    @property
    def is_test(self) -> bool:
        """True if the attribute is a ``has``."""
        return bool(self.qualifiers) and self.qualifiers[-1].is_test

    def add(self, qualifier: Qualifier) -> None:
        """Appends a field or index; of a choice, to both alternatives."""
        if isinstance(self.base, Choice):
            self.base.truthy.add(qualifier)
            self.base.falsy.add(qualifier)
        else:
            self.qualifiers.append(qualifier)


@dataclass(slots=True, eq=False)
class CallStep:
    """A call.

    Attributes:
        id: Number of the node.
        function: Name of the function.
        overload: Name of the overload, or "" if several are possible.
        args: Arguments, the receiver first.
        implementation: Computes the result of arguments that are no errors.
        is_sequential: Whether the first error stops the evaluation of further arguments.
        is_strict: Whether an error of an argument is the result.
    """

    id: int
    function: str
    overload: str
    args: list[Step]
    implementation: Callable[..., Value]
    is_sequential: bool = False
    is_strict: bool = True


@dataclass(slots=True, eq=False)
class Logical:
    """``&&`` or ``||``: errors count only if the other side does not decide."""

    id: int
    is_and: bool
    left: Step
    right: Step


@dataclass(slots=True, eq=False)
class OptionalOr:
    """``or``, or ``orValue`` if ``is_value`` is True."""

    id: int
    is_value: bool
    left: Step
    right: Step


@dataclass(slots=True, eq=False)
class Membership:
    """``element in [constants]``, as a lookup."""

    id: int
    element: Step
    keys: frozenset[Any]


@dataclass(slots=True, eq=False)
class ListStep:
    """A list literal that is not constant."""

    id: int
    elements: list[Step]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class MapStep:
    """A map literal that is not constant: keys, values, and which are optional."""

    id: int
    entries: list[tuple[Step, Step, bool]]


@dataclass(slots=True, eq=False)
class Loop:
    """A comprehension; slots of the frame hold its variables and its result."""

    id: int
    iter_range: Step
    accu: Variable
    first: int
    second: int | None
    condition: Step
    step: Step
    result: Step


Step: TypeAlias = (
    Const | Attribute | CallStep | Logical | OptionalOr | Membership | ListStep | MapStep | Loop
)


@dataclass(slots=True, eq=False)
class Plan:
    """A planned expression.

    Attributes:
        root: The last step.
        n_slots: Size of a frame: the device, the cost tracker, and the variables of loops.
        names: The names that it reads.
    """

    root: Step
    n_slots: int
    names: frozenset[str] = frozenset()
