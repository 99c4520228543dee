"""JSON paths of printer columns, as kubectl's documentation has them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.custom.paths import find, parse_path

_OBJ: Any = {
    "metadata": {"name": "a", "annotations": {"x.y/z": "v"}},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".metadata.name", ["a"]),
        (".metadata.annotations['x.y/z']", ["v"]),
        (r".metadata.annotations.x\.y/z", ["v"]),
        ('.status.conditions[?(@.type=="B")].status', ["True"]),
        (".status.conditions[0].type", ["A"]),
        (".status.conditions[*].type", ["A", "B"]),
        (".status.phase", []),
        (".status.conditions[7].type", []),
    ],
)
def test_values_at_a_path(path: str, values: list[str]) -> None:
    assert find(_OBJ, path) == values


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec[?(@.a)]"])
def test_a_path_that_cannot_be_read_has_no_values(path: str) -> None:
    assert parse_path(path) is None
    assert find(_OBJ, path) == []
