"""Images on nodes: sizes, and the nodes that have each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.node import ContainerImage
from mooring.state.columns.images import ImageTable

MIB = 2**20


def image(*names: str, size: int = 1) -> ContainerImage:
    return ContainerImage(names=names, size_bytes=size * MIB)


def rows_of(table: ImageTable, name: str) -> list[int]:
    """Returns the rows that have an image."""
    state = table.get(name)
    return [] if state is None else sorted(state.rows)


def test_every_image_of_a_node_and_every_name_of_an_image_counts() -> None:
    table = ImageTable()
    table.put(0, [image("a:1", "a:latest"), image("b:1")])
    table.put(1, [image("b:1"), image("c:1")])

    assert table.names(0) == ("a:1", "a:latest", "b:1")
    assert [rows_of(table, name) for name in ("a:1", "a:latest", "b:1", "c:1")] == [
        [0],
        [0],
        [0, 1],
        [1],
    ]


def test_an_image_that_no_node_has_any_more_is_forgotten() -> None:
    table = ImageTable()
    table.put(0, [image("a:1"), image("b:1")])
    table.put(1, [image("b:1")])

    table.put(0, [])

    assert table.get("a:1") is None
    assert rows_of(table, "b:1") == [1]
    assert table.names(0) == ()


def test_only_a_change_of_a_name_or_a_size_is_a_change() -> None:
    table = ImageTable()
    assert table.put(0, [image("a:1", size=5)])
    assert not table.put(0, [image("a:1", size=5)])
    assert table.put(0, [image("a:1", size=6)])
    assert table.put(0, [image("a:1", size=6), image("b:1")])
    assert table.put(0, [])
    assert not table.put(0, [])


def test_of_two_images_with_a_name_the_first_one_counts() -> None:
    table = ImageTable()
    table.put(0, [image("a:1", size=5), image("a:1", size=9)])

    state = table.get("a:1")
    assert state is not None
    assert state.size_bytes == 5 * MIB


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.sampled_from(("a", "b", "c", "d")), max_size=4)),
        max_size=20,
    )
)
def test_the_rows_of_an_image_are_those_that_were_put_last(
    steps: list[tuple[int, list[str]]],
) -> None:
    table, model = ImageTable(), dict[int, list[str]]()
    for row, names in steps:
        table.put(row, [image(name) for name in names])
        model[row] = names

    for name in "abcd":
        assert rows_of(table, name) == sorted(row for row, names in model.items() if name in names)
