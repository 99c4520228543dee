"""Compiled selectors: the public interface of ``mooring.cel``.

Source: dynamic-resource-allocation v0.36.3, cel/compile.go.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.cel import types
from mooring.cel.attributes import UNSET
from mooring.cel.bounds import Bounds, bounds
from mooring.cel.checker import check
from mooring.cel.cost import CostTracker
from mooring.cel.depth import deep_recursion
from mooring.cel.errors import CompileError, EvaluationError
from mooring.cel.estimate import Range, device_size, estimate_cost
from mooring.cel.evaluation import compile_fast, compile_tracking
from mooring.cel.plan import Plan
from mooring.cel.planner import DEVICE_SLOT, TRACKER_SLOT, PlanError, plan
from mooring.cel.reads import Reads, names_read
from mooring.cel.syntax.parser import parse
from mooring.cel.syntax.source import Problems, Source
from mooring.cel.syntax.tree import Node
from mooring.cel.validators import validate
from mooring.cel.values import Cancelled, ErrorValue, Fatal, Optional, Value, type_of

if TYPE_CHECKING:
    from mooring.cel.device import DeviceInput

#: Bytes of an expression, as the API allows.
MAX_EXPRESSION_BYTES: Final = 10 * 1024


class Evaluation(NamedTuple):
    """The answer for one device, and what it cost."""

    matches: bool
    cost: int


class Selector:
    """A compiled expression.

    Attributes:
        expression: The text.
        reads: Which names of a device the answer depends on.
    """

    def __init__(self, expression: str, planned: Plan, reads: Reads, limits: Bounds) -> None:
        self.expression = expression
        self.reads = reads
        self._plan = planned
        self._is_bounded = limits.is_cheap
        self._is_deep = limits.is_deep
        self._fast = compile_fast(planned.root)
        self._tracking = compile_tracking(planned.root)
        self._unset = [UNSET] * (planned.n_slots - 2)

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"

    def estimate_cost(self) -> Range:
        """Returns the least and the greatest cost of one evaluation, from the text alone.

        The expression is checked once more: only an API server needs the estimate, and a scheduler
        shall not keep the tree of every selector for it.

        Complexity: O(size of the expression)

        Example:
            >>> compile_selector("device.driver == 'a' && [1, 2].all(x, x > 0)").estimate_cost()
            Range(least=3, most=24)
        """
        with deep_recursion():
            root, _ = _checked(self.expression)
            return estimate_cost(root, device_size)

    def matches(self, device: DeviceInput) -> bool:
        """Returns whether the expression is true for a device.

        Raises:
            EvaluationError: It fails, in kube-scheduler's words.
        """
        if not self._is_bounded or device.is_large:
            return self.evaluate(device).matches
        if device.problem:
            device.check()
        try:
            value = self._fast([device.root, None, *self._unset])
        except (Cancelled, Fatal) as failure:
            raise EvaluationError(str(failure)) from None
        if value is True:
            return True
        return value is not False and _boolean(value, None)

    def evaluate(self, device: DeviceInput) -> Evaluation:
        """Returns the answer for a device and its cost.

        Raises:
            EvaluationError: It fails; ``cost`` is what the evaluation cost until then.
        """
        device.check()
        tracker = CostTracker()
        frame = [device.root, tracker, *self._unset]
        assert (DEVICE_SLOT, TRACKER_SLOT) == (0, 1)
        try:
            with deep_recursion() if self._is_deep else nullcontext():
                value = self._tracking(frame)
        except Cancelled as failure:
            raise EvaluationError(str(failure), tracker.cost + failure.cost) from None
        except Fatal as failure:
            raise EvaluationError(str(failure), tracker.cost) from None
        return Evaluation(_boolean(value, tracker.cost), tracker.cost)


def compile_selector(expression: str) -> Selector:
    """Compiles a selector as kube-scheduler does.

    Raises:
        CompileError: The expression is not valid, in kube-scheduler's words.

    Example:
        >>> from mooring.cel import DeviceInput
        >>> selector = compile_selector('device.attributes["gpu.example.com"].model == "A100"')
        >>> selector.matches(DeviceInput("gpu.example.com", attributes={"model": "A100"}))
        True
    """
    n_bytes = len(expression.encode(errors="surrogatepass"))
    if n_bytes > MAX_EXPRESSION_BYTES:
        raise CompileError(
            f"compilation failed: the expression has {n_bytes} bytes, "
            f"at most {MAX_EXPRESSION_BYTES} are allowed"
        )
    with deep_recursion():
        root, result_type = _checked(expression)
        if result_type not in (types.BOOL, types.ANY):
            raise CompileError(
                f"must evaluate to bool or the unknown type, not {result_type.long_text}"
            )
        try:
            planned = plan(root)
        except PlanError as error:
            raise CompileError(f"program instantiation failed: {error}") from None
        return Selector(expression, planned, names_read(root), bounds(root, expression))


def _checked(expression: str) -> tuple[Node, types.Type]:
    source = Source(expression)
    problems = Problems(source)
    root = parse(source, problems)
    if problems:
        raise CompileError(f"compilation failed: {problems}")
    result_type = check(root, source, problems)
    if not problems:
        validate(root, source, problems)
    if problems:
        raise CompileError(f"compilation failed: {problems}")
    return root, result_type


#: Why a value cannot be read as bool, by the name of its type; others are named in quotes.
_NOT_BOOLEAN: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}


def _boolean(value: Value, cost: int | None) -> bool:
    """Returns a result as bool; that of an optional is its content."""
    if value.__class__ is bool:
        return bool(value)
    if isinstance(value, ErrorValue):
        raise EvaluationError(value.message, cost)
    content = value
    while isinstance(content, Optional) and content.is_present:
        content = content.value
    if content.__class__ is bool:
        return bool(content)
    name = type_of(value).name
    message = f"CEL result of type {name} could not be converted to bool: {_problem(content)}"
    raise EvaluationError(message, cost)


def _problem(content: Value) -> str:
    """Returns why a value cannot be read as bool."""
    if isinstance(content, Optional):
        return "optional.none() dereference"
    if isinstance(content, ErrorValue):
        return content.message
    name = type_of(content).name
    return _NOT_BOOLEAN.get(
        name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
    )
