"""Tests the tables of results."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from mooring import ConfigError, Table

TABLE = Table(
    {
        "pod": ["a/x", "a/y", "b/z"],
        "node": ["n1", "n2", "n1"],
        "score": [10, None, 12],
        "victims": [[], ["a/v", "a/w"], []],
    }
)


def test_columns_rows_and_slices_are_read_by_index() -> None:
    assert TABLE.columns == ["pod", "node", "score", "victims"]
    assert TABLE["node"] == ["n1", "n2", "n1"]
    assert TABLE[1] == {"pod": "a/y", "node": "n2", "score": None, "victims": ["a/v", "a/w"]}
    assert [row["pod"] for row in TABLE] == ["a/x", "a/y", "b/z"]
    assert TABLE[:2]["pod"] == ["a/x", "a/y"]
    assert len(TABLE.where(node="n1")) == 2
    with pytest.raises(KeyError, match="no column 'nodes'; columns: pod, node, score, victims"):
        TABLE["nodes"]


def test_columns_of_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Table({"a": [1], "b": []})


def test_csv_is_written_to_a_file_and_returned(tmp_path: Any) -> None:
    file = tmp_path / "pods.csv"
    text = TABLE.to_csv(file)
    assert file.read_text() == text
    assert text.splitlines()[:3] == ["pod,node,score,victims", "a/x,n1,10,", "a/y,n2,,a/v a/w"]


def test_text_and_html_show_the_first_rows_and_escape_names() -> None:
    table = Table({"pod": [f"<b>{number}" for number in range(25)]})
    assert repr(table).splitlines()[-1] == "... and 5 more rows"
    page = table._repr_html_()
    assert "&lt;b&gt;0" in page
    assert "<b>" not in page
    assert "and 5 more rows" in page
    assert repr(Table({})) == "an empty table"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_missing_library_is_named_with_what_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = builtins.__import__
    import importlib

    def missing(name: str, package: str | None = None) -> Any:
        if name == library:
            raise ImportError(name)
        return own(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    convert = {"pandas": "to_pandas", "polars": "to_polars", "pyarrow": "to_arrow"}[library]
    with pytest.raises(ConfigError, match=f"{library} is not installed: pip install {library}"):
        getattr(TABLE, convert)()
