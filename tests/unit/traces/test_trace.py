"""The columns of a trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mooring.errors import ConfigError
from mooring.traces.trace import AMOUNT_MAX, PODS_MAX, Rows, Trace


def test_rows_are_sorted_by_time_and_rows_of_one_time_keep_their_order() -> None:
    columns: dict[str, list[Any]] = {
        "submit_s": [5.0, 1.0, 5.0, 1.0],
        "names": ["a", "b", "c", "d"],
    }

    trace = Trace.build(name="t", format="csv", columns=columns)

    assert trace.names.tolist() == ["b", "d", "a", "c"]
    assert trace.submit_s.tolist() == [1.0, 1.0, 5.0, 5.0]


def test_a_column_that_is_left_out_has_its_default() -> None:
    trace = Trace.build(name="t", format="csv", columns={"submit_s": [0.0, 1.0]})

    assert len(trace) == trace.n_pods == 2
    assert math.isnan(trace.duration_of(0))
    assert trace.count.tolist() == [1, 1]
    assert trace.cpu_milli.dtype == np.int64
    assert trace.group.tolist() == ["", ""]


def test_rows_are_moved_so_that_the_first_is_at_0_s() -> None:
    rows = Rows()
    rows.add(submit_s=107.0, count=3)
    rows.add(submit_s=100.5)
    rows.note("odd row")
    rows.note("odd row")

    trace = rows.trace(name="t", format="csv", is_shifted=True)

    assert trace.submit_s.tolist() == [0.0, 6.5]
    assert trace.n_pods == 4
    assert trace.notes == ("2 x odd row",)


def test_a_trace_without_pods_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"jobs.swf: has no pods"):
        Rows().trace(name="jobs.swf", format="swf")


def test_amounts_that_no_column_can_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"memory_bytes: must be from 0 to {AMOUNT_MAX}, got"):
        Rows().add(submit_s=0.0, memory_bytes=AMOUNT_MAX + 1)


def test_too_many_pods_are_refused() -> None:
    rows = Rows()
    rows.add(submit_s=0.0, count=PODS_MAX)
    rows.add(submit_s=0.0)

    with pytest.raises(ConfigError, match=f"t: has more than {PODS_MAX} pods"):
        rows.trace(name="t", format="csv")
