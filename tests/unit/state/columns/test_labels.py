"""Label columns: every column follows every row, and a key that no row has costs nothing."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.node import Node
from mooring.state.columns.labels import MISSING, LabelColumns
from mooring.testing import make_node

Labels = Mapping[str, str]


class Rows:
    """Label columns, and the labels of each row in a list."""

    def __init__(self, capacity: int = 4) -> None:
        self.columns = LabelColumns(capacity)
        self.labels: list[Labels | None] = [None] * capacity

    def put(self, row: int, labels: Labels) -> None:
        self.columns.put(row, self.labels[row] or {}, labels)
        self.labels[row] = labels

    def remove(self, row: int) -> None:
        self.columns.put(row, self.labels[row] or {}, {})
        self.labels[row] = None

    def grow(self) -> None:
        self.labels += [None] * len(self.labels)
        self.columns.grow(len(self.labels))

    def values(self, key: str) -> list[str | None]:
        """Returns the value of a label by row, as the column has it."""
        column = self.columns.column(key, self.nodes)
        codes = column.codes.tolist()
        return [None if code == MISSING else column.values.value(code) for code in codes]

    @property
    def nodes(self) -> list[Node | None]:
        return [
            None if labels is None else make_node(f"node-{row}", labels=dict(labels))
            for row, labels in enumerate(self.labels)
        ]

    def expected(self, key: str) -> list[str | None]:
        return [None if labels is None else labels.get(key) for labels in self.labels]


def test_a_new_row_is_in_every_column() -> None:
    rows = Rows()
    rows.put(0, {"zone": "a", "host": "x", "arch": "arm"})
    for key in ("zone", "host", "arch"):
        assert rows.values(key) == rows.expected(key)

    rows.put(1, {"zone": "b", "host": "y", "arch": "x86"})

    for key in ("zone", "host", "arch"):
        assert rows.values(key) == rows.expected(key)


def test_a_key_is_known_as_long_as_one_row_has_it() -> None:
    rows = Rows()
    rows.put(0, {"zone": "a"})
    rows.put(1, {"zone": "a"})
    rows.remove(0)
    assert rows.columns.has("zone")
    assert rows.columns.ref_count() == {"zone": 1}

    rows.put(1, {"host": "y"})

    assert not rows.columns.has("zone")
    assert rows.columns.ref_count() == {"host": 1}


def test_keys_that_no_row_has_share_one_column_without_values() -> None:
    rows = Rows()
    rows.put(0, {"zone": "a"})

    first = rows.columns.column("first", rows.nodes)
    second = rows.columns.column("second", rows.nodes)

    assert first is second
    assert rows.values("first") == [None] * 4
    assert rows.columns.items() == []
    rows.grow()
    assert len(rows.columns.column("first", rows.nodes).codes) == 8


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "put", "remove", "read", "grow")),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_columns_are_the_labels_by_row(steps: list[tuple[str, int, Labels]]) -> None:
    rows = Rows()
    for what, row, labels in steps:
        if what == "put":
            rows.put(row, labels)
        elif what == "remove":
            rows.remove(row)
        elif what == "grow" and len(rows.labels) < 32:
            rows.grow()
        else:
            rows.values("a")
            rows.values("b")

    for key in "abc":
        assert rows.values(key) == rows.expected(key)
        assert rows.columns.has(key) == any(rows.expected(key))
