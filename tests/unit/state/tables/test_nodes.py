"""NodeTable: each change of a node is logged with the columns that it concerns, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.state.columns.change_log import Change
from mooring.state.tables.nodes import NodeTable
from mooring.testing import make_node


def node(*, status: dict[str, Any] | None = None, **more: Any) -> Node:
    made = make_node("a", labels={"rack": "1"}, **more)
    if status is None:
        return made
    extra: Node = convert({"metadata": {"name": "a"}, "status": status}, "Node")
    conditions, features = extra.status.conditions, extra.status.declared_features
    return replace(
        made, status=replace(made.status, conditions=conditions, declared_features=features)
    )


def annotated(value: str) -> Node:
    made = node()
    return replace(made, metadata=replace(made.metadata, annotations={"a": value}))


def kinds_of(before: Node | None, after: Node) -> Change | None:
    """Returns the kinds that a change logs for its row; None = it logs nothing."""
    table = NodeTable()
    if before is not None:
        table.put(before)
    generation = table.log.generation
    row = table.put(after)
    changes = table.log.since(generation)
    assert changes is not None
    if not len(changes[0]):
        return None
    ((changed,), (kinds,)) = changes
    assert changed == row
    return Change(int(kinds))


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        (node(), None),
        (make_node("a", labels={"rack": "2"}), Change.LABELS),
        (make_node("a"), Change.LABELS),
        (node(taints=["gpu:NoSchedule"]), Change.TAINTS),
        (node(unschedulable=True), Change.TAINTS),
        (node(allocatable={"cpu": "1"}), Change.ALLOCATABLE),
        (node(images={"i": 1}), Change.IMAGES),
        (annotated("x"), Change.OTHER),
        (node(status={"conditions": [{"type": "Ready", "status": "True"}]}), Change.OTHER),
        (node(status={"declaredFeatures": ["Resize"]}), Change.OTHER),
        (
            make_node("a", labels={"rack": "2"}, taints=["x:NoSchedule"], images={"i": 1}),
            Change.LABELS | Change.TAINTS | Change.IMAGES,
        ),
    ],
)
def test_an_update_is_logged_with_what_it_changes(after: Node, kinds: Change | None) -> None:
    assert kinds_of(node(), after) == kinds
    assert kinds_of(after, node()) == kinds


def test_a_new_node_changes_everything() -> None:
    assert kinds_of(None, node()) == Change.ALL


def test_a_node_is_in_the_visit_order_of_its_present_zone() -> None:
    table = NodeTable()
    rows = [table.put(make_node(name, zone=zone)) for name, zone in ("ax", "bx", "cy")]
    assert table.order.rows() == [rows[0], rows[2], rows[1]]

    table.put(make_node("a", zone="y"))
    table.put(make_node("d", zone="z"))

    # Zone y has c and then a, which moved there; the list is made again for the new node.
    assert [table.names[row] for row in table.order.rows()] == ["b", "c", "d", "a"]


def test_labels_that_a_node_has_are_counted_until_the_last_of_them_goes() -> None:
    table = NodeTable()
    table.put(make_node("a", labels={"rack": "1"}))
    table.put(make_node("b", labels={"rack": "1", "disk": "ssd"}))
    assert (table.has_label("rack"), table.has_label("disk"), table.has_label("x")) == (
        True,
        True,
        False,
    )

    table.put(make_node("b", labels={"rack": "2"}))
    assert (table.has_label("rack"), table.has_label("disk")) == (True, False)
    table.remove("a")
    assert table.has_label("rack")
    table.remove("b")
    assert not table.has_label("rack")


def test_a_removed_node_leaves_nothing_in_its_columns() -> None:
    table = NodeTable()
    full = make_node("a", taints=["x:NoSchedule"], unschedulable=True, images={"i": 1})
    row = table.put(full)
    generation = table.log.generation
    table.remove("a")

    assert table.log.rows_with(int(Change.EXISTENCE), generation) == [row]
    assert (len(table), table.size, table.row("a")) == (0, 1, -1)
    assert table.taint_sets.value(int(table.taint_ids[row])) == ()
    assert not table.unschedulable[row]
    assert not table.alive[row]
    assert not table.allocatable[:, row].any()
    assert (int(table.allowed_pods[row]), table.images.get("i")) == (0, None)
    assert table.put(make_node("b")) == row
    assert table.taint_sets.value(int(table.taint_ids[row])) == ()


def test_another_size_of_an_image_is_a_change_if_the_node_reported_it_first() -> None:
    assert kinds_of(node(images={"i": 1}), node(images={"i": 2})) == Change.IMAGES
    assert kinds_of(node(images={"i": 1}), node(images={"j": 1})) == Change.IMAGES
    assert kinds_of(node(images={"i": 1, "j": 1}), node(images={"j": 1, "i": 1})) is None
    table = NodeTable()
    for name, size in (("first", 1), ("second", 5)):
        table.put(make_node(name, images={"i": size}))
    generation = table.log.generation

    table.put(make_node("second", images={"i": 7}))  # the size of the first counts
    assert table.log.generation == generation
