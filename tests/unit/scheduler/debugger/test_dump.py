"""The dump and the comparison for SIGUSR2, in kube-scheduler's words."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.objects import Node, Pod
from mooring.scheduler.debugger import LogEntry, debug_entries
from mooring.testing import make_node, make_pod
from tests.helpers.event_fixture import EventFixture

NODE = make_node(
    "n1",
    allocatable={
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        "example.com/gpu": "2",
        "ephemeral-storage": "5Gi",
    },
)


def on_node(name: str, node_name: str = "n1", **requests: str) -> Pod:
    return make_pod(name, node=node_name, requests=requests)


def entries(desk: EventFixture, nodes: list[Node], pods: list[Pod]) -> list[LogEntry]:
    return debug_entries(desk.cache, desk.queue, nodes, pods)


def test_the_dump_has_the_texts_of_kube_scheduler() -> None:
    desk = EventFixture()
    placed = on_node("a", **{"cpu": "1500m", "memory": "200Mi", "example.com/gpu": "1"})
    big = make_pod("big")
    desk.node(None, NODE)
    desk.pod(None, placed)
    desk.add_unschedulable(big)
    nodes, queue = entries(desk, [NODE], [placed, big])
    assert nodes.message == "Dump of cached NodeInfo"
    # As the real one printed it for such a node.
    assert nodes.fields["nodes"] == (
        "Node name: n1\n"
        "Deleted: false\n"
        "Requested Resources: &{MilliCPU:1500 Memory:209715200 EphemeralStorage:0 "
        "AllowedPodNumber:0 ScalarResources:map[example.com/gpu:1]}\n"
        "Allocatable Resources:&{MilliCPU:4000 Memory:8589934592 EphemeralStorage:5368709120 "
        "AllowedPodNumber:10 ScalarResources:map[example.com/gpu:2]}\n"
        "Scheduled Pods(number: 1):\n"
        f"name: a, namespace: default, uid: {placed.metadata.uid}, phase: {placed.status.phase}, "
        "nominated node: \n"
    )
    assert queue.message == "Dump of scheduling queue"
    assert list(queue.fields) == ["summary", "pods"]
    assert queue.fields["summary"] == "activeQ:0; backoffQ:0; unschedulablePods:1"
    assert queue.fields["pods"].startswith("name: big, namespace: default, uid: ")


def test_a_deleted_node_with_pods_and_nominated_pods_are_in_the_dump() -> None:
    desk = EventFixture()
    other = make_node("n2")
    preemptor = make_pod("preemptor", nominated_node="n2")
    for node in (NODE, other):
        desk.node(None, node)
    placed = on_node("a")
    desk.pod(None, placed)
    desk.pod(None, preemptor)
    desk.node(NODE, None)
    text = entries(desk, [other], [placed, preemptor])[-2].fields["nodes"]
    first, second = text.split("\n\n")
    assert first.startswith("Node name: n1\nDeleted: true\n")
    assert "\nNominated Pods(number: 1):\nname: preemptor, " in second
    assert second.endswith("nominated node: n2\n")


def test_equal_objects_are_no_mismatch() -> None:
    desk = EventFixture()
    placed, waiting = on_node("a"), make_pod("b")
    desk.node(None, NODE)
    desk.pod(None, placed)
    desk.pod(None, waiting)
    finished = replace(make_pod("done", node="n1"), status=replace(placed.status, phase="Failed"))
    found = entries(desk, [NODE], [placed, waiting, finished])
    assert [entry.message for entry in found] == [
        "Dump of cached NodeInfo",
        "Dump of scheduling queue",
    ]


def test_a_pod_in_flight_is_no_mismatch() -> None:
    desk = EventFixture()
    pod = make_pod("b")
    desk.pod(None, pod)
    entry = desk.queue.pop()
    assert entry is not None
    assert len(entries(desk, [], [pod])) == 2


def test_missed_and_redundant_ones_come_first() -> None:
    desk = EventFixture()
    desk.node(None, NODE)
    desk.pod(None, on_node("redundant"))
    missed = make_pod("missed")
    nodes, pods, *_ = entries(desk, [make_node("n3"), make_node("n2")], [missed])
    assert nodes == LogEntry(
        "Cache mismatch", {"missedNodes": ["n2", "n3"], "redundantNodes": ["n1"]}
    )
    assert pods.message == "Cache mismatch"
    assert pods.fields == {
        "missedPods": [missed.metadata.uid],
        "redundantPods": [on_node("redundant").metadata.uid],
    }
