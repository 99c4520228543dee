"""Makes closures of a plan: ``run(frame) -> value``.

A frame is a list: the device, the cost tracker, then the variables of loops. With a tracker,
every step reports its value to it, in upstream's order; without one, nothing is counted.

Source: cel-go v0.26.0, interpreter/interpretable.go, interpreter/attributes.go and
interpreter/runtimecost.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mooring.cel import attributes
from mooring.cel.cost import CostTracker, call_cost, literal_cost
from mooring.cel.golang.type_names import go_type
from mooring.cel.plan import (
    Attribute,
    CallStep,
    Choice,
    Const,
    ListStep,
    Logical,
    Loop,
    MapStep,
    Membership,
    OptionalOr,
    Step,
)
from mooring.cel.planner import TRACKER_SLOT, check_hashable, optional_element_error, put
from mooring.cel.values import (
    NO_OVERLOAD,
    ErrorValue,
    MapValue,
    MutableList,
    Optional,
    Value,
    equal,
    is_mapping,
    map_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Frame: TypeAlias = list[Any]
    Run: TypeAlias = Callable[[Frame], Value]

#: A variable that has no value yet.
UNSET: Final = attributes.UNSET


def compile_fast(step: Step) -> Run:
    """Returns the closure of a step that counts no costs."""
    return _Compiler(is_tracking=False).compile(step)


def compile_tracking(step: Step) -> Run:
    """Returns the closure of a step that reports to the tracker of the frame."""
    return _Compiler(is_tracking=True).compile(step)


class _Compiler:
    """Makes closures, all with or all without a tracker."""

    def __init__(self, *, is_tracking: bool) -> None:
        self._is_tracking = is_tracking

    def compile(self, step: Step) -> Run:
        """Returns the closure of a step."""
        match step:
            case Const():
                return self._const(step)
            case Attribute():
                return self._attribute(step)
            case CallStep():
                return self._call(step)
            case Logical():
                return self._logical(step)
            case OptionalOr():
                return self._optional_or(step)
            case Membership():
                return self._membership(step)
            case ListStep():
                return self._list(step)
            case MapStep():
                return self._map(step)
        return self._loop(step)

    # ------------------------------------------------------------ watching

    def _watched(self, step_id: int, run: Run, *dropped: int) -> Run:
        """Adds to a step that costs nothing what records its value."""
        if not self._is_tracking:
            return run

        def watch(frame: Frame) -> Value:
            value = run(frame)
            tracker: CostTracker = frame[TRACKER_SLOT]
            tracker.drop(*dropped)
            tracker.push(step_id, value)
            return value

        return watch

    def _watched_call(self, step: CallStep, run: Run) -> Run:
        if not self._is_tracking:
            return run
        cost = call_cost(step.function, step.overload)
        arg_ids = [arg.id for arg in step.args]
        step_id = step.id

        def watch(frame: Frame) -> Value:
            value = run(frame)
            tracker: CostTracker = frame[TRACKER_SLOT]
            args = tracker.take_args(arg_ids)
            if args is not None:
                tracker.cost += cost(args, value)
            tracker.push(step_id, value)
            return value

        return watch

    def _watched_literal(self, step_id: int, run: Run, arg_ids: list[int], cost: int) -> Run:
        if not self._is_tracking:
            return run

        def watch(frame: Frame) -> Value:
            value = run(frame)
            tracker: CostTracker = frame[TRACKER_SLOT]
            tracker.take_args(arg_ids)
            tracker.cost += cost
            tracker.push(step_id, value)
            return value

        return watch

    # ------------------------------------------------------------ simple steps

    def _const(self, step: Const) -> Run:
        value = step.value
        return self._watched(step.id, lambda _: value)

    def _attribute(self, step: Attribute) -> Run:
        run = attributes.compile_attribute(step, self.compile, is_tracking=self._is_tracking)
        if step.is_test:
            run = _presence(run)
        if not self._is_tracking:
            return run
        base = step.base
        step_id = step.id
        if isinstance(base, Choice):
            return self._watched(step_id, run, base.falsy.id, base.truthy.id, base.condition.id)
        cost = 0 if step.is_test else 1

        def watch(frame: Frame) -> Value:
            value = run(frame)
            tracker: CostTracker = frame[TRACKER_SLOT]
            tracker.drop(step_id)
            tracker.cost += cost
            tracker.push(step_id, value)
            return value

        return watch

    def _logical(self, step: Logical) -> Run:
        run = _logical(self.compile(step.left), self.compile(step.right), step.is_and)
        return self._watched(step.id, run, step.left.id, step.right.id)

    def _optional_or(self, step: OptionalOr) -> Run:
        left, right, is_value = self.compile(step.left), self.compile(step.right), step.is_value

        def run(frame: Frame) -> Value:
            optional = left(frame)
            if not isinstance(optional, Optional):
                return optional
            if optional.is_present:
                return optional.value if is_value else optional
            return right(frame)

        return self._watched(step.id, run)

    def _membership(self, step: Membership) -> Run:
        element, keys = self.compile(step.element), step.keys

        def run(frame: Frame) -> Value:
            value = element(frame)
            if value.__class__ is str:
                return value in keys
            if value.__class__ is ErrorValue:
                return value
            check_hashable(value)
            return map_key(value) in keys

        return self._watched(step.id, run)

    # ------------------------------------------------------------ calls

    def _call(self, step: CallStep) -> Run:
        args = [self.compile(arg) for arg in step.args]
        if not step.is_strict:
            return self._watched_call(step, _non_strict(step.implementation, args[0]))
        if len(args) == 1:
            run = _unary(step.implementation, args[0])
        elif len(args) == 2 and not step.is_sequential:
            run = self._binary(step, args)
        else:
            run = _sequential(step.implementation, args)
        return self._watched_call(step, run)

    def _binary(self, step: CallStep, args: list[Run]) -> Run:
        right = step.args[1]
        is_equality = step.function == "_==_" and not self._is_tracking
        if is_equality and isinstance(right, Const) and right.value.__class__ is str:
            return _equals_text(args[0], right.value)
        return _binary(step.implementation, *args)

    # ------------------------------------------------------------ literals

    def _list(self, step: ListStep) -> Run:
        elements = [self.compile(element) for element in step.elements]
        flags = [index in step.optional for index in range(len(elements))]

        def run(frame: Frame) -> Value:
            values: list[Value] = []
            for element, is_optional in zip(elements, flags, strict=True):
                value = element(frame)
                if value.__class__ is ErrorValue:
                    return value
                if is_optional:
                    if not isinstance(value, Optional):
                        return optional_element_error(value)
                    if not value.is_present:
                        continue
                    value = value.value
                values.append(value)
            return values

        arg_ids = [element.id for element in step.elements]
        return self._watched_literal(step.id, run, arg_ids, literal_cost(is_map=False))

    def _map(self, step: MapStep) -> Run:
        entries = [
            (self.compile(key), self.compile(value), is_optional)
            for key, value, is_optional in step.entries
        ]

        def run(frame: Frame) -> Value:
            result = MapValue()
            for key_run, value_run, is_optional in entries:
                key = key_run(frame)
                if key.__class__ is ErrorValue:
                    return key
                value = value_run(frame)
                if value.__class__ is ErrorValue:
                    return value
                error = put(result, key, value, is_optional=is_optional)
                if error is not None:
                    return error
            return result

        arg_ids = [part.id for key, value, _ in step.entries for part in (key, value)]
        return self._watched_literal(step.id, run, arg_ids, literal_cost(is_map=True))

    # ------------------------------------------------------------ loops

    def _loop(self, step: Loop) -> Run:
        iter_range, condition = self.compile(step.iter_range), self.compile(step.condition)
        body, result = self.compile(step.step), self.compile(step.result)
        accu, first, second = step.accu.slot, step.first, step.second

        def run(frame: Frame) -> Value:
            values = iter_range(frame)
            if values.__class__ is ErrorValue:
                return values
            entries = _entries(values, has_two=second is not None)
            if entries is None:
                return _not_iterable(values, has_two=second is not None)
            frame[accu] = UNSET
            tracker = frame[TRACKER_SLOT]
            for entry in entries:
                if second is None:
                    frame[first] = entry
                else:
                    frame[first], frame[second] = entry
                if condition(frame) is False:
                    break
                frame[accu] = body(frame)
                if tracker is not None:
                    tracker.count_step()
            return _immutable(result(frame))

        return self._watched(step.id, run, step.iter_range.id)


# ---------------------------------------------------------------- closures


def _entries(values: Value, *, has_two: bool) -> list[Any] | None:
    """Returns what a loop visits; None for values that cannot be visited."""
    if isinstance(values, list):
        return list(enumerate(values)) if has_two else values
    if not is_mapping(values):
        return None
    items = list(values.items())
    return items if has_two else [key for key, _ in items]


def _not_iterable(value: Value, *, has_two: bool) -> ErrorValue:
    name = go_type(value)
    if has_two:
        return ErrorValue(f"unsupported comprehension range type: {name}")
    return ErrorValue(f"got '{name}', expected iterable type")


def _immutable(value: Value) -> Value:
    if value.__class__ is MutableList:
        return list(value)
    if value.__class__ is MapValue and value.is_mutable:
        return MapValue(dict(value.entries))
    return value


def _presence(run: Run) -> Run:
    def test(frame: Frame) -> Value:
        value = run(frame)
        return value.is_present if isinstance(value, Optional) else value

    return test


def _logical(left: Run, right: Run, is_and: bool) -> Run:
    decisive = not is_and

    def run(frame: Frame) -> Value:
        first = left(frame)
        if first is decisive:
            return decisive
        second = right(frame)
        if second is decisive:
            return decisive
        for value in (first, second):
            if value.__class__ is ErrorValue:
                return value
            if value.__class__ is not bool:
                return NO_OVERLOAD
        return is_and

    return run


def _non_strict(implementation: Callable[..., Value], argument: Run) -> Run:
    return lambda frame: implementation(argument(frame))


def _unary(implementation: Callable[..., Value], argument: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = argument(frame)
        return value if value.__class__ is ErrorValue else implementation(value)

    return run


def _binary(implementation: Callable[..., Value], left: Run, right: Run) -> Run:
    def run(frame: Frame) -> Value:
        first = left(frame)
        second = right(frame)
        if first.__class__ is ErrorValue:
            return first
        if second.__class__ is ErrorValue:
            return second
        return implementation(first, second)

    return run


def _equals_text(left: Run, text: str) -> Run:
    def run(frame: Frame) -> Value:
        value = left(frame)
        if value.__class__ is str:
            return value == text
        return value if value.__class__ is ErrorValue else equal(value, text)

    return run


def _sequential(implementation: Callable[..., Value], args: list[Run]) -> Run:
    def run(frame: Frame) -> Value:
        values: list[Value] = []
        for argument in args:
            value = argument(frame)
            if value.__class__ is ErrorValue:
                return value
            values.append(value)
        return implementation(*values)

    return run
