"""The summary of a simulation: counted right, and shown without a control character."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest

from mooring.objects.meta import ObjectMeta, ResourceRequirements
from mooring.objects.node import Node, NodeStatus
from mooring.objects.pod import Container, Pod, PodSpec
from mooring.simulation.report import (
    ROWS_SHOWN,
    OutcomeCounts,
    Summary,
    aligned,
    headline,
    percent,
    plain_text,
    print_tables,
    sections,
    summarize,
)
from mooring.simulation.utilization import Utilization


def node(name: str, cpu: str = "4") -> Node:
    allocatable: dict[str, str | int | float] = {"cpu": cpu, "memory": "8Gi", "pods": "9"}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=allocatable))


def pod(name: str, cpu: str) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
    spec = PodSpec(containers=(Container(resources=resources),))
    return Pod(metadata=ObjectMeta(name=name), spec=spec)


def summary(n_nodes: int = 3, n_pods: int = 2) -> Summary:
    utilization, counts = (
        Utilization([node(f"n{index}") for index in range(n_nodes)]),
        OutcomeCounts(),
    )
    for index in range(n_pods):
        utilization.add(pod(f"p{index}", "2"), f"n{index}")
        counts.add("scheduled", (), "")
    counts.add("unschedulable", {"Too many pods": 1, "Insufficient cpu": 2}, "0/3 nodes ...")
    return summarize("test", utilization, counts, duration_s=0.5, peak_rss_bytes=3 << 20)


def test_every_pod_is_counted_once() -> None:
    counts = OutcomeCounts()
    counts.add("scheduled", (), "")
    counts.add("unschedulable", {"b": 1, "a": 3}, "whole message")
    counts.add("unschedulable", ["a", "b"], "another message")
    counts.add("unschedulable", (), "refused as a whole")
    counts.add("gated", (), "waiting for scheduling gates: [x]")
    counts.add("error", (), "boom")
    assert counts.bound == 1
    assert counts.refused == {
        "a, b": 2,
        "refused as a whole": 1,
        "waiting for scheduling gates: [x]": 1,
        "error: boom": 1,
    }
    assert counts.pods == 6


def test_the_json_has_what_other_programs_read() -> None:
    found = json.loads(msgspec.json.encode(summary()))
    named = {"nodes", "pods", "bound", "unschedulable", "seconds", "pods_per_s", "peak_rss_bytes"}
    assert {name: found[name] for name in named} == {
        "nodes": 3,
        "pods": 3,
        "bound": 2,
        "unschedulable": {"Insufficient cpu, Too many pods": 1},
        "seconds": 0.5,
        "pods_per_s": 6.0,
        "peak_rss_bytes": 3 << 20,
    }
    assert found["bound"] + sum(found["unschedulable"].values()) == found["pods"]
    assert found["resources"]["cpu"] == {"allocatable": 12_000, "requested": 4_000}
    assert "pods" not in found["resources"]


def test_groups_add_up_to_the_cluster() -> None:
    utilization = Utilization([node("a"), node("b"), node("c", cpu="8")])
    utilization.add(pod("x", "3"), "a")
    utilization.add(pod("y", "1"), "c")
    found = summarize("test", utilization, OutcomeCounts(), duration_s=0.0, peak_rss_bytes=0)
    assert [(group.name, group.nodes, group.pods) for group in found.groups] == [
        ("4 cpu, 8Gi memory", 2, 1),
        ("8 cpu, 8Gi memory", 1, 1),
    ]
    assert found.groups[0].resources["cpu"].share == 3 / 8
    for name, whole in found.resources.items():
        assert sum(group.resources[name].requested for group in found.groups) == whole.requested
        assert sum(group.resources[name].allocatable for group in found.groups) == whole.allocatable


def test_the_fullest_and_the_emptiest_nodes_are_named_in_order() -> None:
    utilization = Utilization([node(f"n{index:02}") for index in range(20)])
    for index in range(20):
        utilization.add(pod(f"p{index}", f"{index * 100}m"), f"n{index:02}")
    found = summarize("test", utilization, OutcomeCounts(), duration_s=1.0, peak_rss_bytes=0)
    assert [item.name for item in found.fullest] == ["n19", "n18", "n17", "n16", "n15"]
    assert [item.name for item in found.emptiest] == ["n00", "n01", "n02", "n03", "n04"]
    assert found.emptiest[0].pods == 1


def test_the_speed_of_nothing_is_nothing() -> None:
    found = summarize("test", Utilization(), OutcomeCounts(), duration_s=0.0, peak_rss_bytes=0)
    assert (found.pods_per_s, found.pods, found.fullest, found.groups) == (0.0, 0, [], [])
    assert "0 of 0 pods placed on 0 nodes" in plain_text(found)


def test_the_headline_says_it_in_one_line() -> None:
    assert headline(summary()) == (
        "2 of 3 pods placed on 3 nodes, 1 refused, in 0.50 s (6 pods/s, 3 MiB at most)"
    )


def test_plain_text_is_aligned_and_has_no_control_characters() -> None:
    text = plain_text(summary())
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "\n  cpu               4           12  33.3%\n" in text
    assert "\n  memory          2Gi         24Gi   8.3%\n" in text
    assert "\n  Insufficient cpu, Too many pods     1\n" in text
    assert text.count("n2 ") == 1


def test_small_clusters_name_each_node_once() -> None:
    (nodes,) = [s for s in sections(summary()) if "emptiest" in s.title]
    assert sorted(row[0] for row in nodes.rows) == ["n0", "n1", "n2"]


def test_long_tables_are_cut_and_say_so() -> None:
    counts = OutcomeCounts()
    for index in range(40):
        counts.add("unschedulable", [f"reason {index:02}"], "")
    found = summarize("test", Utilization(), counts, duration_s=1.0, peak_rss_bytes=0)
    (refused,) = sections(found)
    assert len(refused.rows) == ROWS_SHOWN
    assert refused.rows[-1] == ("... and 26 more", "")
    assert len(found.unschedulable) == 40


def test_the_most_frequent_reason_comes_first() -> None:
    counts = OutcomeCounts()
    for reason, count in [("rare", 1), ("frequent", 3), ("b", 2), ("a", 2)]:
        for _ in range(count):
            counts.add("unschedulable", [reason], "")
    found = summarize("test", Utilization(), counts, duration_s=1.0, peak_rss_bytes=0)
    assert list(found.unschedulable) == ["frequent", "a", "b", "rare"]


def test_tables_for_a_terminal_show_the_same_and_take_no_text_for_markup() -> None:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=False)
    told = msgspec.structs.replace(summary(), unschedulable={"[red]odd[/red] reason": 1})
    print_tables(told, console)
    assert "[red]odd[/red] reason" in out.getvalue()
    assert "2 of 3 pods placed" in out.getvalue()


def test_lines_are_aligned_to_the_widest_cell() -> None:
    assert aligned([("a", "1"), ("long", "100")]) == ["  a       1", "  long  100"]
    assert aligned([("a", ""), ("b", "")]) == ["  a", "  b"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0%"), (0.12345, "12.3%"), (0.99999, "99.9%"), (1.0, "100.0%"), (1.5, "150.0%")],
)
def test_nothing_is_full_while_something_is_left(share: Any, text: str) -> None:
    assert percent(share) == text


def test_resources_with_the_same_short_name_have_their_whole_names() -> None:
    allocatable: dict[str, str | int | float] = {"cpu": "4", "x.io/gpu": 1, "y.io/gpu": 2}
    one = Node(metadata=ObjectMeta(name="a"), status=NodeStatus(allocatable=allocatable))
    counts = OutcomeCounts()

    text = plain_text(summarize("w", Utilization([one]), counts, duration_s=1.0, peak_rss_bytes=1))

    assert [line.split()[0] for line in text.splitlines() if "gpu  " in line][:2] == [
        "x.io/gpu",
        "y.io/gpu",
    ]
