"""Reads a trace of any known format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.errors import ConfigError
from mooring.traces.openb import OPENB_PREFIX
from mooring.traces.openb_trace import read_openb
from mooring.traces.trace import Trace


def read_trace(
    path: str, *, trace_format: str | None = None, columns: Mapping[str, Any] | None = None
) -> Trace:
    """Returns the trace of a file, or of a list of openb (``openb:default``).

    Args:
        path: The file.
        trace_format: Its format; None = as its content says.
        columns: For CSV: which column is which.

    Raises:
        ConfigError: it cannot be read.
    """
    del columns
    if path.startswith(OPENB_PREFIX):
        return read_openb(path.removeprefix(OPENB_PREFIX))
    raise ConfigError("unknown format of a trace", file=path, value=trace_format)
