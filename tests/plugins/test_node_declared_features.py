"""NodeDeclaredFeatures: two rules say what a pod needs, nodes say what they have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code, Cycle, NodeInfo, Reject, per_node
from mooring.framework.status import SKIP, Skip
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.node_declared_features import (
    FEATURES,
    NodeDeclaredFeatures,
    declared_features,
    required_features,
)
from mooring.state import PodInfo
from mooring.testing import Harness, check_conformance, make_node, make_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, hints

REASON = "node(s) didn't match Pod's required features"
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RESTARTS = {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
IGNORES = {"name": "c", "restartPolicyRules": [{"action": "Restart"}]}


def node(name: str, *features: str) -> Node:
    plain = make_node(name)
    return replace(plain, status=replace(plain.status, declared_features=features))


def pod(**spec: Any) -> Pod:
    return make_pod("new", spec=spec)


BOTH = pod(hostNetwork=True, hostUsers=False, initContainers=[RESTARTS])


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, set()),
        ({"containers": [RESTARTS]}, {RESTART}),
        ({"initContainers": [IGNORES, RESTARTS]}, {RESTART}),
        ({"containers": [IGNORES]}, set()),
        ({"hostNetwork": True, "hostUsers": False}, {USERS}),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        ({"hostNetwork": True, "hostUsers": False, "initContainers": [RESTARTS]}, {RESTART, USERS}),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(spec: dict[str, Any], needed: set[str]) -> None:
    assert required_features(pod(**spec).spec) == needed


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        ((), set()),
        (("Another", RESTART, "Such", USERS, "Zzz"), {RESTART, USERS}),
        (FEATURES, set(FEATURES)),
        ((USERS, RESTART), {USERS}),
        ((RESTART, RESTART), {RESTART}),
    ],
)
def test_declared_features_are_read_in_order_and_unknown_ones_passed_over(
    declared: tuple[str, ...], known: set[str]
) -> None:
    assert declared_features(declared) == known


def test_a_node_must_have_all_of_them_and_eviction_does_not_help() -> None:
    nodes = [
        node("none"),
        node("one", RESTART),
        node("both", RESTART, USERS),
        node("all", *FEATURES),
    ]

    found = Harness(nodes, [NodeDeclaredFeatures()]).statuses(BOTH)

    refused = {name: status for name, status in found.items() if status is not None}
    assert set(refused) == {"none", "one"}
    for status in refused.values():
        assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)


def test_a_pod_that_needs_nothing_skips_it() -> None:
    cycle, _ = Harness([node("none")], [NodeDeclaredFeatures()]).open(make_pod())

    assert "NodeDeclaredFeatures" in cycle.skipped


def test_a_node_that_declares_more_is_looked_at_again() -> None:
    there = Harness([node("a"), node("b")], [NodeDeclaredFeatures()])
    assert there.decide(BOTH).node is None

    there.cache.put_node(node("b", RESTART, USERS))
    assert there.decide(BOTH).node == "b"
    there.cache.put_node(node("b", RESTART))
    assert there.decide(BOTH).node is None


class Twin:
    """From the reference page: every feature that is needed must be declared."""

    name = "NodeDeclaredFeatures"

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        return None if self.needs(cycle.pod) else SKIP

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Reject | None:
        declared = set(node.node.status.declared_features)
        if self.needs(pod) - declared:
            return Reject(REASON, resolvable=False)
        return None

    def needs(self, pod: PodInfo) -> set[str]:
        spec = pod.spec
        found = {USERS} if spec.host_network and spec.host_users is False else set()
        for container in (*spec.init_containers, *spec.containers):
            actions = [rule.action for rule in container.restart_policy_rules]
            found |= {RESTART} if "RestartAllContainers" in actions else set()
        return found


@pytest.mark.parametrize("seeds", SEED_BLOCKS[:1], ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    nodes = [node("none"), node("one", RESTART), node("both", RESTART, USERS)]
    pods = [BOTH, pod(containers=[RESTARTS]), make_pod()]

    check_conformance(NodeDeclaredFeatures(), reference=Twin(), seeds=seeds)
    check_conformance(NodeDeclaredFeatures(), reference=Twin(), seeds=(), objects=nodes, pods=pods)


NODE = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE)
POD = ("Pod", ActionType.UPDATE)


def wakes(event: Any, waiting: Pod, old: Any, new: Any) -> bool:
    hint = hints(NodeDeclaredFeatures())[event]
    return hint(PodInfo(waiting), old, new) is QueueingHint.QUEUE


def test_a_new_node_helps_and_one_that_declares_other_features() -> None:
    assert wakes(NODE, BOTH, None, node("a"))
    assert wakes(NODE, BOTH, node("a"), node("a", RESTART))
    assert not wakes(NODE, BOTH, node("a", RESTART), node("a", RESTART))


def test_only_the_pod_itself_can_change_what_it_needs() -> None:
    plain = replace(BOTH, spec=make_pod("new").spec)
    other = make_pod("other")

    assert wakes(POD, BOTH, BOTH, plain)
    assert not wakes(POD, BOTH, BOTH, BOTH)
    assert not wakes(POD, BOTH, replace(other, spec=BOTH.spec), other)
