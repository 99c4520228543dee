"""Pods of files: Permit and Reserve, pods on nodes, and pods for which no decision is made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.config import from_document
from mooring.explain.offline import Source, explain_offline
from mooring.framework import Cycle, Reject, Status, Wait
from mooring.objects.pod import Pod
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod

MODULE = "tests.unit.explain.test_offline"
MIRROR = "kubernetes.io/config.mirror"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Reserves:
    """Rejects every pod in Reserve."""

    name = "Reserves"

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        return Reject(f"no licence on {node_name}")

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        pass


class Pairs:
    """Holds a pod back until a second one waits, for at most half a minute."""

    name = "Pairs"

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        waiting = list(self._handle.waiting_pods())
        for pod in waiting:
            pod.allow(self.name)
        return None if waiting else Wait(30.0)


def explained(name: str, *objects: Any, plugins: tuple[str, ...] = (), **more: Any) -> str:
    workload = workload_of("test", objects)
    pods = {pod.metadata.name: pod for pod in (*workload.pods, *workload.omitted)}
    plugins = tuple(f"{MODULE}:{plugin}" for plugin in plugins)
    config = from_document(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch"}],
        }
    )
    return explain_offline(pods[name], Source(workload, config, plugins), **more)


def test_a_rejection_in_reserve_is_explained() -> None:
    lines = explained("new", make_node("a"), make_pod("new"), plugins=("Reserves",)).splitlines()
    assert lines[0] == "Pod default/new is unschedulable: a was chosen, Reserves rejected it."
    assert lines[-2:] == [
        "After the node was chosen:",
        "  Reserves (Reserve) rejected the pod on a: no licence on a",
    ]


def test_a_wait_in_permit_that_times_out_is_explained() -> None:
    text = explained("h1", make_node("a"), make_pod("h1"), plugins=("Pairs",))
    lines = text.splitlines()
    assert lines[0] == "Pod default/h1 is unschedulable: a was chosen, Pairs rejected it."
    assert lines[-3:] == [
        "After the node was chosen:",
        "  It waits in Permit for Pairs (at most 30 s).",
        "  Pairs (Permit) rejected the pod on a: rejected due to timeout after waiting 30s at"
        " plugin Pairs",
    ]


def test_later_pods_of_the_queue_may_end_a_wait_in_permit() -> None:
    cluster = make_node("a"), make_pod("h1"), make_pod("h2")
    lines = explained("h1", *cluster, plugins=("Pairs",)).splitlines()
    assert lines[0] == "Pod default/h1 goes to a (4 cpu, 32Gi memory)."
    assert lines[-2:] == [
        "  It waits in Permit for Pairs (at most 30 s).",
        "  The wait ended: the pod is bound.",
    ]
    second = explained("h2", *cluster, plugins=("Pairs",)).splitlines()
    assert second[0] == "Pod default/h2 goes to a (4 cpu, 32Gi memory)."
    assert "After the node was chosen:" not in second


def test_the_document_has_the_result_after_permit() -> None:
    text = explained("h1", make_node("a"), make_pod("h1"), plugins=("Pairs",), is_json=True)
    document = json.loads(text)
    assert document["explanation"]["summary"].endswith("a was chosen, Pairs rejected it.")
    assert document["decision"]["node"] == "a"


def test_a_pod_on_a_node_is_decided_again_without_itself() -> None:
    there = make_pod("there", node="a", requests={"cpu": "3"})
    cluster = [
        make_node("a", unschedulable=True),
        make_node("b"),
        there,
        make_pod("p", node="b", requests={"cpu": "2"}),
    ]
    lines = explained("there", *cluster).splitlines()
    assert lines[0] == (
        "Pod default/there is on a. It was decided again without itself, on the rest of the"
        " cluster as it is now:"
    )
    assert lines[2] == "Pod default/there is unschedulable: 0/2 nodes are feasible."
    assert "    1: cpu short by 1 at best (b has 2 free of 4)" in lines
    assert "  - uncordon node a: the pod goes to a" in lines
    document = json.loads(explained("there", *cluster, is_json=True))
    assert (document["node"], document["note"]) == ("a", lines[0])


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (
            make_pod("x", scheduler_name="bach"),
            "Pod default/x is scheduled by bach, not by a profile of this configuration"
            " (default-scheduler, batch); did you mean batch?",
        ),
        (
            make_pod("x", scheduler_name="other", node="a"),
            "Pod default/x is on a; it is scheduled by other, not by a profile of this"
            " configuration (default-scheduler, batch).",
        ),
        (
            make_pod("x", node="a", metadata={"annotations": {MIRROR: "0123"}}),
            "Pod default/x on a is a static pod: its kubelet runs it from a manifest, and no"
            " scheduler decides it.",
        ),
        (
            make_pod("x", node="a", status={"phase": "Succeeded"}),
            "Pod default/x is finished (Succeeded) on a: it is not scheduled again.",
        ),
        (
            make_pod("x", metadata=DELETED),
            "Pod default/x is being deleted since 2026-01-01T00:00:00Z: it is not scheduled.",
        ),
        (
            make_pod("x", node="a", metadata=DELETED),
            "Pod default/x is being deleted on a since 2026-01-01T00:00:00Z: it is not scheduled.",
        ),
    ],
)
def test_pods_for_which_no_decision_is_made_say_why(pod: Pod, text: str) -> None:
    assert explained("x", make_node("a"), pod) == text
    document = json.loads(explained("x", make_node("a"), pod, is_json=True))
    assert document["note"] == text
    assert "decision" not in document


def test_a_gated_pod_names_its_gates() -> None:
    lines = explained("new", make_node("a"), make_pod("new", gates=["quota", "image"])).splitlines()
    assert lines[0] == (
        "Pod default/new is gated by quota, image: it is not scheduled until its gates are removed."
    )
    assert lines[-1] == (
        "  - remove the scheduling gates quota, image from the pod: the pod goes to a"
    )


def test_a_pod_that_a_plugin_gates_names_the_plugin_and_no_node() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "nope"}]
    pod = make_pod("new", spec={"resourceClaims": claims})
    lines = explained("new", make_node("a", unschedulable=True), pod).splitlines()
    assert lines[0] == (
        "Pod default/new is gated by plugin DynamicResources:"
        " it is not scheduled until the plugin allows it."
    )
    assert (
        lines[-1] == "No change was found that helps: no single one, no pair, no set for one node."
    )


def test_the_pods_before_it_are_scheduled_first_and_ties_are_as_in_a_simulation() -> None:
    nodes = [make_node(f"n{index}") for index in range(3)]
    pods = [make_pod(f"p{index}", requests={"cpu": "3"}) for index in range(4)]
    lines = [explained(pod.metadata.name, *nodes, *pods).splitlines()[0] for pod in pods]
    assert lines == [
        *(f"Pod default/p{index} goes to n{index} (4 cpu, 32Gi memory)." for index in range(3)),
        "Pod default/p3 is unschedulable: 0/3 nodes are feasible.",
    ]
