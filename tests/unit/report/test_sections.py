"""Tables of a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import ConfigError
from mooring.report.sections import columns_of


def test_arrays_and_their_values_become_values_of_python() -> None:
    table: dict[str, Any] = {
        "array": np.array([1, 2]),
        "list": [np.float64(0.5), None],
        "text": ("a", "b"),
    }

    columns = columns_of(table, "t")

    assert columns == {"array": [1, 2], "list": [0.5, None], "text": ["a", "b"]}
    assert {type(value) for values in columns.values() for value in values} == {
        *(int, float, str, type(None)),
    }


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "Waits: must have a column"),
        ({"a": [1, 2], "b": [1]}, "Waits.b: must have 2 values as the first column, got 1"),
    ],
)
def test_tables_without_a_shape_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        columns_of(table, "Waits")

    assert str(caught.value) == message
