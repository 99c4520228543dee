"""Explanations name the plugin, the count, the shortage and the gap; the sums are done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.decision import Decision, Preemption, PreemptionCandidate, Rejection
from mooring.explain.explain import explain
from mooring.objects.meta import ObjectMeta, ResourceRequirements
from mooring.objects.node import Node, NodeStatus
from mooring.objects.pod import Container, Pod, PodSpec
from mooring.simulation.utilization import Utilization

GPU = "example.com/gpu"


def node(name: str, cpu: str = "4", gpu: str = "2") -> Node:
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": "8Gi", "pods": "9"}
    if gpu != "0":
        amounts[GPU] = gpu
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=amounts))


def pod(name: str, on: str = "", **asked: str) -> Pod:
    named: dict[str, str | int | float] = {
        GPU if resource == "gpu" else resource: amount for resource, amount in asked.items()
    }
    container = Container(resources=ResourceRequirements(requests=named))
    spec = PodSpec(containers=(container,), node_name=on)
    return Pod(metadata=ObjectMeta(name=name, namespace="a"), spec=spec)


def refused(rejected: dict[str, Rejection], **changes: Any) -> Decision:
    return Decision("unschedulable", None, (), rejected, (), (), **changes)


def short_of(*resources: str) -> Rejection:
    reasons = tuple(sorted(f"Insufficient {resource}" for resource in resources))
    return Rejection("NodeResourcesFit", "Unschedulable", reasons)


TAINTED = Rejection("TaintToleration", "UnschedulableAndUnresolvable", ("node(s) had taint(s)",))


def test_a_refusal_names_plugins_counts_and_examples() -> None:
    utilization = Utilization([node(f"n{index}") for index in range(6)])
    rejected = {f"n{index}": short_of("cpu") for index in range(5)} | {"n5": TAINTED}
    lines = explain(pod("x", cpu="4"), refused(rejected), utilization).splitlines()
    assert lines[0] == "Pod a/x is unschedulable: 0/6 nodes are feasible."
    assert "It requests 4 cpu." in lines
    at = lines.index("  NodeResourcesFit: 5 nodes")
    assert lines[at + 1] == "    5 x Insufficient cpu: n0, n1, n2, ..."
    assert lines[at + 2 : at + 4] == [
        "  TaintToleration: 1 node",
        "    1 x node(s) had taint(s): n5",
    ]


def test_a_shortage_is_reported_for_the_node_that_comes_nearest() -> None:
    objects: list[Node | Pod] = [
        node("n0"),
        node("n1"),
        pod("a", "n0", cpu="2"),
        pod("b", "n1", cpu="1500m"),
    ]
    rejected = {"n0": short_of("cpu"), "n1": short_of("cpu")}
    text = explain(pod("x", cpu="3"), refused(rejected), Utilization(objects))
    assert "  2 nodes of 4 cpu, 8Gi memory, 2 gpu:\n" in text
    assert "    all: cpu short by 0.5 at best (n1 has 2.5 free of 4)" in text


def test_what_can_never_fit_is_distinguished_from_what_does_not_fit_now() -> None:
    objects = [node("n0"), node("n1", cpu="64"), node("n2", gpu="0")]
    rejected = {
        "n0": short_of("cpu", GPU),
        "n1": short_of(GPU),
        "n2": short_of("cpu", GPU),
    }
    lines = explain(
        pod("x", cpu="5", gpu="3"), refused(rejected), Utilization(objects)
    ).splitlines()
    at = lines.index("  1 node of 4 cpu, 8Gi memory, 2 gpu:")
    assert sorted(lines[at + 1 : at + 3]) == [
        "    all: too small even when empty: 3 gpu requested, the largest has 2",
        "    all: too small even when empty: 5 cpu requested, the largest has 4",
    ]
    at = lines.index("  1 node of 4 cpu, 8Gi memory:")
    assert "    all: no gpu at all" in lines[at + 1 : at + 3]


def test_a_full_list_of_pods_is_a_shortage_of_places() -> None:
    objects: list[Node | Pod] = [node("n0"), *(pod(f"p{index}", "n0") for index in range(9))]
    full = Rejection("NodeResourcesFit", "Unschedulable", ("Too many pods",))
    text = explain(pod("x"), refused({"n0": full}), Utilization(objects))
    assert "It requests no resources." in text
    assert "    all: pods short by 1 at best (n0 has 0 free of 9)" in text


def test_room_that_is_held_for_nominated_pods_is_reported() -> None:
    text = explain(pod("x", cpu="1"), refused({"n0": short_of("cpu")}), Utilization([node("n0")]))
    assert "    all: cpu is free on n0, but reserved for pods that are nominated to it" in text


def test_within_a_group_other_reasons_are_counted_as_they_are() -> None:
    rejected = {"n0": short_of("cpu"), "n1": TAINTED, "n2": TAINTED}
    utilization = Utilization([node("n0"), node("n1"), node("n2"), pod("y", "n0", cpu="3")])
    lines = explain(pod("x", cpu="2"), refused(rejected), utilization).splitlines()
    at = lines.index("  3 nodes of 4 cpu, 8Gi memory, 2 gpu:")
    assert lines[at + 1 : at + 3] == [
        "    2: node(s) had taint(s)",
        "    1: cpu short by 1 at best (n0 has 1 free of 4)",
    ]


def test_many_groups_are_cut_and_the_rest_is_counted() -> None:
    nodes = [node(f"n{index}", cpu=str(index + 1)) for index in range(20)]
    rejected = {f"n{index}": TAINTED for index in range(20)}
    lines = explain(pod("x"), refused(rejected), Utilization(nodes)).splitlines()
    assert "  ... and 8 nodes in 8 more groups" in lines


def test_a_refusal_as_a_whole_names_its_plugin_and_no_nodes() -> None:
    reason = "pod has unbound immediate PersistentVolumeClaims"
    whole = Rejection("VolumeBinding", "UnschedulableAndUnresolvable", (reason,))
    message = f"0/1 nodes are available: {reason}."
    text = explain(
        pod("x"), refused({}, prefilter=whole, message=message), Utilization([node("n0")])
    )
    assert f"VolumeBinding rejected the pod before any node was filtered:\n  {reason}" in text
    assert "by group of nodes" not in text
    assert text.endswith(f"Message: {message}")


@pytest.mark.parametrize(
    ("result", "words"), [("gated", "is gated"), ("error", "the attempt failed with an error")]
)
def test_a_pod_that_was_not_looked_at_is_reported_with_its_message(result: str, words: str) -> None:
    decision = Decision(result, None, (), {}, (), (), message="the message")
    text = explain(pod("x"), decision, Utilization())
    assert words in text.splitlines()[0]
    assert text.endswith("Message: the message")


def test_preemption_is_reported_with_its_victims_or_its_failure() -> None:
    candidates = {name: PreemptionCandidate(("a/v",), 0) for name in ("n0", "n1")}
    done = Preemption("n0", ("a/v",), candidates, ("n0",))
    text = explain(pod("x"), refused({"n0": TAINTED}, preemption=done), Utilization([node("n0")]))
    assert "Preemption on n0 evicts: a/v." in text
    assert "waits for node n0: 0/1 nodes are feasible now, preemption evicts 1 pod there." in text
    assert "Other candidates: n1" in text
    none = Preemption(None, (), {}, ())
    text = explain(pod("x"), refused({"n0": TAINTED}, preemption=none), Utilization([node("n0")]))
    assert "Preemption was tried: it makes no node feasible" in text


SCORES = {
    "Fit": {"n0": 40, "n1": 55, "n2": 55, "n3": 10},
    "Taint": {"n0": 100, "n1": 100, "n2": 100, "n3": 100},
}
WEIGHTS = {"Fit": 2, "Taint": 3}
TOTAL = {"n0": 380, "n1": 410, "n2": 410, "n3": 320}


def placed(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "node": "n2",
        "tied": ("n1", "n2"),
        "rejected": {},
        "scores": SCORES,
        "total": TOTAL,
        **changes,
    }
    return Decision("scheduled", unschedulable_plugins=(), pending_plugins=(), **fields)


def cluster() -> Utilization:
    return Utilization([node(f"n{index}") for index in range(4)])


def test_scores_stand_side_by_side_with_their_weight_the_chosen_node_first() -> None:
    lines = explain(pod("x", cpu="1"), placed(), cluster(), weights=WEIGHTS).splitlines()
    assert lines[0] == "Pod a/x goes to n2 (4 cpu, 8Gi memory, 2 gpu)."
    at = lines.index("Feasible: 4 nodes. Scores of the best ones:")
    assert [line.split() for line in lines[at + 1 : at + 5]] == [
        ["n2", "n1", "n0", "n3"],
        ["Fit", "x", "2", "110", "110", "80", "20"],
        ["Taint", "x", "3", "300", "300", "300", "300"],
        ["total", "410", "410", "380", "320"],
    ]


def test_the_runner_up_is_the_best_node_behind_the_tie() -> None:
    text = explain(pod("x"), placed(), cluster(), weights=WEIGHTS)
    assert "Runner-up: n0, 30 behind: Fit +30." in text
    assert "Tied with 1 node: n1\n" in text
    assert "Ties are broken by the order in which the nodes were visited" in text


def test_without_a_tie_nothing_is_said_of_one() -> None:
    text = explain(pod("x"), placed(node="n1", tied=("n1",)), cluster())
    assert "ties" not in text


def test_when_all_are_equal_there_is_no_runner_up() -> None:
    total = dict.fromkeys(TOTAL, 7)
    decision = placed(total=total, tied=tuple(total), scores={})
    text = explain(pod("x"), decision, cluster())
    assert "All of them have the same total." in text
    assert "runner-up" not in text


def test_no_more_than_five_nodes_are_compared() -> None:
    total = {f"n{index}": 100 - index for index in range(9)}
    decision = placed(node="n0", tied=("n0",), total=total, scores={"Fit": total})
    lines = explain(pod("x"), decision, cluster()).splitlines()
    at = lines.index("Feasible: 9 nodes. Scores of the best ones:")
    assert lines[at + 1].split() == ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "It is the only feasible node, so nothing was scored."),
        ({"choice": "nominated"}, "nominated to this node, which is tried first"),
        ({"choice": "first"}, "No score plugin is enabled, so the first feasible node was chosen."),
    ],
)
def test_a_node_that_was_taken_without_scores_has_its_reason(
    changes: dict[str, Any], words: str
) -> None:
    decision = placed(tied=("n2",), scores=None, total=None, **changes)
    assert words in explain(pod("x"), decision, cluster())


def test_an_unordered_choice_is_reported_as_random() -> None:
    text = explain(pod("x"), placed(choice="unordered"), cluster())
    assert "visited in no fixed order" in text


def test_nodes_that_refused_a_placed_pod_are_reported_as_well() -> None:
    decision = placed(rejected={"n9": TAINTED})
    assert "Rejected: 1 node\n  TaintToleration: 1 node\n" in explain(pod("x"), decision, cluster())


def test_an_explanation_is_plain_text() -> None:
    text = explain(pod("x", cpu="1"), placed(), cluster(), weights=WEIGHTS)
    assert all(character.isprintable() or character == "\n" for character in text)
