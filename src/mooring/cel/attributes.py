"""Reads variables, fields and entries.

Source: cel-go v0.26.0, interpreter/attributes.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mooring.cel.cost import CostTracker
from mooring.cel.golang.text import general
from mooring.cel.golang.type_names import go_type, is_key, native_type
from mooring.cel.plan import Attribute, Choice, Const, Operand, Qualifier, Step, Variable
from mooring.cel.planner import DEVICE_SLOT, TRACKER_SLOT
from mooring.cel.types import Type
from mooring.cel.values import (
    NO_OVERLOAD,
    NONE,
    DomainMap,
    ErrorValue,
    MapValue,
    MutableList,
    Optional,
    StringMap,
    Uint,
    Value,
    is_mapping,
    text,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Frame: TypeAlias = list[Any]
    Run: TypeAlias = Callable[[Frame], Value]
    #: Reads an entry of a value; the flag says whether it was there.
    Read: TypeAlias = Callable[[Frame, Value], tuple[Value, bool]]

UNSET: Final = object()
_DEVICE_FIELDS: Final = frozenset({"driver", "allowMultipleAllocations"})
_MISSING: Final = object()


def compile_attribute(
    attribute: Attribute, compile_step: Callable[[Step], Run], *, is_tracking: bool
) -> Run:
    """Returns the closure that reads an attribute."""
    if not is_tracking:
        run = _device_entry(attribute)
        if run is not None:
            return run
    base = _base(attribute.base, compile_step, is_tracking=is_tracking)
    qualifiers = [
        _Reader(qualifier, compile_step, is_tracking=is_tracking)
        for qualifier in attribute.qualifiers
    ]
    if not qualifiers:
        return base if isinstance(attribute.base, Choice) else _flattened(base)

    def run_all(frame: Frame) -> Value:
        value = base(frame)
        if value.__class__ is ErrorValue:
            return value
        is_optional = False
        if value.__class__ is Optional:
            if not value.is_present:
                return value
            value, is_optional = _reread(value.value), True
            if value.__class__ is ErrorValue:
                return value
        for reader in qualifiers:
            is_optional = is_optional or reader.is_optional
            value, is_present = reader.read(frame, value, if_present=is_optional)
            if value.__class__ is ErrorValue:
                return value
            if not is_present:
                return NONE
        return Optional(value) if is_optional else value

    return run_all


def _flattened(base: Run) -> Run:
    """Returns what reads a value as a whole: upstream makes an optional of it anew."""

    def run(frame: Frame) -> Value:
        value = base(frame)
        if value.__class__ is Optional and value.is_present:
            return Optional(_reread(value.value))
        return value

    return run


def _reread(value: Value) -> Value:
    """Returns the content of an optional as upstream reads it: as a value of Go.

    A type becomes its name, an optional its content, and maps by domain lose their default. Some
    values cannot be converted back.
    """
    if value.__class__ is Optional:
        return _reread(value.value) if value.is_present else None
    if isinstance(value, Type):
        return value.name
    if isinstance(value, DomainMap):
        return StringMap(value.entries)
    if name := native_type(value):
        return ErrorValue(f"unsupported conversion to ref.Val: ({name}){value}")
    return value


def _device_entry(attribute: Attribute) -> Run | None:
    """Returns a quick closure for ``device.attributes["domain"].id`` and the like, or None."""
    is_device = isinstance(attribute.base, Variable) and attribute.base.slot == DEVICE_SLOT
    names: list[str] = []
    for qualifier in attribute.qualifiers:
        index = qualifier.index
        is_simple = isinstance(index, Const) and index.value.__class__ is str
        if not is_simple or qualifier.is_optional or qualifier.is_test:
            return None
        assert isinstance(index, Const)
        names.append(index.value)
    if not is_device or not names:
        return None
    if len(names) == 1:
        return _field(names[0])
    if len(names) == 3 and names[0] not in _DEVICE_FIELDS:
        return _entry(*names)
    return None


def _field(name: str) -> Run:
    return lambda frame: frame[DEVICE_SLOT].entries[name]


def _entry(field: str, domain: str, name: str) -> Run:
    missing = ErrorValue(f"no such key: {name}")

    def run(frame: Frame) -> Value:
        entries = frame[DEVICE_SLOT].entries[field].entries.get(domain)
        if entries is None:
            return missing
        return entries.entries.get(name, missing)

    return run


def _base(
    base: Variable | Operand | Choice, compile_step: Callable[[Step], Run], *, is_tracking: bool
) -> Run:
    if isinstance(base, Operand):
        return compile_step(base.step)
    if isinstance(base, Choice):
        return _choice(base, compile_step, is_tracking=is_tracking)
    slot = base.slot
    if base.init is None:
        return lambda frame: frame[slot]
    init = compile_step(base.init)

    def run(frame: Frame) -> Value:
        value = frame[slot]
        if value is UNSET:
            value = frame[slot] = _mutable(init(frame))
        return value

    return run


def _mutable(value: Value) -> Value:
    """Returns the begin of a loop's result: an empty list or map can grow in place."""
    if isinstance(value, list) and not value:
        return MutableList()
    if is_mapping(value) and not len(value):
        result = MapValue()
        result.is_mutable = True
        return result
    return value


def _choice(base: Choice, compile_step: Callable[[Step], Run], *, is_tracking: bool) -> Run:
    condition = compile_step(base.condition)
    truthy = compile_attribute(base.truthy, compile_step, is_tracking=is_tracking)
    falsy = compile_attribute(base.falsy, compile_step, is_tracking=is_tracking)

    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return truthy(frame)
        if value is False:
            return falsy(frame)
        return value if value.__class__ is ErrorValue else NO_OVERLOAD

    return run


class _Reader:
    """Reads one field or entry, and reports to the tracker if there is one."""

    __slots__ = ("_id", "_index", "_is_computed", "_is_test", "_is_tracking", "is_optional")

    def __init__(
        self, qualifier: Qualifier, compile_step: Callable[[Step], Run], *, is_tracking: bool
    ) -> None:
        self.is_optional = qualifier.is_optional
        self._id = qualifier.id
        self._is_test = qualifier.is_test
        self._is_tracking = is_tracking
        index = qualifier.index
        #: A computed index is an attribute itself, whose value upstream records in its place.
        self._is_computed = not isinstance(index, Const | Attribute)
        if isinstance(index, Const):
            constant = index.value
            self._index: Run = lambda _: constant
        elif isinstance(index, Attribute):
            self._index = compile_attribute(index, compile_step, is_tracking=is_tracking)
        else:
            self._index = compile_step(index)

    def read(self, frame: Frame, value: Value, *, if_present: bool) -> tuple[Value, bool]:
        """Returns an entry and whether it is there; only an error if ``if_present`` is False."""
        index = self._index(frame)
        if index.__class__ is ErrorValue:
            result, is_present = index, True
        elif self._is_test:
            result, is_present = self._test(value, index, if_present=if_present)
        else:
            result, is_present = lookup(value, index, if_present=if_present)
        is_read = is_present and result.__class__ is not ErrorValue
        if self._is_tracking and (is_read or not if_present):
            tracker: CostTracker = frame[TRACKER_SLOT]
            if self._is_computed:
                tracker.drop(self._id)
            tracker.cost += 1
            tracker.push(self._id, result)
        return result, is_present

    @staticmethod
    def _test(value: Value, index: Value, *, if_present: bool) -> tuple[Value, bool]:
        result, is_present = lookup(value, index, if_present=True)
        if if_present or result.__class__ is ErrorValue:
            return result, is_present
        return is_present, True


def lookup(value: Value, index: Value, *, if_present: bool) -> tuple[Value, bool]:
    """Returns the entry of a map or list, and whether there is one.

    An absent entry is an error, unless ``if_present`` is True.
    """
    problem = _bad_index(index)
    if problem is not None:
        return problem, True
    if is_mapping(value):
        result, is_present = value.find(index)
        if is_present:
            return result, True
    elif isinstance(value, list):
        position = list_index(index)
        if isinstance(position, ErrorValue):
            return position, True
        if 0 <= position < len(value):
            return value[position], True
        if not if_present:
            return ErrorValue(f"index out of bounds: {text(index)}"), True
    if if_present:
        return None, False
    return ErrorValue(f"no such key: {_key_text(index)}"), True


def _key_text(index: Value) -> str:
    if index.__class__ is float:
        return general(index)
    return text(index)


def _bad_index(index: Value) -> ErrorValue | None:
    """Returns the error of an index that can be no key."""
    if is_key(index):
        return None
    return ErrorValue(f"invalid qualifier type: {go_type(index)}")


def list_index(index: Value) -> int | ErrorValue:
    """Returns the position that an index of a list stands for."""
    if index.__class__ is int:
        return int(index)
    if isinstance(index, Uint):
        if index.number < 2**63:
            return index.number
        return ErrorValue(f"unsupported index value {index.number} in list")
    if index.__class__ is float:
        if -(2.0**63) < index < 2.0**63 and index == int(index):
            return int(index)
        return ErrorValue(f"unsupported index value {_key_text(index)} in list")
    return ErrorValue(f"unsupported index type '{type_of(index).long_text}' in list")
