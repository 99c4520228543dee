"""Reports: one HTML file with plots and tables, which needs no network.

::

    tables (column -> values) --> charts: Vega-Lite specs --> Section(plots, tables) --> html_report
"""

from __future__ import annotations

from mooring.report.charts import (
    bars_with_intervals,
    cdf_by_group,
    heat_map,
    stacked_areas,
    step_curves,
)
from mooring.report.html import html_report
from mooring.report.sections import Plot, Section, Table
from mooring.report.series import wide_series

__all__ = [
    "Plot",
    "Section",
    "Table",
    "bars_with_intervals",
    "cdf_by_group",
    "heat_map",
    "html_report",
    "stacked_areas",
    "step_curves",
    "wide_series",
]
