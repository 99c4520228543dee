"""Labels, images and host ports as columns and tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.node import ContainerImage
from mooring.state.columns.images import ImageTable
from mooring.state.columns.labels import COLUMN_LIMIT, MISSING, LabelColumn, LabelColumns
from mooring.state.columns.ports import ANY_ADDRESS, HostPort, PortTable, conflicts
from mooring.testing import make_node


class Rows:
    """Label columns and the labels of the rows, updated together."""

    def __init__(self, *labels: dict[str, str] | None, capacity: int = 0) -> None:
        self.columns = LabelColumns(capacity=capacity or len(labels))
        self.labels: list[dict[str, str] | None] = [None] * len(labels)
        for row, of_row in enumerate(labels):
            if of_row is not None:
                self.put(row, of_row)

    def put(self, row: int, labels: dict[str, str]) -> None:
        self.columns.put(row, self.labels[row] or {}, labels)
        self.labels[row] = labels

    def column(self, key: str) -> LabelColumn:
        nodes = [
            None if labels is None else make_node(f"node-{row}", labels=labels)
            for row, labels in enumerate(self.labels)
        ]
        return self.columns.column(key, nodes)


def test_a_label_column_is_built_once_and_follows_afterwards() -> None:
    rows = Rows({"disk": "ssd"}, {}, None, {"disk": "hdd"})
    column = rows.column("disk")
    assert column.codes.tolist() == [0, MISSING, MISSING, 1]

    rows.put(1, {"disk": "hdd"})
    rows.put(3, {"rack": "9"})

    assert rows.column("disk") is column
    assert column.codes.tolist() == [0, 1, MISSING, MISSING]
    assert column.values.values() == ["ssd", "hdd"]


def test_a_value_that_no_node_has_any_more_frees_its_code() -> None:
    rows = Rows({"v": "1"}, {"v": "2"})
    column = rows.column("v")

    rows.put(0, {"v": "3"})
    rows.put(0, {"v": "4"})

    assert len(column.values) <= 3
    assert column.values.value(int(column.codes[0])) == "4"


def test_growing_keeps_the_codes_and_new_rows_are_missing() -> None:
    rows = Rows({"v": "1"})
    rows.column("v")

    rows.columns.grow(3)

    assert rows.column("v").codes.tolist() == [0, MISSING, MISSING]
    assert rows.column("absent").codes.tolist() == [MISSING] * 3


def test_label_columns_are_bounded_and_the_least_used_goes_first() -> None:
    rows = Rows(dict.fromkeys([*(f"k{number}" for number in range(COLUMN_LIMIT)), "one-more"], ""))
    for number in range(COLUMN_LIMIT):
        rows.column(f"k{number}")
    rows.column("k0")

    rows.column("one-more")

    keys = [key for key, _ in rows.columns.items()]
    assert len(keys) == COLUMN_LIMIT
    assert "k0" in keys
    assert "k1" not in keys


def test_keys_that_no_row_has_share_a_column_and_push_none_out() -> None:
    rows = Rows({"v": "1"}, {"w": ""})
    rows.column("v")

    absent = [rows.column(f"absent-{number}") for number in range(2 * COLUMN_LIMIT)]

    assert [key for key, _ in rows.columns.items()] == ["v"]
    assert {id(each) for each in absent} == {id(absent[0])}
    assert absent[0].codes.tolist() == [MISSING, MISSING]
    assert (rows.columns.has("w"), rows.columns.has("absent-1")) == (True, False)


def test_a_key_that_comes_has_a_column_and_one_that_goes_has_nobody() -> None:
    rows = Rows({}, {"v": "1"})
    assert rows.column("late").codes.tolist() == [MISSING, MISSING]

    rows.put(0, {"late": "x"})
    rows.put(1, {})

    assert rows.column("late").codes.tolist() == [0, MISSING]
    assert rows.columns.ref_count() == {"late": 1}
    assert rows.column("v").codes.tolist() == [MISSING, MISSING]


def test_an_image_keeps_the_size_of_the_first_node_that_told_of_it() -> None:
    table = ImageTable()
    table.put(0, [ContainerImage(names=("web:1",), size_bytes=10)])
    table.put(1, [ContainerImage(names=("web:1", "alias:1"), size_bytes=99)])

    web, alias = table.get("web:1"), table.get("alias:1")

    assert web is not None
    assert alias is not None
    assert (web.size_bytes, list(web.rows)) == (10, [0, 1])
    assert (alias.size_bytes, list(alias.rows)) == (99, [1])


def test_an_image_that_left_every_node_is_forgotten_with_its_size() -> None:
    table = ImageTable()
    table.put(0, [ContainerImage(names=("web:1",), size_bytes=10)])

    assert table.put(0, []) is True
    assert table.get("web:1") is None
    table.put(5, [ContainerImage(names=("web:1",), size_bytes=30)])
    state = table.get("web:1")
    assert state is not None
    assert state.size_bytes == 30


def test_putting_the_same_images_again_is_no_change() -> None:
    table = ImageTable()
    images = [ContainerImage(names=("web:1",), size_bytes=10)]
    table.put(0, images)

    assert table.put(0, images) is False


PORTS = st.tuples(
    st.sampled_from((ANY_ADDRESS, "10.0.0.1", "10.0.0.2")),
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from((80, 443)),
)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(PORTS, max_size=3)), max_size=8),
    st.lists(PORTS, min_size=1, max_size=2),
)
def test_rows_in_conflict_are_those_where_some_pair_of_ports_conflicts(
    held: list[tuple[int, list[HostPort]]], wanted: list[HostPort]
) -> None:
    table = PortTable()
    for row, ports in held:
        table.add(row, ports)

    expected = {
        row for row, ports in held if any(conflicts(want, has) for want in wanted for has in ports)
    }
    assert set(table.rows_in_conflict(wanted)) == expected

    for row, ports in held:
        table.remove(row, ports)
    assert list(table.items()) == []


def test_two_pods_with_one_port_free_it_only_when_both_are_gone() -> None:
    table = PortTable()
    port = (ANY_ADDRESS, "TCP", 80)
    table.add(0, [port])
    table.add(0, [port])

    table.remove(0, [port])
    assert list(table.rows_in_conflict([port])) == [0]
    table.remove(0, [port])
    assert list(table.rows_in_conflict([port])) == []


def test_an_address_conflicts_with_itself_and_with_all_addresses_only() -> None:
    one, two = ("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80)

    assert conflicts(one, one)
    assert not conflicts(one, two)
    assert conflicts(one, (ANY_ADDRESS, "TCP", 80))
    assert not conflicts(one, (ANY_ADDRESS, "UDP", 80))
