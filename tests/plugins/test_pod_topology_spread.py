"""PodTopologySpread: hard constraints refuse nodes, soft ones prefer emptier domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.errors import PluginError
from mooring.framework import Code
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.spread_clusters import DELETED, soft, spread, web, zones

TOO_FAR = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{TOO_FAR} (missing required label)"


def refused(objects: Sequence[Node | Pod], pod: Pod) -> dict[str, str]:
    """Returns node -> its reason, of the nodes that are refused."""
    found = Harness(objects, [PodTopologySpread()]).statuses(pod)
    return {name: status.message for name, status in found.items() if status is not None}


# ---------------------------------------------------------------- filter


@pytest.mark.parametrize(
    ("max_skew", "expected"),
    [(1, {"b", "c"}), (2, {"c"}), (3, set())],
)
def test_a_zone_may_be_ahead_of_the_emptiest_by_max_skew(max_skew: int, expected: set[str]) -> None:
    found = refused(zones(a=0, b=1, c=2), web("new", spread(maxSkew=max_skew)))

    assert set(found) == expected
    assert set(found.values()) <= {TOO_FAR}


def test_a_pod_that_does_not_match_itself_adds_nothing() -> None:
    pod = web("new", spread(), labels={"app": "other"})

    assert set(refused(zones(a=0, b=1, c=2), pod)) == {"c"}


def test_a_node_without_the_key_is_hopeless_and_a_full_zone_is_not() -> None:
    objects = [*zones(a=0, b=1), make_node("nowhere")]

    found = Harness(objects, [PodTopologySpread()]).statuses(web("new", spread()))

    codes = {name: status.code for name, status in found.items() if status is not None}
    assert codes == {
        "b": Code.UNSCHEDULABLE,
        "nowhere": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    }
    assert found["nowhere"] is not None
    assert found["nowhere"].reasons == (NO_KEY,)


def test_the_first_constraint_that_is_not_met_gives_the_reason() -> None:
    objects = [*zones(a=0, b=1), make_node("no-rack", zone="b")]
    pod = web("new", spread(), spread("rack"))

    found = refused(objects, pod)

    # No node has both keys, so no domain is known and no zone is ahead of another.
    assert found == {"a": NO_KEY, "b": NO_KEY, "no-rack": NO_KEY}
    reversed_too = refused(objects, web("new", spread("rack"), spread()))
    assert reversed_too == found


def test_fewer_domains_than_there_must_be_count_as_an_empty_one() -> None:
    objects = zones(a=1, b=1)

    assert refused(objects, web("new", spread(minDomains=2))) == {}
    assert set(refused(objects, web("new", spread(minDomains=3)))) == {"a", "b"}


def test_nodes_that_the_pod_may_not_go_to_make_no_domain_unless_told_so() -> None:
    objects: list[Node | Pod] = [
        make_node("a", zone="a", labels={"disk": "ssd"}),
        make_node("b", zone="b", labels={"disk": "ssd"}),
        make_node("empty", zone="c"),
        web("a-0", node="a"),
        web("b-0", node="b"),
    ]
    choosy: dict[str, Any] = {"node_selector": {"disk": "ssd"}}

    assert refused(objects, web("new", spread(), **choosy)) == {}
    ignoring = web("new", spread(nodeAffinityPolicy="Ignore"), **choosy)
    assert set(refused(objects, ignoring)) == {"a", "b"}


def test_tainted_nodes_make_a_domain_by_default() -> None:
    objects = [*zones(a=1), make_node("tainted", zone="b", taints=["gpu:NoSchedule"])]

    assert set(refused(objects, web("new", spread()))) == {"a"}
    honoring = spread(nodeTaintsPolicy="Honor")
    assert refused(objects, web("new", honoring)) == {}
    assert set(refused(objects, web("new", honoring, tolerations=["gpu"]))) == {"a"}


def test_taints_that_come_later_are_noticed() -> None:
    harness = Harness(zones(a=1, b=0), [PodTopologySpread()])
    pod = web("new", spread(nodeTaintsPolicy="Honor"))
    assert harness.reasons(pod) == {"a": (TOO_FAR,), "b": ()}

    harness.cache.put_node(make_node("b", zone="b", taints=["gpu:NoSchedule"]))

    assert harness.reasons(pod) == {"a": (), "b": ()}


def test_soft_taints_never_leave_a_node_out() -> None:
    objects = [*zones(a=1), make_node("tainted", zone="b", taints=["old:PreferNoSchedule"])]

    assert set(refused(objects, web("new", spread(nodeTaintsPolicy="Honor")))) == {"a"}


@pytest.mark.parametrize(
    "other",
    [
        {"metadata": {"deletionTimestamp": DELETED}},
        {"namespace": "other"},
        {"labels": {"app": "db"}},
    ],
    ids=["being deleted", "of another namespace", "of another app"],
)
def test_pods_that_do_not_count(other: dict[str, Any]) -> None:
    objects = [*zones(a=0, b=0), web("there", node="b", **other)]

    assert refused(objects, web("new", spread())) == {}


def test_label_keys_narrow_the_selector_to_the_values_of_the_pod() -> None:
    objects = [
        *zones(a=0, b=0),
        web("old", node="b", labels={"app": "web", "rev": "1"}),
        web("newer", node="a", labels={"app": "web", "rev": "2"}),
    ]

    pod = web("new", spread(matchLabelKeys=["rev", "absent"]), labels={"app": "web", "rev": "2"})

    assert set(refused(objects, pod)) == {"a"}


def test_without_a_selector_nobody_counts_and_an_empty_one_counts_only_the_pod_itself() -> None:
    objects = zones(a=5, b=0)

    assert refused(objects, web("new", spread(labelSelector=None))) == {}
    assert refused(objects, web("new", spread(labelSelector={}))) == {}
    too_tight = spread(labelSelector={}, maxSkew=0)
    assert set(refused(objects, web("new", too_tight))) == {"a", "b"}


def test_a_selector_that_cannot_be_compiled_is_an_error_of_this_pod() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    harness = Harness(zones(a=0), [PodTopologySpread()])

    with pytest.raises(PluginError, match="Near"):
        harness.decide(web("new", spread(labelSelector=wrong)))


def test_a_pod_without_hard_constraints_is_not_filtered() -> None:
    harness = Harness(zones(a=3, b=0), [PodTopologySpread()])

    for pod in (web("new"), web("new", soft())):
        cycle, _ = harness.open(pod)
        assert cycle.skipped == {"PodTopologySpread"}


def test_a_decision_tells_how_many_nodes_each_reason_refused() -> None:
    pod = web("new", spread(), node_selector={"disk": "none"})
    told = Harness([*zones(a=1, b=1), make_node("nowhere")], [PodTopologySpread()])

    # No node is eligible: there is no domain, so the minimum is 0.
    assert told.decide(pod).node in ("a", "b")
    full = Harness([*zones(a=2, b=2), make_node("c", zone="c")], [PodTopologySpread()])
    assert full.decide(web("new", spread())).node == "c"


# ---------------------------------------------------------------- hypothetical nodes


def test_a_victim_makes_its_domain_emptier_and_a_rival_fuller() -> None:
    harness = Harness(zones(a=1, b=2), [plugin := PodTopologySpread()])
    cycle, view, _ = harness.begin(web("new", spread()))
    victim = harness.cache.pods.get("pod-default-b-0")
    assert victim is not None

    def codes(**worlds: Any) -> list[int]:
        shifted = view
        for method, pods in worlds.items():
            shifted = getattr(shifted, method)(pods)
        state = plugin.apply_deltas(cycle, cycle[plugin], shifted)
        found = plugin.filter(cycle.with_state(plugin.name, state), shifted)
        return [int(code) for code in found.codes]

    assert view.names == ["a", "b"]
    assert codes(plus=[(), ()]) == [0, 2]
    assert codes(without=[(), (victim.info,)]) == [0, 0]
    rival = PodInfo(web("rival"))
    assert codes(plus=[(rival,), ()]) == [0, 2]
    assert codes(plus=[(rival, PodInfo(web("another"))), ()]) == [2, 2]
    stranger = PodInfo(web("stranger", namespace="other"))
    assert codes(plus=[(stranger, stranger), ()]) == [0, 2]


@pytest.mark.parametrize(("value", "counts"), [("950", True), ("700", False)])
def test_with_the_gate_comparisons_of_tolerations_choose_the_domains(
    value: str, *, counts: bool
) -> None:
    nodes: list[Node | Pod] = [
        make_node("a", labels={"zone": "a"}),
        make_node("b", labels={"zone": "b"}, taints=[f"sla={value}:NoSchedule"]),
        make_pod("there", node="a", labels={"app": "x"}),
    ]
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "nodeTaintsPolicy": "Honor",
    }
    pod = make_pod(
        labels={"app": "x"},
        tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}],
        spec={"topologySpreadConstraints": [constraint]},
    )
    gates = {"TaintTolerationComparisonOperators": True}
    reasons = Harness(nodes, [PodTopologySpread(gates=gates)]).reasons(pod)
    # Zone b is empty: if it counts, zone a would be uneven.
    assert bool(reasons["a"]) is counts
    without = Harness(nodes, [PodTopologySpread()]).reasons(pod)
    assert without["a"] == ()
