"""Writes a report as one HTML file.

The file holds its scripts, styles and data, and asks for nothing else: its Content-Security-Policy
refuses every request, and every script that is not one of ours. Specifications of charts stand in
script elements of type application/json, in which "<", ">" and "&" are escaped; all other text is
escaped as HTML. Vega evaluates expressions with its interpreter, so the policy needs no
``unsafe-eval``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.report.sections import ROWS_SHOWN_MAX, Plot, Section, Table, columns_of
from mooring.report.vendor import scripts, source_hash, style

#: Bytes of the data of all charts: a browser takes a second for a tenth of it.
DATA_BYTES_MAX: Final = 64 * 1024**2

#: Inside of a script element: no markup can begin or end, and old parsers see no line break.
_JSON_ESCAPES: Final = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)
_DIGITS: Final = 6
#: Whole numbers below it are written with all digits.
_WHOLE_MAX: Final = 1e15


def html_report(
    title: str, sections: Sequence[Section], *, inputs: Mapping[str, str] | None = None
) -> str:
    """Returns the report as the text of an HTML file.

    Args:
        title: The title.
        sections: The sections, in order.
        inputs: Name -> text of what the report was made of, such as the scenario, the seed and the
            digest of the results; they are the last section.

    Raises:
        ConfigError: A table has no columns or columns of different lengths, or the data of the
            charts is too large.

    Example:
        >>> html_report("Friday", [Section("Verdict", ["No difference shown."])])[:15]
        '<!DOCTYPE html>'
    """
    writer = _Writer()
    body = [writer.section(section) for section in sections]
    if inputs:
        body.append(_inputs(inputs))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(source_hash, scripts()))}",
            # Vega-Embed and its tooltip add style elements.
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{style()}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
    ]
    tail = [
        "</main>",
        *(f"<script>{text}</script>" for text in scripts()),
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join([*head, *body, *tail])


class _Writer:
    """Writes sections; counts charts and their data."""

    def __init__(self) -> None:
        self._n_plots = 0
        self._n_bytes = 0

    def section(self, section: Section) -> str:
        """Returns the HTML of a section."""
        parts = ["<section>", f"<h2>{escape(section.title)}</h2>"]
        parts += [f"<p>{escape(text)}</p>" for text in section.text]
        for caption, table in section.tables.items():
            parts.append(_table(caption, table, f"{section.title}.{caption}"))
        parts += [self._plot(plot) for plot in section.plots]
        return "\n".join([*parts, "</section>"])

    def _plot(self, plot: Plot) -> str:
        self._n_plots += 1
        data = _json(plot.spec, plot.title)
        self._n_bytes += len(data)
        if self._n_bytes > DATA_BYTES_MAX:
            problem = f"the charts have more than {DATA_BYTES_MAX} bytes of data"
            raise ConfigError(problem, path=plot.title, value=self._n_bytes)
        name = f"chart-{self._n_plots}"
        n_rows = len(next(iter(columns_of(plot.table, plot.title).values())))
        text = [plot.summary] if plot.summary else []
        chart = [
            f'<div class="chart" id="{name}" role="img" aria-labelledby="{name}-title"></div>',
            f'<script type="application/json" id="{name}-spec">{data}</script>',
        ]
        if plot.spec.get("data") == {"values": []}:
            text.append("No data.")
            chart = []
        return "\n".join(
            [
                "<figure>",
                f'<figcaption id="{name}-title">{escape(plot.title)}</figcaption>',
                *(f"<p>{escape(paragraph)}</p>" for paragraph in text),
                *chart,
                "<details>",
                f"<summary>Values ({n_rows} rows)</summary>",
                _table(plot.title, plot.table, plot.title),
                "</details>",
                "</figure>",
            ]
        )


def _json(spec: Mapping[str, Any], title: str) -> str:
    try:
        return msgspec.json.encode(spec).decode().translate(_JSON_ESCAPES)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"is not JSON: {error}", path=title) from None


def _table(caption: str, table: Table, path: str) -> str:
    """Returns the HTML of a table: at most ``ROWS_SHOWN_MAX`` rows."""
    columns = columns_of(table, path)
    n_rows = len(next(iter(columns.values())))
    note = f" (the first {ROWS_SHOWN_MAX} of {n_rows} rows)" if n_rows > ROWS_SHOWN_MAX else ""
    numeric = {name: _is_numeric(values) for name, values in columns.items()}
    heads = "".join(
        f'<th scope="col"{_number_class(is_numeric=numeric[name])}>{escape(name)}</th>'
        for name in columns
    )
    lines = [
        # A wide table scrolls, also by keyboard.
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(caption)}">',
        f"<table><caption>{escape(caption + note)}</caption>",
        f"<thead><tr>{heads}</tr></thead>",
        "<tbody>",
    ]
    for row in range(min(n_rows, ROWS_SHOWN_MAX)):
        cells = "".join(
            f"<td{_number_class(is_numeric=numeric[name])}>{escape(_text(values[row]))}</td>"
            for name, values in columns.items()
        )
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>", "</div>"])


def _number_class(*, is_numeric: bool) -> str:
    return ' class="number"' if is_numeric else ""


def _is_numeric(values: Sequence[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in present
    )


def _text(value: Any) -> str:
    """Returns a value as a reader sees it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < _WHOLE_MAX:
            return str(int(value))
        return f"{value:.{_DIGITS}g}" if math.isfinite(value) else str(value)
    if isinstance(value, str | int):
        return str(value)
    return json.dumps(value, default=str)


def _inputs(inputs: Mapping[str, str]) -> str:
    parts = ["<section>", "<h2>Inputs</h2>"]
    for name, text in inputs.items():
        parts.append(f"<h3>{escape(name)}</h3>")
        parts.append(
            f'<pre role="region" tabindex="0" aria-label="{escape(name)}">{escape(text)}</pre>'
        )
    return "\n".join([*parts, "</section>"])
