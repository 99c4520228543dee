"""Tests the tables of results."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from mooring import Cluster, ConfigError, Table
from mooring.scenario.tables.columns import Times
from mooring.testing import make_node, make_pod

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


def test_a_table_keeps_its_columns_when_a_list_changes_and_reads_others_when_needed() -> None:
    names, times = ["a", "b"], Times([1.0, float("nan")])
    table = Table({"pod": names, "end": times})

    names.append("c")

    assert len(table) == 2
    assert table.to_dict() == {"pod": ["a", "b"], "end": [1, None]}


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


# ---- the libraries themselves ----


def test_pandas_gets_the_columns_with_their_types() -> None:
    frame = TABLE.to_pandas()
    assert list(frame.columns) == TABLE.columns
    assert frame["pod"].tolist() == ["a/x", "a/y", "b/z"]
    assert frame["score"].isna().tolist() == [False, True, False]
    assert frame.groupby("node")["score"].sum().to_dict() == {"n1": 22.0, "n2": 0.0}
    assert frame["victims"].tolist() == [[], ["a/v", "a/w"], []]


def test_polars_gets_the_columns_with_their_types() -> None:
    import polars as pl

    frame = TABLE.to_polars()
    assert frame.schema == {
        "pod": pl.String,
        "node": pl.String,
        "score": pl.Int64,
        "victims": pl.List(pl.String),
    }
    assert frame.rows() == [
        ("a/x", "n1", 10, []),
        ("a/y", "n2", None, ["a/v", "a/w"]),
        ("b/z", "n1", 12, []),
    ]


def test_arrow_gets_the_columns_with_their_types() -> None:
    table = TABLE.to_arrow()
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("pod", "string"),
        ("node", "string"),
        ("score", "int64"),
        ("victims", "list<item: string>"),
    ]
    assert table.to_pydict() == TABLE.to_dict()


def test_a_library_reads_the_table_as_an_arrow_stream() -> None:
    """The protocol itself: the libraries get an object of which they know only the method."""
    import polars as pl
    import pyarrow as pa

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return TABLE.__arrow_c_stream__(requested_schema)

    assert pa.table(Stream()).to_pydict() == TABLE.to_dict()
    assert pa.RecordBatchReader.from_stream(Stream()).read_all().num_rows == 3
    assert pl.DataFrame(Stream()).to_dict(as_series=False) == TABLE.to_dict()
    wanted = pa.schema({"score": pa.int32()})
    scores = Table({"score": [1, None]})
    reader = pa.RecordBatchReader.from_stream(scores, schema=wanted)
    assert str(reader.read_all().schema.field("score").type) == "int32"


@pytest.mark.parametrize("table", ["placements", "refused", "evicted"])
@pytest.mark.parametrize("convert", ["to_pandas", "to_polars", "to_arrow"])
def test_every_table_of_a_result_can_be_converted(table: str, convert: str) -> None:
    objects = [
        make_node("a", allocatable={"cpu": "2"}),
        make_pod("low", requests={"cpu": "2"}, node="a"),
        make_pod("vip", requests={"cpu": "2"}, priority=9),
        make_pod("big", requests={"cpu": "9"}),
    ]
    result = Cluster(objects).simulate()
    for own in (getattr(result, table), getattr(Cluster(objects[:1]).simulate(), table)):
        frame = getattr(own, convert)()
        assert len(frame) == len(own)
        names = frame.column_names if convert == "to_arrow" else list(frame.columns)
        assert names == own.columns
