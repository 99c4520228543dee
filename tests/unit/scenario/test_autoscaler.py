"""Time lines of the autoscaler, worked out by hand from cluster-autoscaler's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.scenario.results import Result
from tests.helpers.scenario_files import (
    Spec,
    by_pod,
    deployment,
    job,
    node,
    nodes,
    pod,
    rows,
    run,
)

HOUR = 3600.0


def group(name: str = "g", **more: Any) -> Spec:
    """Returns a group of nodes with 4 cpus, ready after 90 s, at most 10."""
    return {"name": name, "max": 10, "template": node(), **more}


def scenario(groups: list[Spec], *workload: Spec, **more: Any) -> Spec:
    """Returns a scenario; a node that takes no pod is always there.

    Without any node, attempts end with an error, and are retried with backoff.
    """
    cluster = {"groups": groups, "nodes": [nodes(1, name="base-", cpu="10m")]}
    return {"cluster": cluster, "workload": list(workload), **more}


def lives(result: Result) -> list[tuple[str, float, float | None]]:
    """Returns name, coming and leaving of the nodes of groups."""
    return [
        (row["node"], row["added_s"], row["removed_s"])
        for row in rows(result, "nodes")
        if not row["node"].startswith("base-")
    ]


def arriving(pods: Spec, *at: str, name: str = "p", duration: str = "1h") -> Spec:
    return {"name": name, "arrive": {"at": list(at)}, "object": pods, "duration": duration}


def test_a_node_comes_for_a_pod_and_leaves_ten_minutes_after_it(tmp_path: Path) -> None:
    result = run(tmp_path, scenario([group()], arriving(pod("3"), "12s", duration="20m")))
    # Refused at 12 s, seen by the scan at 20 s, ready 90 s later, idle after 20 minutes.
    end = 110 + 1200
    assert lives(result) == [("g-0", 110, end + 600)]
    assert by_pod(result)["p-0"]["starting_time_s"] == 110


def test_one_scan_adds_nodes_for_all_pods_that_wait(tmp_path: Path) -> None:
    spec = scenario([group()], arriving(pod("2"), *["1s"] * 5), end={"at": "1h"})
    assert [added for _, added, _ in lives(run(tmp_path, spec))] == [100, 100, 100]


def test_nodes_that_come_already_are_counted(tmp_path: Path) -> None:
    spec = scenario([group()], arriving(pod("2"), "1s", "40s"), end={"at": "30m"})
    assert len(lives(run(tmp_path, spec))) == 1


def test_the_largest_number_of_nodes_holds(tmp_path: Path) -> None:
    result = run(
        tmp_path, scenario([group(max=2)], arriving(pod("4"), *["1s"] * 3), end={"at": "30m"})
    )
    assert len(lives(result)) == 2
    assert result.summary["pods.pending"] == 1
    assert result.notes[0].endswith("g: has its 2 nodes")


def test_a_pod_that_no_template_would_take(tmp_path: Path) -> None:
    result = run(tmp_path, scenario([group()], arriving(pod("5"), "1s")))
    assert lives(result) == []
    assert [*result.notes] == ["no node was added for default/p-0: g: Insufficient cpu"]


def test_the_filters_are_the_schedulers_own(tmp_path: Path) -> None:
    tainted = node()
    tainted["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    wanting = pod("1", nodeSelector={"disk": "ssd"})
    result = run(
        tmp_path,
        scenario([group("t", template=tainted), group("p")], arriving(wanting, "1s")),
    )
    [note] = result.notes
    assert "t: node(s) had untolerated taint" in note
    assert "p: node(s) didn't match Pod's node affinity/selector" in note


@pytest.mark.parametrize(
    ("expander", "selected"),
    [
        (["least-waste"], "snug"),
        (["most-pods"], "wide"),
        (["least-nodes"], "wide"),
        (["price"], "cheap"),
        (["priority"], "snug"),
        (["least-nodes", "price"], "snug"),
    ],
)
def test_expanders(tmp_path: Path, expander: list[str], selected: str) -> None:
    """Four pods of 2 cpus: two snug nodes of 4, four cheap ones of 3, or one wide one of 16."""
    memory = {"memory": "8Gi"}
    groups = [
        group("snug", template=node(cpu="4", **memory), price=2, priority=5, max=1),
        group("cheap", template=node(cpu="3", **memory), price=0.1),
        group("wide", template=node(cpu="16", **memory), price=9),
    ]
    spec = pod("2")
    spec["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    if expander != ["least-waste"] and expander != ["priority"]:
        spec["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    result = run(
        tmp_path,
        scenario(
            groups,
            arriving(spec, *["1s"] * 4),
            autoscaler={"expander": expander},
            end={"at": "105s"},
        ),
    )
    assert lives(result)[0][0].startswith(selected)


def test_a_node_that_does_not_come_is_given_up_and_its_group_left_out(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        scenario(
            [group(provision="1h"), group("other", price=5)],
            arriving(pod("3"), "1s"),
            autoscaler={"expander": ["price"]},
            end={"at": "40m"},
        ),
    )
    # Asked for at 10 s, given up 15 minutes later; the other group's node takes 90 s.
    assert lives(result) == [("other-0", 10 + 900 + 90, None)]


def test_the_least_number_of_nodes_stays(tmp_path: Path) -> None:
    spec = scenario([group(min=2)], arriving(pod("1"), "1s", duration="1m"), end={"at": "1h"})
    assert lives(run(tmp_path, spec)) == [("g-0", 0, None), ("g-1", 0, None)]


def test_pods_move_together_if_they_fit_elsewhere(tmp_path: Path) -> None:
    """Two nodes with one replica each of 1 cpu: one of them is drained and removed."""
    result = run(
        tmp_path,
        scenario(
            [group()],
            {"at": "1s", "create": deployment("web", 2, "3")},
            {"at": "1000s", "scale": {"name": "web", "replicas": 0}},
            {"at": "1100s", "create": deployment("small", 2, "1")},
            end={"at": "1h"},
        ),
    )
    left = [removed for _, _, removed in lives(result) if removed is not None]
    # Both are idle at 1030 s, when the grace period of the old pods ends; the new pods ask for a
    # quarter of each, and fit on one.
    assert left == [1030 + 600]
    assert result.summary["evictions"] == 1
    assert result.summary["pods.pending"] == 0


def test_a_pod_without_a_controller_keeps_its_node(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        scenario([group()], arriving(pod("1"), "1s", duration="3h"), end={"at": "2h"}),
    )
    assert lives(result) == [("g-0", 100, None)]


def test_a_node_in_use_stays_until_its_pods_have_gone(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        scenario(
            [group()],
            {"at": "1s", "create": job("train", "2", completions=1), "duration": "30m"},
        ),
    )
    # Half of the node is asked for: not less than the threshold.
    assert lives(result) == [("g-0", 100, 100 + 1800 + 600)]


def test_nothing_is_removed_soon_after_an_addition(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        scenario(
            [group()],
            arriving(pod("3"), "1s", name="a", duration="5m"),
            arriving(pod("4"), "600s", "610s", name="b", duration="5m"),
        ),
    )
    removed = {name: gone for name, _, gone in lives(result)}
    # The second node comes at 700 s; the first was idle from 400 s until its pod of 600 s.
    assert set(removed) == {"g-0", "g-1"}
    assert all(gone is not None and gone >= 700 + 600 for gone in removed.values())


def test_ten_minutes_begin_again_after_a_pod_that_came_and_left(tmp_path: Path) -> None:
    """A node is idle from 400 s on, but for a minute from 700 s on."""
    result = run(
        tmp_path,
        scenario(
            [group()],
            arriving(pod("3"), "1s", name="a", duration="5m"),
            arriving(pod("3"), "700s", name="b", duration="1m"),
        ),
    )
    assert lives(result) == [("g-0", 100, 700 + 60 + 600)]


def test_nodes_that_go_together_have_room_for_the_pods_of_all(tmp_path: Path) -> None:
    """Three nodes of 4 cpus with a pod of 1.5 each: two can share a node, three cannot."""
    result = run(
        tmp_path,
        scenario(
            [group()],
            {"at": "1s", "create": deployment("web", 3, "2.5")},
            {"at": "200s", "create": deployment("small", 3, "1.5")},
            {"at": "470s", "scale": {"name": "web", "replicas": 0}},
            end={"at": "2h"},
        ),
    )
    # The old pods are gone at 500 s, after their grace period.
    assert [(added, removed) for _, added, removed in lives(result)] == [
        (100, 500 + 600),
        (100, None),
        (100, None),
    ]
    assert result.summary["evictions"] == 1


def test_a_node_is_not_needed_from_when_other_nodes_have_room(tmp_path: Path) -> None:
    spec = scenario(
        [group()],
        {"at": "0s", "cordon": {"node": "spare-0"}},
        {"at": "1s", "create": deployment("web", 1, "1")},
        {"at": "1000s", "uncordon": {"node": "spare-0"}},
        end={"at": "2h"},
    )
    spec["cluster"]["nodes"].append(nodes(1, name="spare-"))
    assert ("g-0", 100, 1000 + 600) in lives(run(tmp_path, spec))


def test_a_pod_that_tolerates_everything_does_not_move_to_the_node_that_leaves(
    tmp_path: Path,
) -> None:
    web = deployment("web", 1, "1")
    web["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    spec = scenario([group()], {"at": "1s", "create": web}, end={"at": "2h"})
    assert lives(run(tmp_path, spec)) == [("g-0", 100, None)]


def test_the_delay_after_a_scale_up_begins_when_nodes_are_asked_for(tmp_path: Path) -> None:
    """A node is asked for at 10 s, and comes at 310 s for a pod that has left meanwhile."""
    result = run(
        tmp_path,
        scenario(
            [group(provision="5m")],
            {"at": "1s", "create": job("train", "1", completions=1), "duration": "10s"},
            {"at": "20s", "delete": {"kind": "Job", "name": "train"}},
            autoscaler={"scaleDownUnneededTime": "1m"},
        ),
    )
    assert lives(result) == [("g-0", 310, 10 + 600)]


def test_a_scan_sees_the_pods_that_were_refused_before_it(tmp_path: Path) -> None:
    """Pods come at 10 s: the scan at 20 s asks for a node for them, the one at 30 s for another."""
    spec = scenario(
        [group("a", max=1, priority=2), group("b", max=1)],
        arriving(pod("3"), "10s", "10s"),
        arriving(pod("9"), *["10s"] * 3, name="never"),
        autoscaler={"expander": ["priority"]},
        end={"at": "10m"},
    )
    assert lives(run(tmp_path, spec)) == [("a-0", 110, None), ("b-0", 120, None)]


def test_pods_that_are_refused_at_the_instant_of_a_scan_are_seen_together(tmp_path: Path) -> None:
    spec = scenario([group()], arriving(pod("2"), *["10m"] * 5), end={"at": "1h"})
    assert [added for _, added, _ in lives(run(tmp_path, spec))] == [700, 700, 700]


def test_no_scale_down_if_it_is_off(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        scenario(
            [group()],
            arriving(pod("1"), "1s", duration="1m"),
            autoscaler={"scaleDown": False},
            end={"at": "3h"},
        ),
    )
    assert lives(result) == [("g-0", 100, None)]


def test_the_cost_is_hours_times_price(tmp_path: Path) -> None:
    spec = scenario([group(price=3.0)], arriving(pod("1"), "1s", duration="1h"), end={"at": "1h"})
    spec["cluster"]["nodes"] = [{**nodes(2, name="base-", cpu="10m"), "price": 2.0}]
    result = run(tmp_path, spec)
    assert result.summary["cost"] == pytest.approx(2 * 2.0 + 3.0 * (HOUR - 100) / HOUR)
