"""Traces of workloads, in the formats of the field, as columns.

``read_trace`` reads a file; a ``Trace`` has one row for each submission of equal pods. Both are
loaded at their first use: every simulation imports the lists of openb from this package, and most
read no other trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.traces.read import read_trace
    from mooring.traces.trace import Trace

__all__ = ["Trace", "read_trace"]


def __getattr__(name: str) -> Any:
    """Loads a public name at its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mooring.traces.read import read_trace
    from mooring.traces.trace import Trace

    globals().update(read_trace=read_trace, Trace=Trace)
    return globals()[name]
