"""Answers shared between like pods are the answers that each pod would get by itself.

Two frameworks go through the same changes of the same cluster: one keeps its answers and asks again
only about nodes in the change log, the other asks every plugin about every node, every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.errors import PluginError
from mooring.framework import NodeInfo, Reject, Status, per_node
from mooring.framework.runtime import result_cache
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import (
    ImageLocality,
    NodeAffinity,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    TaintToleration,
)
from mooring.state import PodInfo
from mooring.state.columns.change_log import ChangeLog
from mooring.testing import Harness, make_node, make_pod
from mooring.testing.random_cluster import random_node, random_pod

#: The default weights that are not 1.
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2}

#: So many that a few changes are fewer than half of them: else all nodes are asked about anyway.
NODE_NAMES = [f"node-{number}" for number in range(24)]

MEBIBYTE = 1 << 20


class NoThirdPod:
    """An out-of-tree plugin without ``sign``: called for every node, every time."""

    name = "NoThirdPod"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return Reject(f"has {node.pod_count} pods") if node.pod_count % 3 == 2 else None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        return (7 * node.pod_count + len(node.labels)) % 101


class SharesPerNode:
    """An out-of-tree plugin with ``sign``."""

    name = "SharesPerNode"

    def __init__(self, reads: Any) -> None:
        self.reads = reads

    def sign(self, pod: PodInfo) -> str | None:
        """Returns pods without requests cannot be shared, to have both kinds under one plugin."""
        return pod.spec.scheduler_name if pod.requests else None

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return Reject("is on rack 1") if node.labels.get("rack") == "1" else None


def default_plugins() -> list[Any]:
    return [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
    ]


def with_foreign_plugins() -> list[Any]:
    plugins = default_plugins()
    plugins.insert(3, NoThirdPod())
    plugins.insert(5, SharesPerNode(NodeAffinity.reads))
    return plugins


def templates() -> list[Pod]:
    """Returns pods of few signatures: by chance, and one of each kind that takes another way."""
    rng = seeded_random(7)
    by_name = {"key": "metadata.name", "operator": "In", "values": ["node-2"]}
    terms = [{"matchFields": [by_name]}, {"matchFields": [by_name | {"values": ["node-4"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return [
        make_pod("plain", requests={"cpu": "100m", "memory": "64Mi"}),
        make_pod("empty"),
        make_pod("ports", host_ports=[80], requests={"cpu": "1m"}),
        make_pod("narrowed", affinity={"nodeAffinity": required}),
        make_pod("nominated", nominated_node="node-1", requests={"cpu": "1"}),
        make_pod("tolerant", tolerations=[{"operator": "Exists"}], priority=5),
        make_pod("failed_and_unresolvable", requests={"cpu": "1000"}),
        # The same in all, but not to those who take each container to need 100m at least.
        make_pod("even", spec={"containers": [_container("100m"), _container("100m")]}),
        make_pod("uneven", spec={"containers": [_container("200m"), _container(None)]}),
        *(random_pod(rng, f"random-{number}") for number in range(5)),
    ]


def _container(cpu: str | None) -> dict[str, Any]:
    requests = {} if cpu is None else {"cpu": cpu}
    return {"name": f"c-{cpu}", "image": "web:1", "resources": {"requests": requests}}


TEMPLATES = templates()


class SideBySide:
    """The same cluster twice, with shared answers and without."""

    def __init__(self, plugins: Callable[[], list[Any]], *, log_capacity: int) -> None:
        self.harnesses = [
            Harness([], plugins(), weights=WEIGHTS, cache_results=share) for share in (True, False)
        ]
        for harness in self.harnesses:
            harness.cache.nodes.log = ChangeLog(log_capacity)
        self._made = 0
        self._placed: list[str] = []
        self._nominated: list[str] = []

    def put_node(self, number: int) -> None:
        """Adds a node, or change everything about it."""
        name = NODE_NAMES[number % len(NODE_NAMES)]
        node = _roomy(random_node(seeded_random(number), name), number)
        for harness in self.harnesses:
            harness.cache.put_node(node)

    def touch_node(self, number: int) -> None:
        """Changes one thing about a node."""
        row = self.harnesses[0].cache.nodes.live_row(NODE_NAMES[number % len(NODE_NAMES)])
        if row < 0:
            return
        node = self.harnesses[0].cache.nodes.node(row)
        other = random_node(seeded_random(number), node.metadata.name)
        changed = [
            replace(node, metadata=replace(node.metadata, labels=other.metadata.labels)),
            replace(node, metadata=replace(node.metadata, annotations={"n": str(number)})),
            replace(node, spec=replace(node.spec, taints=other.spec.taints)),
            replace(node, spec=replace(node.spec, unschedulable=not node.spec.unschedulable)),
            replace(node, status=replace(node.status, images=other.status.images)),
            replace(node, status=replace(node.status, allocatable=other.status.allocatable)),
        ]
        for harness in self.harnesses:
            harness.cache.put_node(changed[number // len(NODE_NAMES) % len(changed)])

    def remove_node(self, number: int) -> None:
        """Nodes that are not there may be removed, and pods stay on those that are."""
        for harness in self.harnesses:
            harness.cache.remove_node(NODE_NAMES[number % len(NODE_NAMES)])

    def place_pod(self, number: int) -> None:
        """Adds a pod that another scheduler bound, perhaps to a node that is not in the cache."""
        pod = random_pod(seeded_random(number), "placed", node=NODE_NAMES[number % len(NODE_NAMES)])
        self._place(self._renamed(pod))

    def remove_pod(self, number: int) -> None:
        """Deletes a pod."""
        if self._placed:
            uid = self._placed.pop(number % len(self._placed))
            for harness in self.harnesses:
                harness.cache.remove_pod(uid)

    def nominate(self, number: int) -> None:
        """Nominates a pod to a node."""
        pod = random_pod(seeded_random(number), "rival", priority=number % 20 - 5)
        rival = self._renamed(pod)
        self._nominated.append(rival.metadata.uid)
        for harness in self.harnesses:
            harness.cache.nominator.nominate(PodInfo(rival), NODE_NAMES[number % len(NODE_NAMES)])

    def withdraw(self, number: int) -> None:
        """Removes a nomination."""
        if self._nominated:
            uid = self._nominated.pop(number % len(self._nominated))
            for harness in self.harnesses:
                harness.cache.nominator.remove(uid)

    def decide(self, number: int) -> None:
        """Checks that both make the same decision on a pod, which is then mostly placed."""
        pod = self._renamed(TEMPLATES[number % len(TEMPLATES)])
        start = number % max(1, len(self.harnesses[0].cache.nodes))
        shared, alone = (harness.decide(pod, start_index=start) for harness in self.harnesses)
        assert shared.node == alone.node
        assert shared.message == alone.message
        assert replace(shared.decision, durations_s={}) == replace(alone.decision, durations_s={})
        if shared.node is not None and number % 3:
            self._place(
                replace(
                    pod,
                    spec=replace(pod.spec, node_name=shared.node),
                    status=replace(pod.status, nominated_node_name=""),
                )
            )

    def _place(self, pod: Pod) -> None:
        self._placed.append(pod.metadata.uid)
        for harness in self.harnesses:
            harness.cache.put_pod(pod)

    def _renamed(self, pod: Pod) -> Pod:
        self._made += 1
        name = f"{pod.metadata.name}-{self._made}"
        return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"uid-{self._made}"))


def _roomy(node: Node, number: int) -> Node:
    """Returns the node; two of three are empty and without taints, so that scores are computed."""
    if number % 3 == 0:
        return node
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    return replace(
        node,
        spec=replace(node.spec, taints=(), unschedulable=False),
        status=replace(node.status, allocatable=allocatable),
    )


KINDS = ("put_node", "touch_node", "remove_node", "place_pod", "remove_pod", "nominate", "withdraw")
STEPS = st.tuples(
    st.sampled_from([*KINDS, "put_node", "touch_node", *["decide"] * 7]), st.integers(0, 10_000)
)


def run(side_by_side: SideBySide, steps: list[tuple[str, int]]) -> None:
    """Creates some nodes, runs the steps, then schedules every kind of pod."""
    for number in range(16):
        side_by_side.put_node(number)
    for kind, number in steps:
        getattr(side_by_side, kind)(number)
    for number in range(len(TEMPLATES)):
        side_by_side.decide(number)


@given(st.lists(STEPS, min_size=5, max_size=30))
def test_default_plugins_decide_the_same_with_shared_answers(steps: list[tuple[str, int]]) -> None:
    run(SideBySide(default_plugins, log_capacity=1 << 14), steps)


@given(st.lists(STEPS, min_size=5, max_size=30))
def test_so_they_do_around_plugins_that_do_not_share(steps: list[tuple[str, int]]) -> None:
    run(SideBySide(with_foreign_plugins, log_capacity=1 << 14), steps)


@given(st.lists(STEPS, min_size=5, max_size=30))
@settings(max_examples=30)
def test_so_they_do_when_the_change_log_is_too_short(steps: list[tuple[str, int]]) -> None:
    run(SideBySide(with_foreign_plugins, log_capacity=3), steps)


@pytest.mark.parametrize("memory_bytes", [result_cache.MEMORY_LIMIT_BYTES, 1])
@pytest.mark.parametrize("plugins", [default_plugins, with_foreign_plugins])
@pytest.mark.parametrize("seed", range(4))
def test_long_runs(
    plugins: Callable[[], list[Any]],
    seed: int,
    memory_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where there is no memory for so many answers, and old ones make place for new ones."""
    monkeypatch.setattr(result_cache, "MEMORY_LIMIT_BYTES", memory_bytes)
    rng = seeded_random(seed)
    kinds = [*KINDS, *["decide"] * 12]
    steps = [(rng.choice(kinds), rng.randrange(10_000)) for _ in range(150)]
    run(SideBySide(plugins, log_capacity=1 << 14), steps)


def test_the_table_may_grow_between_two_like_pods() -> None:
    both = SideBySide(default_plugins, log_capacity=1 << 14)
    for number in range(150):
        node = make_node(f"new-{number}", allocatable={"cpu": f"{1 + number % 5}"})
        for harness in both.harnesses:
            harness.cache.put_node(node)
        if number % 10 == 0:
            both.decide(len(TEMPLATES))


def test_a_spread_of_replicas_follows_what_was_placed() -> None:
    """Not only the same as without sharing: three nodes for two pods each, then none is left."""
    objects = [make_node(name, allocatable={"cpu": "2"}) for name in "abc"]
    harness = Harness(objects, default_plugins(), weights=WEIGHTS)
    node_names = []
    for number in range(7):
        pod = make_pod(f"web-{number}", requests={"cpu": "1"})
        found = harness.decide(pod)
        node_names.append(found.node)
        if found.node is not None:
            harness.cache.put_pod(make_pod(f"web-{number}", requests={"cpu": "1"}, node=found.node))
    assert sorted(node_names[:3], key=str) == sorted(node_names[3:6], key=str) == ["a", "b", "c"]
    assert node_names[6] is None
    assert found.message == "0/3 nodes are available: 3 Insufficient cpu."


def test_an_image_that_changes_its_size_under_its_name_is_noticed() -> None:
    """A tag that moved on: same name, other content."""
    objects = [make_node("a", images={"web:latest": 100 * MEBIBYTE}), make_node("b")]
    harness = Harness(objects, [ImageLocality()])
    pod = make_pod(images=["web"])
    before = harness.decide(pod).decision.raw
    assert before == {"ImageLocality": {"a": 2, "b": 0}}
    harness.cache.put_node(make_node("a", images={"web:latest": 900 * MEBIBYTE}))
    assert harness.decide(pod).decision.raw == {"ImageLocality": {"a": 43, "b": 0}}


class GrowsTooLarge:
    """Scores a node by its pods: the third one brings it out of range."""

    name = "GrowsTooLarge"
    reads = NodeResourcesFit.reads

    def __init__(self, *, has_one_node_form: bool) -> None:
        if has_one_node_form:
            self.score_node = self._of_node

    def sign(self, pod: PodInfo) -> str:
        return ""

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        return node.pod_count * 50

    def _of_node(self, cycle: Any, node: NodeInfo) -> int:
        return node.pod_count * 50


@pytest.mark.parametrize("has_one_node_form", [True, False])
def test_a_shared_score_that_leaves_the_range_is_found(has_one_node_form: bool) -> None:
    plugin = GrowsTooLarge(has_one_node_form=has_one_node_form)
    harness = Harness([make_node(name) for name in ("a", "b", "c")], [plugin])
    for number in range(3):
        assert harness.decide(make_pod(f"asks-{number}")).node
        harness.cache.put_pod(make_pod(f"runs-{number}", node="a"))
    with pytest.raises(PluginError, match="returns an invalid score 150, it should be in the"):
        harness.decide(make_pod("asks-last"))
