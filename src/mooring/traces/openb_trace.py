"""The openb trace, shipped with the package, with its times."""

from __future__ import annotations

import math
from typing import Any, Final

from mooring.traces.openb import read_columns
from mooring.traces.trace import Trace

_MIB: Final = 1 << 20


def read_openb(name: str) -> Trace:
    """Returns a list of pods as a trace; the first pod comes at 0 s.

    A pod runs from its scheduling, or else its creation, to its deletion. A list without times has
    all pods at 0 s, in its order.

    Raises:
        ConfigError: there is no such list.
    """
    columns = read_columns("pods", name)
    n_rows = len(columns["name"])
    created: list[Any] = columns.get("creation_time") or [0] * n_rows
    ends = columns.get("deletion_time") or [None] * n_rows
    begins = columns.get("scheduled_time") or [None] * n_rows
    order = sorted(range(n_rows), key=created.__getitem__)
    first = created[order[0]] if order else 0

    def of(title: str, default: Any) -> list[Any]:
        values = columns.get(title)
        return [default if values is None else values[row] for row in order]

    return Trace.build(
        name=f"openb:{name}",
        format="openb",
        columns={
            "submit_s": [float(created[row] - first) for row in order],
            "duration_s": [_duration(created[row], begins[row], ends[row]) for row in order],
            "cpu_milli": of("cpu_milli", 0),
            "memory_bytes": [mib * _MIB for mib in of("memory_mib", 0)],
            "gpu_count": of("num_gpu", 0),
            "gpu_milli": of("gpu_milli", 0),
            "gpu_models": [text or "" for text in of("gpu_spec", "")],
            "group": [text or "" for text in of("qos", "")],
            "names": of("name", ""),
        },
    )


def _duration(created: int, begun: int | None, ended: int | None) -> float:
    if ended is None:
        return math.nan
    return float(max(0, ended - (created if begun is None else begun)))
