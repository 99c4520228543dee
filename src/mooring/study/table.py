"""A small table: named columns of equal length, convertible into data frames."""

from __future__ import annotations

import csv
import html
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, overload

from mooring.errors import ConfigError
from mooring.files import replaced_file
from mooring.simulation.report import aligned

#: Rows that ``repr`` and notebooks show.
ROWS_SHOWN: Final = 20

#: Library -> what to install for it.
_EXTRAS: Final = {"pandas": "pandas", "polars": "polars", "pyarrow": "pyarrow"}


class Table(Sequence[dict[str, Any]]):
    """Rows with named columns; ``table["pod"]`` is a column, ``table[0]`` a row as a dict.

    It can be read by every library that knows the Arrow stream protocol.

    Example:
        >>> table = Table({"pod": ["a/x", "a/y"], "node": ["n1", "n2"]})
        >>> table["node"]
        ['n1', 'n2']
        >>> table[1]
        {'pod': 'a/y', 'node': 'n2'}
        >>> len(table.where(node="n1"))
        1
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Takes the columns.

        Raises:
            ValueError: they have different lengths.
        """
        lengths = {name: len(values) for name, values in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"columns of different lengths: {lengths}")
        self._length = next(iter(lengths.values()), 0)
        # Lists may be changed by their owner; others are read when they are needed.
        self._sources = {
            name: list(values) if isinstance(values, list) else values
            for name, values in columns.items()
        }

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
        """Returns the table of some rows; ``names`` are those of the columns."""
        return cls({name: [row[at] for row in rows] for at, name in enumerate(names)})

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        return {
            name: values if isinstance(values, list) else list(values)
            for name, values in self._sources.items()
        }

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._sources)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, item: str) -> list[Any]: ...
    @overload
    def __getitem__(self, item: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, item: slice) -> Table: ...
    def __getitem__(self, item: str | int | slice) -> Any:
        """Returns a column by name, a row by position, or some rows as a table.

        Raises:
            KeyError: there is no such column.
            IndexError: there is no such row.
        """
        if isinstance(item, str):
            if item not in self._columns:
                raise KeyError(f"no column {item!r}; columns: {', '.join(self._columns)}")
            return list(self._columns[item])
        if isinstance(item, slice):
            return Table({name: values[item] for name, values in self._columns.items()})
        return {name: values[item] for name, values in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows."""
        return (self[at] for at in range(len(self)))

    def where(self, **values: Any) -> Table:
        """Returns the rows whose columns have these values.

        Raises:
            KeyError: there is no such column.
        """
        columns = [(self[name], value) for name, value in values.items()]
        rows = [
            at for at in range(len(self)) if all(column[at] == value for column, value in columns)
        ]
        return Table({name: [own[at] for at in rows] for name, own in self._columns.items()})

    # -- conversions ------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns the columns."""
        return {name: list(values) for name, values in self._columns.items()}

    def to_csv(self, path: str | Path | None = None) -> str:
        """Returns the table as CSV, and writes it to a file if a path is given."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self._columns)
        for row in zip(*self._columns.values(), strict=True):
            writer.writerow([_cell(value) for value in row])
        if path is not None:
            with replaced_file(path) as file:
                file.write(out.getvalue().encode())
        return out.getvalue()

    def to_pandas(self) -> Any:
        """Returns a pandas DataFrame.

        Raises:
            ConfigError: pandas is not installed.
        """
        return _library("pandas").DataFrame(self.to_dict())

    def to_polars(self) -> Any:
        """Returns a polars DataFrame.

        Raises:
            ConfigError: polars is not installed.
        """
        return _library("polars").DataFrame(self.to_dict(), strict=False)

    def to_arrow(self) -> Any:
        """Returns a pyarrow Table.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return _library("pyarrow").table(self.to_dict())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns the table as an Arrow stream, for libraries that read the protocol.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    # -- display ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if not self._columns:
            return "an empty table"
        rows = [tuple(str(_cell(value)) for value in row.values()) for row in self[:ROWS_SHOWN]]
        lines = aligned([tuple(self._columns), *rows], indent="", text_columns=len(self._columns))
        if len(self) > ROWS_SHOWN:
            lines.append(f"... and {len(self) - ROWS_SHOWN} more rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns the first rows for a notebook."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(str(_cell(value)))}</td>" for value in row.values())
            + "</tr>"
            for row in self[:ROWS_SHOWN]
        )
        more = len(self) - ROWS_SHOWN
        note = f"<p>... and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "; ".join(f"{count} {name}" for name, count in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _library(name: str) -> Any:
    """Returns an optional library.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{name} is not installed: pip install {_EXTRAS[name]}") from error
