"""All rejections, all nodes, JSON, and names of resources."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring import Reject, per_node
from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.decision import Decision
from mooring.explain.explain import Explained, Options, explain
from mooring.explain.pod_state import PodState, encoded, state_of
from mooring.framework.runtime.all_rejections import all_rejections
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.utilization import Utilization
from mooring.testing import make_node, make_pod

ALL = Options(has_all_rejections=True)
NODES = Options(has_all_nodes=True)


def explained(new: Pod, *cluster: Any, options: Options = ALL) -> Explained:
    config = default_configuration()
    driver = Driver(cluster, config=config, rng=seeded_random(1), clock=VirtualClock())
    decision = driver.attempt(new, explain=True).decision()
    return Explained(
        new,
        decision,
        Utilization(cluster, pending=[new]),
        snapshot=driver.cache.snapshot(),
        framework=driver.frameworks["default-scheduler"],
        options=options,
    )


CLUSTER = [
    make_node("a", taints=["team=db:NoSchedule"], allocatable={"cpu": "1"}),
    make_node("b", unschedulable=True, taints=["team=db:NoSchedule"]),
    make_node("c", labels={"disk": "ssd"}),
]


def test_filters_run_past_the_first_rejection_of_a_node() -> None:
    new = make_pod("new", node_selector={"disk": "nvme"}, requests={"cpu": "2"}, host_ports=[80])
    assert {
        name: [item.plugin for item in of_node]
        for name, of_node in explained(new, *CLUSTER).of_nodes.items()
    } == {
        "a": ["TaintToleration", "NodeAffinity", "NodeResourcesFit"],
        "b": ["NodeUnschedulable", "TaintToleration", "NodeAffinity"],
        "c": ["NodeAffinity"],
    }


def test_the_first_of_all_rejections_is_that_of_the_decision() -> None:
    new = make_pod("new", node_selector={"disk": "nvme"}, requests={"cpu": "2"})
    result = explained(new, *CLUSTER)
    assert {name: of_node[0] for name, of_node in result.of_nodes.items()} == (
        result.decision.rejected
    )


def test_a_rejected_pod_is_filtered_all_the_same() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]
    new = make_pod("new", node_selector={"disk": "nvme"}, spec={"volumes": volumes})
    result = explained(new, make_node("a"))
    assert [item.plugin for item in result.of_pod] == [
        "VolumeRestrictions",
        "VolumeBinding",
        "VolumeZone",
    ]
    assert [item.plugin for item in result.of_nodes["a"]] == ["NodeAffinity", "NodeVolumeLimits"]


def test_nominated_pods_count_in_all_rejections() -> None:
    first = make_pod("first", priority=5, requests={"cpu": "3"}, nominated_node="a")
    new = make_pod("new", requests={"cpu": "3"})
    result = explained(new, make_node("a"), first)
    assert [item.plugin for item in result.of_nodes["a"]] == ["NodeResourcesFit"]


def test_a_shortage_includes_what_nominated_pods_request() -> None:
    cluster = [
        make_node("a"),
        make_pod("old", requests={"cpu": "1"}, node="a"),
        make_pod("first", priority=5, requests={"cpu": "2500m"}, nominated_node="a"),
        make_pod("less", priority=-1, requests={"cpu": "100m"}, nominated_node="a"),
    ]
    lines = explained(make_pod("new", requests={"cpu": "3500m"}), *cluster).lines()
    assert (
        "    all: cpu short by 3 at best (a has 3 free of 4, and pods nominated to it request 2.5)"
    ) in list(lines)


def test_all_rejections_change_no_later_decision() -> None:
    driver = Driver(
        CLUSTER, config=default_configuration(), rng=seeded_random(1), clock=VirtualClock()
    )
    new = make_pod("new", node_selector={"disk": "nvme"}, requests={"cpu": "2"})
    before = driver.attempt(new, explain=True).decision()
    Explained(
        new,
        before,
        Utilization(CLUSTER),
        snapshot=driver.cache.snapshot(),
        framework=driver.frameworks["default-scheduler"],
        options=ALL,
    )
    assert driver.attempt(new, explain=True).decision() == before


def test_a_line_for_every_node() -> None:
    new = make_pod("new", requests={"cpu": "2"})
    cluster = [*CLUSTER, make_node("d"), make_pod("p", node="d", requests={"cpu": "1"})]
    lines = list(explained(new, *cluster, options=NODES).lines())
    at = lines.index("All nodes:")
    scores = explained(new, *cluster).decision.total or {}
    assert lines[at + 1 : at + 5] == [
        f"  c: score {scores['c']}",
        f"  d: score {scores['d']}",
        "  a: TaintToleration: taint team=db:NoSchedule is not tolerated",
        "  b: NodeUnschedulable: the node is cordoned (spec.unschedulable is true)",
    ]


def test_the_json_document_has_nodes_causes_and_notes() -> None:
    new = make_pod("new", node_selector={"disk": "sssd"}, requests={"cpu": "2"})
    text = encoded(state_of(explained(new, *CLUSTER, options=Options())))
    assert msgspec.json.decode(text, type=PodState).pod == "default/new"
    document = msgspec.json.decode(text)
    assert sorted(document) == ["decision", "explanation", "pod", "scheduler"]
    explanation = document["explanation"]
    assert sorted(explanation) == ["nodes", "notes", "requests", "summary", "text"]
    assert explanation["summary"] == "Pod default/new is unschedulable: 0/3 nodes are feasible."
    assert explanation["requests"] == {"cpu": "2"}
    assert explanation["nodes"][2] == {
        "name": "c",
        "group": "4 cpu, 32Gi memory",
        "rejections": [
            {
                "plugin": "NodeAffinity",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["node(s) didn't match Pod's node affinity/selector"],
                "causes": ["nodeSelector disk=sssd: the value is 'ssd'"],
            }
        ],
    }
    assert explanation["notes"]["NodeAffinity"] == [
        "disk=sssd: no node; did you mean disk=ssd (c)?"
    ]
    assert explanation["text"][0] == explanation["summary"]


def test_the_json_document_of_a_placement_has_weighted_scores() -> None:
    cluster = [make_node("c"), make_node("d")]
    document = msgspec.json.decode(encoded(state_of(explained(make_pod("new"), *cluster))))
    for node in document["explanation"]["nodes"]:
        assert sum(node["scores"].values()) > 0
        assert node["total"] == document["decision"]["total"][node["name"]]


def test_resources_that_look_alike_keep_their_domains() -> None:
    node = make_node("a", allocatable={"nvidia.com/gpu": "2", "amd.com/gpu": "1", "x.com/nic": "1"})
    other = make_node("b", allocatable={"nvidia.com/gpu": "4"})
    new = make_pod("new", requests={"nvidia.com/gpu": "5", "cpu": "1"})
    lines = list(explained(new, node, other, options=Options()).lines())
    assert "It requests 1 cpu, 5 nvidia.com/gpu." in lines
    assert "  1 node of 4 cpu, 32Gi memory, 2 nvidia.com/gpu, 1 amd.com/gpu, 1 nic:" in lines
    assert (
        "    all: too small even when empty: 5 nvidia.com/gpu requested, the largest has 4" in lines
    )


def test_a_resource_of_the_pod_alone_is_not_taken_for_one_of_the_nodes() -> None:
    node = make_node("a", allocatable={"nvidia.com/gpu": "2"})
    new = make_pod("new", requests={"amd.com/gpu": "1"})
    lines = list(explained(new, node, options=Options()).lines())
    assert "  1 node of 4 cpu, 32Gi memory, 2 nvidia.com/gpu:" in lines
    assert "    all: no amd.com/gpu at all" in lines


def test_a_table_with_long_names_has_numbers_and_a_legend() -> None:
    names = [f"{'x' * 30}-{number}" for number in range(3)]
    scores = {"A": dict.fromkeys(names, 7), "Zero": dict.fromkeys(names, 0)}
    total = dict.fromkeys(names, 7)
    decision = Decision(
        "scheduled", names[0], tuple(names), {}, (), (), scores=scores, raw=scores, total=total
    )
    utilization = Utilization([make_node(name) for name in names])
    lines = explain(make_pod("new"), decision, utilization).splitlines()
    at = lines.index("Feasible: 3 nodes. Scores of the best ones:")
    assert lines[at + 1 : at + 8] == [
        "         (1)  (2)  (3)",
        "  A        7    7    7",
        "  total    7    7    7",
        f"  (1) {names[0]}",
        f"  (2) {names[1]}",
        f"  (3) {names[2]}",
        "Score 0 on all nodes: Zero.",
    ]
    wide = explain(make_pod("new"), decision, utilization, options=Options(width=200))
    assert f"{names[0]}  {names[1]}  {names[2]}" in wide


def test_filters_of_single_nodes_do_not_run_on_a_node_that_does_not_exist() -> None:
    """A pod names that node, so that the node has a row without a node."""

    class Never:
        name = "Never"

        @per_node
        def filter(self, pod: Pod, node: Any) -> Reject:
            return Reject(f"not {node.name}")

    cluster = [*CLUSTER, make_pod("lost", node="deleted")]
    config = default_configuration()
    driver = Driver(
        cluster, config=config, plugins=[Never()], rng=seeded_random(1), clock=VirtualClock()
    )
    new = make_pod("new", node_selector={"disk": "nvme"})

    rejections = all_rejections(
        driver.frameworks["default-scheduler"], new, driver.cache.snapshot()
    )

    assert set(rejections.of_nodes) == {"a", "b", "c"}
    assert [item.plugin for item in rejections.of_nodes["c"]] == ["NodeAffinity", "Never"]
