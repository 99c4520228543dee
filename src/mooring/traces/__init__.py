"""Traces of workloads, in the formats of the field, as columns.

``read_trace`` reads a file; a ``Trace`` has one row for each submission of equal pods.
"""

from __future__ import annotations

from mooring.traces.read import read_trace
from mooring.traces.trace import Trace

__all__ = ["Trace", "read_trace"]
