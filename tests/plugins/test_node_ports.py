"""NodePorts: no two pods hold the same host port of one node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import NodePorts
from mooring.state import PodInfo
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, NodePortsTwin, assert_same, hints

REASON = "node(s) didn't have free ports for the requested pod ports"
POD_DELETED = ("Pod", ActionType.DELETE)

Port = tuple[str, str, int]


def pod_with(*ports: Port, name: str = "web", node: str = "", **more: Any) -> Pod:
    """Returns a pod whose container wants (address, protocol, host port) each; "" = not written."""
    written = [
        {
            "containerPort": 1,
            **({"hostIP": address} if address else {}),
            **({"protocol": protocol} if protocol else {}),
            **({"hostPort": number} if number else {}),
        }
        for address, protocol, number in ports
    ]
    spec = {"containers": [{"name": "c", "image": "i", "ports": written}], **more}
    return make_pod(name, node=node, spec=spec)


#: (what is held, what is wanted, do they conflict)
CONFLICTS: list[tuple[Port, Port, bool]] = [
    (("", "TCP", 80), ("", "TCP", 80), True),
    (("", "TCP", 80), ("", "TCP", 81), False),
    (("", "TCP", 80), ("", "UDP", 80), False),
    (("", "", 80), ("", "TCP", 80), True),
    (("", "SCTP", 80), ("", "SCTP", 80), True),
    (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
    (("10.0.0.1", "TCP", 80), ("", "TCP", 80), True),
    (("", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
    # All of IPv6 is an address like any other here.
    (("::", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
    (("::", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
    (("", "TCP", 0), ("", "TCP", 80), False),
]


@pytest.mark.parametrize(("held", "wanted", "is_conflict"), CONFLICTS, ids=str)
def test_ports_conflict_by_address_protocol_and_number(
    held: Port, wanted: Port, is_conflict: bool
) -> None:
    objects: list[Node | Pod] = [
        make_node("busy"),
        make_node("free"),
        pod_with(held, name="held", node="busy"),
    ]
    pod = pod_with(wanted)
    found = Harness(objects, [NodePorts()]).reasons(pod)
    assert found == {"busy": (REASON,) if is_conflict else (), "free": ()}
    assert_same(NodePorts(), NodePortsTwin(), objects, pod)


def test_eviction_would_help() -> None:
    objects: list[Node | Pod] = [make_node("a"), make_pod("held", node="a", host_ports=[80])]
    status = Harness(objects, [NodePorts()]).statuses(make_pod(host_ports=[80]))["a"]
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE


def test_one_taken_port_of_several_is_enough() -> None:
    objects: list[Node | Pod] = [make_node("a"), make_pod("held", node="a", host_ports=[443])]
    harness = Harness(objects, [NodePorts()])
    assert harness.reasons(make_pod(host_ports=[80, 443, 8080])) == {"a": (REASON,)}
    assert harness.reasons(make_pod(host_ports=[80, 8080])) == {"a": ()}


def test_a_pod_without_host_ports_is_skipped() -> None:
    harness = Harness([make_node("a")], [NodePorts()])
    assert "NodePorts" in harness.open(make_pod())[0].skipped
    assert "NodePorts" in harness.open(pod_with(("", "TCP", 0)))[0].skipped
    assert "NodePorts" not in harness.open(make_pod(host_ports=[80]))[0].skipped


@pytest.mark.parametrize(("restart_policy", "counts"), [("Always", True), (None, False)])
def test_of_init_containers_only_sidecars_hold_ports(
    restart_policy: str | None, counts: bool
) -> None:
    init = {"name": "i", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]}
    if restart_policy is not None:
        init["restartPolicy"] = restart_policy
    pod = pod_with(name="starts", node="a", initContainers=[init])
    objects: list[Node | Pod] = [make_node("a"), pod]
    wanted = make_pod(host_ports=[80])
    assert Harness(objects, [NodePorts()]).reasons(wanted) == {"a": (REASON,) if counts else ()}
    assert_same(NodePorts(), NodePortsTwin(), objects, wanted)
    assert ("NodePorts" in Harness([make_node("a")], [NodePorts()]).open(pod)[0].skipped) != counts


def test_a_port_is_free_again_when_its_last_holder_is_gone() -> None:
    first, second = (make_pod(name, node="a", host_ports=[80]) for name in ("one", "two"))
    harness = Harness([make_node("a"), first, second], [NodePorts()])
    wanted = make_pod(host_ports=[80])
    harness.cache.remove_pod(first.metadata.uid)
    assert harness.reasons(wanted) == {"a": (REASON,)}
    harness.cache.remove_pod(second.metadata.uid)
    assert harness.reasons(wanted) == {"a": ()}


def test_it_registers_for_deleted_pods_and_new_nodes() -> None:
    assert hints(NodePorts())[("Node", ActionType.ADD)] is None
    assert list(hints(NodePorts())) == [POD_DELETED, ("Node", ActionType.ADD)]


@pytest.mark.parametrize(("held", "wanted", "is_conflict"), CONFLICTS, ids=str)
def test_a_deleted_pod_helps_if_it_held_a_wanted_port(
    held: Port, wanted: Port, is_conflict: bool
) -> None:
    hint = hints(NodePorts())[POD_DELETED]
    expected = QueueingHint.QUEUE if is_conflict else QueueingHint.SKIP
    assert hint(PodInfo(pod_with(wanted)), pod_with(held, node="a"), None) is expected


def test_a_deleted_pod_helps_only_if_it_was_on_a_node_or_nominated() -> None:
    hint = hints(NodePorts())[POD_DELETED]
    wanted = PodInfo(make_pod("web", host_ports=[80]))
    nominated = make_pod("old", host_ports=[80], nominated_node="a")
    assert hint(wanted, nominated, None) is QueueingHint.QUEUE
    assert hint(wanted, make_pod("old", host_ports=[80]), None) is QueueingHint.SKIP


@given(st.integers(0, 2**32), st.lists(st.sampled_from(CONFLICTS), max_size=5))
def test_it_equals_its_twin(seed: int, ports: list[tuple[Port, Port, bool]]) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=3, pods=4)
    objects += [
        pod_with(held, name=f"held-{at}", node=f"node-{at % 3}")
        for at, (held, _, _) in enumerate(ports)
    ]
    wanted = pod_with(*(wanted for _, wanted, _ in ports[:2]))
    assert_same(NodePorts(), NodePortsTwin(), objects, wanted)
    assert_same(NodePorts(), NodePortsTwin(), objects, random_pod(rng, "x"))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(NodePorts(), reference=NodePortsTwin(), seeds=seeds)
