"""The parts of a report: sections with text, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mooring.errors import ConfigError

#: Column -> values, a sequence or a numpy array; all columns have the same length.
Table: TypeAlias = Mapping[str, Any]

#: Rows of a table that a page shows; a browser lays out some thousands of them in a second.
ROWS_SHOWN_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart and the table under it.

    Attributes:
        title: The title, which also names the chart for a screen reader.
        spec: A Vega-Lite specification with its data.
        table: The values of the chart.
        summary: A sentence that says what the chart shows.
    """

    title: str
    spec: Mapping[str, Any]
    table: Table
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a report.

    Attributes:
        title: The heading.
        text: Paragraphs, as plain text.
        tables: Caption -> table.
        plots: Charts with their tables.
    """

    title: str
    text: Sequence[str] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    plots: Sequence[Plot] = ()


def columns_of(table: Table, path: str) -> dict[str, list[Any]]:
    """Returns the columns of a table as lists of plain values.

    Args:
        table: The table.
        path: The place of the table in the report, for errors.

    Raises:
        ConfigError: It has no columns, or columns of different lengths.
    """
    columns = {name: plain_list(values) for name, values in table.items()}
    if not columns:
        raise ConfigError("must have a column", path=path)
    n_rows = len(next(iter(columns.values())))
    for name, values in columns.items():
        if len(values) != n_rows:
            problem = f"must have {n_rows} values as the first column"
            raise ConfigError(problem, path=f"{path}.{name}", value=len(values))
    return columns


def plain_list(values: Sequence[Any]) -> list[Any]:
    """Returns the values of a sequence or array as a list of Python's own types."""
    tolist = getattr(values, "tolist", None)
    if tolist is not None:
        return list(tolist())
    return [item() if (item := getattr(value, "item", None)) else value for value in values]
