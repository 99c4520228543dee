"""Tests the drawing of nodes and pods."""

from __future__ import annotations

from mooring.learn.drawing import Drawing
from mooring.learn.event_log import Line


def test_each_node_is_a_box_with_its_pods() -> None:
    written: list[str] = []
    drawing = Drawing(written.append)
    drawing.add_nodes(["node0"], cordoned=True)
    drawing.add_nodes(["node1"], cordoned=False)
    for pod, what, node in [
        ("pod1", "queued", ""),
        ("pod2", "queued", ""),
        ("pod1", "popped", ""),
        ("pod1", "bound", "node1"),
    ]:
        drawing(Line(0.0, f"default/{pod}", what, node, ""))

    assert written == [
        "  +node0xxxxx+ +node1-----+",
        "  |          | |pod1      |",
        "  +xxxxxxxxxx+ +----------+",
        "  pod2 in the queue",
        "",
    ]


def test_a_second_pod_makes_the_box_higher_and_a_waiting_pod_is_named() -> None:
    drawing = Drawing(lambda _line: None)
    drawing.add_nodes(["a"], cordoned=False)
    for pod in ("p1", "p2"):
        drawing(Line(0.0, f"default/{pod}", "bound", "a", ""))
    drawing(Line(0.0, "default/p3", "waiting", "a", "NodeNumber"))
    assert drawing.lines() == [
        "  +a---------+",
        "  |p1        |",
        "  |p2        |",
        "  +----------+",
        "  p3 in Permit for a",
        "",
    ]


def test_many_nodes_fit_a_terminal() -> None:
    drawing = Drawing(lambda _line: None)
    drawing.add_nodes([f"a-node-with-a-long-name-{n}" for n in range(20)], cordoned=False)
    assert max(map(len, drawing.lines())) <= 80
