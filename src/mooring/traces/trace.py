"""The columns that traces of all formats have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.errors import ConfigError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Texts: TypeAlias = NDArray[np.object_]

#: Pods of a whole trace: the largest published traces have some tens of millions.
PODS_MAX: Final = 100_000_000

#: Largest amount of a resource in a column. A double holds every integer up to it, so sums of
#: amounts and products with a count are computed without a surprise.
AMOUNT_MAX: Final = 2**53

#: Different notes of a trace, and fields without effect: further ones are counted together.
_NOTES_MAX: Final = 50
_OTHERS: Final = "others"
#: Longer values, paths and names of fields are cut in notes.
_VALUE_LIMIT: Final = 60

#: Column -> the value of a row that has none; ``submit_s`` is always required.
DEFAULTS: Final[Mapping[str, Any]] = {
    "submit_s": 0.0,
    "duration_s": math.nan,
    "cpu_milli": 0,
    "memory_bytes": 0,
    "gpu_milli": 0,
    "gpu_count": 0,
    "gpu_models": "",
    "priority": 0,
    "group": "",
    "user": "",
    "names": "",
    "count": 1,
}


#: The priorities that Kubernetes has: 32 bits.
_PRIORITIES: Final = (-(2**31), 2**31 - 1)
_AMOUNTS: Final = ("cpu_milli", "memory_bytes", "gpu_milli", "gpu_count", "count")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trace:
    """Submissions of pods, in order of time. All columns have the shape (n_rows,).

    Attributes:
        name: The name of the trace: its file.
        format: The format that was read.
        submit_s: Times of submission in seconds, ascending, 0 or later.
        duration_s: Run times in seconds; nan = no end is recorded.
        cpu_milli: Requests of one pod in millicores.
        memory_bytes: Requests of one pod.
        gpu_milli: Request of one device in thousandths; 1000 = a whole device, 0 = no device.
        gpu_count: Devices of one pod.
        gpu_models: Device models that are suitable, separated by "|"; "" = any.
        priority: Pod priorities of 32 bits; 0 = not recorded.
        group: Queue, partition or owner; "" = not recorded.
        user: User or namespace; "" = not recorded.
        names: Names; they need not be unique.
        count: Equal pods of the submission; at least 1.
        notes: Sentences about rows that were left out, values that were assumed, and fields that
            have no effect; with their number, and the place and the value of the first.
    """

    name: str
    format: str
    submit_s: Floats
    duration_s: Floats
    cpu_milli: Ints
    memory_bytes: Ints
    gpu_milli: Ints
    gpu_count: Ints
    gpu_models: Texts
    priority: Ints
    group: Texts
    user: Texts
    names: Texts
    count: Ints
    notes: tuple[str, ...] = ()

    @classmethod
    def build(
        cls,
        *,
        name: str,
        format: str,  # noqa: A002 - the attribute's name
        columns: Mapping[str, Sequence[Any]],
        notes: Sequence[str] = (),
    ) -> Trace:
        """Returns a trace of columns of equal length, sorted by time of submission.

        Rows of one time keep their order. A column that is left out has its default.

        Args:
            name: The name of the trace.
            format: The format that was read.
            columns: Column -> values; ``submit_s`` is required.
            notes: Sentences for the user.

        Raises:
            ConfigError: The trace has too many pods.
        """
        n_rows = len(columns["submit_s"])
        arrays: dict[str, Any] = {}
        for title, default in DEFAULTS.items():
            arrays[title] = _array(columns.get(title), default, n_rows)
        if arrays["count"].sum(dtype=np.float64) > PODS_MAX:
            raise ConfigError(f"has more than {PODS_MAX} pods", file=name)
        order = np.argsort(arrays["submit_s"], kind="stable")
        arrays = {title: array[order] for title, array in arrays.items()}
        return cls(name=name, format=format, notes=tuple(notes), **arrays)

    def __len__(self) -> int:
        """Returns the number of submissions."""
        return len(self.submit_s)

    def duration_of(self, row: int) -> float:
        """Returns the run time of a submission in seconds; nan = no end is recorded."""
        return float(self.duration_s[row])

    @property
    def n_pods(self) -> int:
        """The number of pods: the sum of ``count``."""
        return int(self.count.sum())


class _Place(NamedTuple):
    """The place of a case, and the value there."""

    line: int | None
    path: str | None
    value: Any

    def text(self) -> str:
        """Returns the place in words; "" = it is unknown."""
        parts = [] if self.line is None else [f"line {self.line}"]
        parts += [_cut(self.path)] if self.path else []
        if parts and self.value is not None:
            value = f"{self.value:g}" if isinstance(self.value, float) else repr(self.value)
            parts.append(_cut(value))
        return ": ".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_LIMIT else text[:_VALUE_LIMIT] + "..."


class _Cases:
    """The cases of a note: their number, and the place of the first."""

    __slots__ = ("count", "first")

    def __init__(self, first: str) -> None:
        self.count = 0
        self.first = first

    def where(self, form: str = " ({})") -> str:
        """Returns the place of the first case in words; "" = there is none."""
        if not self.first:
            return ""
        return form.format(f"{'first at ' if self.count > 1 else 'at '}{self.first}")


def _count(cases: dict[str, _Cases], text: str, place: _Place) -> None:
    """Counts a case; of too many different texts the later ones are counted together."""
    if text not in cases:
        text = text if len(cases) < _NOTES_MAX else _OTHERS
    if text not in cases:
        cases[text] = _Cases(place.text() if text != _OTHERS else "")
    cases[text].count += 1


class Rows:
    """Collects the rows of a trace; a value that is left out has its default."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {title: [] for title in DEFAULTS}
        self._notes: dict[str, _Cases] = {}
        self._unread: dict[str, _Cases] = {}

    def add(self, *, submit_s: float, **values: Any) -> None:
        """Adds a row; the keywords are columns of ``Trace``.

        Raises:
            ConfigError: An amount is negative or too large; the path is the name of its column.
        """
        assert not values.keys() - DEFAULTS.keys(), values.keys()
        check_amounts(values)
        self._columns["submit_s"].append(submit_s)
        for title, default in DEFAULTS.items():
            if title != "submit_s":
                self._columns[title].append(values.get(title, default))

    def note(
        self,
        text: str,
        *,
        line: int | None = None,
        path: str | None = None,
        value: Any = None,
    ) -> None:
        """Counts one case of a note, such as "cancelled before it ran: left out".

        Args:
            text: The note.
            line: The line of the case; the note has the place of its first case.
            path: The path of the case in its document or line.
            value: What is there.
        """
        _count(self._notes, text, _Place(line, path, value))

    def unread(
        self,
        field: str,
        *,
        line: int | None = None,
        path: str | None = None,
        value: Any = None,
    ) -> None:
        """Counts one case of a field that has a value and no effect; all are one note.

        Args:
            field: The name of the field.
            line: The line of the case; the note has the place of the first case of a field.
            path: The path of the case in its document.
            value: What is there.
        """
        _count(self._unread, _cut(field), _Place(line, path, value))

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._columns["submit_s"])

    def trace(
        self,
        *,
        name: str,
        format: str,  # noqa: A002 - the attribute's name
        is_shifted: bool = False,
    ) -> Trace:
        """Returns the trace.

        Args:
            name: The name of the trace.
            format: The format that was read.
            is_shifted: Whether the first submission is moved to 0 s, and all others with it.

        Raises:
            ConfigError: The trace has no rows, or too many pods.
        """
        submit_s = self._columns["submit_s"]
        if not submit_s:
            raise ConfigError("has no pods", file=name)
        if is_shifted:
            first_s = min(submit_s)
            self._columns["submit_s"] = [time_s - first_s for time_s in submit_s]
        notes = [f"{cases.count} x {text}{cases.where()}" for text, cases in self._notes.items()]
        if self._unread:
            fields = [
                f"{field} ({cases.count} x{cases.where(', {}')})"
                for field, cases in self._unread.items()
            ]
            notes.append(f"fields that have no effect: {', '.join(fields)}")
        return Trace.build(name=name, format=format, columns=self._columns, notes=notes)


def check_amounts(columns: Mapping[str, Any], path: str = "") -> None:
    """Checks that the amounts of a row fit into its columns.

    Args:
        columns: Column -> value.
        path: The path of the row in its document, for errors.

    Raises:
        ConfigError: An amount is negative or too large, or a priority has more than 32 bits.
    """
    least, largest = _PRIORITIES
    if not least <= columns.get("priority", 0) <= largest:
        place = f"{path}.priority" if path else "priority"
        problem = f"must be from {least} to {largest}"
        raise ConfigError(problem, path=place, value=columns["priority"])
    for title in _AMOUNTS:
        if not 0 <= columns.get(title, 0) <= AMOUNT_MAX:
            place = f"{path}.{title}" if path else title
            problem = f"must be from 0 to {AMOUNT_MAX}"
            raise ConfigError(problem, path=place, value=columns[title])


def _array(values: Sequence[Any] | None, default: Any, n_rows: int) -> NDArray[Any]:
    """Returns a column as an array of the type of its default."""
    kinds: dict[type, Any] = {float: np.float64, int: np.int64, str: np.object_}
    dtype = kinds[type(default)]
    if values is None:
        return np.full(n_rows, default, dtype=dtype)
    assert len(values) == n_rows, (len(values), n_rows)
    return np.array(values, dtype=dtype)
