"""Labels, images and host ports as columns and tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.node import ContainerImage
from mooring.state.images import ImageTable
from mooring.state.labels import COLUMN_LIMIT, MISSING, LabelColumns
from mooring.state.ports import ANY_ADDRESS, HostPort, PortTable, conflicts


def test_a_label_column_is_built_once_and_follows_afterwards() -> None:
    columns = LabelColumns(capacity=4)
    column = columns.column("disk", [{"disk": "ssd"}, {}, None, {"disk": "hdd"}])
    assert column.codes.tolist() == [0, MISSING, MISSING, 1]

    columns.put(1, {"disk": "hdd"})
    columns.put(3, {"rack": "9"})

    assert columns.column("disk", []).codes.tolist() == [0, 1, MISSING, MISSING]
    assert column.values.values() == ["ssd", "hdd"]


def test_a_value_that_no_node_has_any_more_frees_its_code() -> None:
    columns = LabelColumns(capacity=2)
    column = columns.column("v", [{"v": "1"}, {"v": "2"}])

    columns.put(0, {"v": "3"})
    columns.put(0, {"v": "4"})

    assert len(column.values) <= 3
    assert column.values.value(int(column.codes[0])) == "4"


def test_growing_keeps_the_codes_and_new_rows_are_missing() -> None:
    columns = LabelColumns(capacity=1)
    columns.column("v", [{"v": "1"}])

    columns.grow(3)

    assert columns.column("v", []).codes.tolist() == [0, MISSING, MISSING]


def test_label_columns_are_bounded_and_the_least_used_goes_first() -> None:
    columns = LabelColumns(capacity=1)
    for number in range(COLUMN_LIMIT):
        columns.column(f"k{number}", [{}])
    columns.column("k0", [{}])

    columns.column("one-more", [{}])

    keys = [key for key, _ in columns.items()]
    assert len(keys) == COLUMN_LIMIT
    assert "k0" in keys
    assert "k1" not in keys


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
