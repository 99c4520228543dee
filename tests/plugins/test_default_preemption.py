"""DefaultPreemption: who may make others leave, where, who leaves, and what is said.

Cases follow upstream's default_preemption_test.go and preemption_test.go (v1.36.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import Code, Cycle, NodeError, NodeInfo, Reject, per_node
from mooring.objects.meta import LabelSelector
from mooring.objects.pod import Pod
from mooring.testing import make_pod
from tests.plugins.preemption_builders import full, node, placed, preemptor
from tests.plugins.preemption_clusters import Bench, budget, budget_of

NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def victims(bench: Bench, pod: Pod) -> tuple[str | None, list[str]]:
    """Returns the node, and the names of the victims, the most important one first."""
    result = bench.preempt(pod)
    assert result.status is None, result.status
    return result.node_name, [each.metadata.name for each in result.victims]


# ---------------------------------------------------------------- who may


def leaving(name: str, at: str, priority: int, reason: str = "PreemptionByScheduler") -> Pod:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    return placed(
        name,
        at,
        priority,
        status={"conditions": [condition]},
        metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"},
    )


def test_a_pod_that_never_preempts_does_not_and_keeps_its_nomination() -> None:
    pod = preemptor(spec={"preemptionPolicy": "Never"})
    result = Bench([node("a"), *full("a", 0, 0)]).preempt(pod)

    told = "preemption: not eligible due to preemptionPolicy=Never."
    assert result.status is not None
    assert (result.status.message, result.status.code) == (told, Code.UNSCHEDULABLE)
    assert (result.node_name, result.record) == (None, None)


@pytest.mark.parametrize(
    ("there", "may"),
    [
        (leaving("a-1", "a", 0), False),
        (leaving("a-1", "a", 10), True),  # not one of those that had to make room
        (leaving("a-1", "a", 0, "EvictionByEvictionAPI"), True),
        (placed("a-1", "a", 0, metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"}), True),
        (placed("a-1", "a", 0), True),
    ],
)
def test_victims_that_are_still_leaving_the_nominated_node_are_waited_for(
    there: Pod, *, may: bool
) -> None:
    bench = Bench([node("a"), *full("a", 0), there])

    result = bench.preempt(preemptor(nominated_node="a"))

    told = "preemption: not eligible due to a terminating pod on the nominated node."
    if may:
        assert result.status is None
    else:
        assert result.status is not None
        assert (result.status.message, result.node_name) == (told, None)


@pytest.mark.parametrize("name", ["gone", "tainted"])
def test_they_are_not_if_the_nominated_node_is_gone_or_cannot_take_the_pod_anyway(
    name: str,
) -> None:
    tainted = node("tainted", taints=["dedicated=infra:NoSchedule"])
    objects = [node("a"), tainted, *full("a", 0, 0), leaving("old", "tainted", 0)]

    result = Bench(objects).preempt(preemptor(nominated_node=name))

    assert (result.status, result.node_name) == (None, "a")


# ---------------------------------------------------------------- where


def test_where_nobody_is_of_a_lower_priority_or_eviction_is_no_help_that_is_counted() -> None:
    tainted = node("c", taints=["dedicated=infra:NoSchedule"])
    objects = [node("a"), node("b"), tainted, *full("a", 10, 10), *full("b", 11, 0, 0)]
    result = Bench(objects).preempt(preemptor(cpu="2"))

    told = f"1 Insufficient cpu, 1 {NO_VICTIMS}, 1 {NO_HELP}."
    assert result.status is not None
    assert result.status.message == f"preemption: 0/3 nodes are available: {told}"
    # The earlier nomination, if there was one, ends.
    assert (result.node_name, result.victims) == ("", ())
    assert result.record is not None
    assert result.record().candidates == {}


def test_if_no_node_is_worth_a_try_there_is_nothing_to_record() -> None:
    result = Bench([node("a", taints=["dedicated=infra:NoSchedule"])]).preempt(preemptor())

    assert result.status is not None
    assert result.status.message == f"preemption: 0/1 nodes are available: 1 {NO_HELP}."
    assert (result.node_name, result.record) == ("", None)


class RefusesAll:
    name = "RefusesAll"

    def __init__(self, *, resolvable: bool) -> None:
        self.answer = Reject("not now", resolvable=resolvable)

    def pre_filter(self, cycle: Cycle) -> Reject:
        return self.answer


def test_a_pod_refused_by_pre_filter_as_a_whole_makes_room_if_eviction_may_help() -> None:
    objects = [node("a"), *full("a", 0, 0)]

    bench = Bench(objects, plugins=[RefusesAll(resolvable=True), *Bench([]).harness.plugins])
    assert bench.preempt(preemptor()).node_name == "a"

    bench = Bench(objects, plugins=[RefusesAll(resolvable=False), *Bench([]).harness.plugins])
    result = bench.preempt(preemptor())
    assert result.status is not None
    assert result.status.message == f"preemption: 0/1 nodes are available: 1 {NO_HELP}."


def test_a_node_where_nobody_would_have_to_go_is_an_error() -> None:
    # Upstream: "expected at least one victim pod on node"; PreFilter's refusal hides the room.
    bench = Bench([node("a"), *full("a", 0)], plugins=[RefusesAll(resolvable=True)])

    result = bench.preempt(preemptor())

    told = 'preemption: expected at least one victim pod on node "a"'
    assert result.status == NodeError(told)
    assert result.node_name is None


class Burns:
    """Fails on some nodes, with an exception or a status."""

    name = "Burns"

    def __init__(self, *names: str, raises: bool) -> None:
        self.names = names
        self.raises = raises
        self.is_armed = False

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> NodeError | None:
        if not self.is_armed or node.name not in self.names:
            return None
        if self.raises:
            raise RuntimeError("on fire")
        return NodeError("on fire")


@pytest.mark.parametrize("raises", [True, False])
def test_a_filter_that_fails_on_a_node_costs_only_that_node(raises: bool) -> None:
    burns = Burns("a", raises=raises)
    objects = [node("a"), node("b"), *full("a", 0, 0), *full("b", 0, 0)]
    bench = Bench(objects, plugins=[*Bench([]).harness.plugins, burns])
    cycle, diagnosis = bench.diagnosed(preemptor())
    burns.is_armed = True

    assert bench.plugin.post_filter(cycle, diagnosis).node_name == "b"

    burns.names = ("a", "b")
    result = bench.plugin.post_filter(cycle, diagnosis)
    assert result.status is not None
    assert result.status.code is Code.ERROR
    problem = "RuntimeError: on fire" if raises else "on fire"
    assert result.status.message == f'preemption: running "Burns" filter plugin: {problem}'


def test_several_errors_are_reported_together_each_once() -> None:
    bench = Bench(
        [node("a"), node("b"), *full("a", 0), *full("b", 0)],
        plugins=[RefusesAll(resolvable=True)],
    )

    result = bench.preempt(preemptor())

    assert result.status is not None
    errors = {f'expected at least one victim pod on node "{name}"' for name in "ab"}
    listed = result.status.message.removeprefix("preemption: [").removesuffix("]")
    assert set(listed.split(", ")) == errors


# ---------------------------------------------------------------- who


def test_only_as_many_go_as_must_the_least_important_ones() -> None:
    bench = Bench([node("a"), *full("a", 5, 1, 3, requests={"cpu": "600m"})])

    assert victims(bench, preemptor(cpu="1")) == ("a", ["a-2", "a-1"])


def test_of_the_same_priority_the_older_one_stays_and_one_that_has_not_started_goes() -> None:
    old = placed("old", "a", start="2026-01-01T00:00:00Z", requests={"cpu": "500m"})
    young = placed("young", "a", start="2026-01-01T01:00:00+00:30", requests={"cpu": "500m"})
    unborn = make_pod("unborn", node="a", priority=0, requests={"cpu": "1"})

    assert victims(Bench([node("a"), young, unborn, old]), preemptor()) == ("a", ["unborn"])
    bench = Bench([node("a"), young, unborn, old])
    assert victims(bench, preemptor(cpu="1500m")) == ("a", ["young", "unborn"])


def test_among_equals_the_order_on_the_node_decides_the_last_one_taking_a_gap() -> None:
    # kube-scheduler's list of a node's pods: who leaves is replaced by the last one.
    bench = Bench([node("a"), *full("a", 0, 0, 0, 0, requests={"cpu": "500m"})])
    bench.cache.remove_pod("pod-default-a-0")
    bench.cache.put_pod(placed("blocker", "a", 99, requests={"cpu": "500m"}))

    # In order: a-3, a-1, a-2; put back in that order, so a-2 has to go.
    assert victims(bench, preemptor(cpu="500m")) == ("a", ["a-2"])


def test_a_pod_without_priority_has_priority_0() -> None:
    bench = Bench([node("a"), *full("a", None, -1)])

    assert victims(bench, preemptor(priority=0)) == ("a", ["a-1"])
    assert victims(bench, preemptor(priority=1)) == ("a", ["a-1"])


def test_a_pod_that_is_protected_stays_if_another_can_go_instead() -> None:
    guarded = placed("guarded", "a", 0, labels={"app": "db"})
    free = placed("free", "a", 5)

    assert victims(Bench([node("a"), guarded, free]), preemptor()) == ("a", ["guarded"])
    bench = Bench([node("a"), guarded, free, budget("b", 0, app="db")])
    assert victims(bench, preemptor()) == ("a", ["free"])


def test_budgets_are_counted_down_node_by_node() -> None:
    objects = [node("a"), *full("a", 0, 1, labels={"app": "db"}), budget("b", 1, app="db")]
    result = Bench(objects).preempt(preemptor(cpu="2"))

    # The budget allows one to go; it is spent on the more important one, which comes first.
    assert result.record is not None
    assert result.record().candidates["a"].pdb_violations == 1
    assert [pod.metadata.name for pod in result.victims] == ["a-1", "a-0"]


@pytest.mark.parametrize(
    ("found", "violations"),
    [
        (budget("b", 0, app="db"), 2),
        (budget("b", 1, app="db"), 1),
        (budget("b", 0, app="db", disrupted=("a-0",)), 1),
        (budget("b", -1, app="db"), 2),
        (budget("b", 0, app="web"), 0),
        (budget_of(LabelSelector()), 0),
        (budget_of(None), 0),
        (budget_of(LabelSelector(match_labels={"app": "db"}), namespace="other"), 0),
        (budget_of(LabelSelector(match_labels={"app": "no such/value"})), 0),
    ],
)
def test_which_budgets_protect_whom(found: Any, violations: int) -> None:
    objects = [node("a"), *full("a", 0, 1, labels={"app": "db"}), found]

    result = Bench(objects).preempt(preemptor(cpu="2"))

    assert result.record is not None
    assert result.record().candidates["a"].pdb_violations == violations


def test_several_budgets_on_one_pod_are_each_counted() -> None:
    objects = [
        node("a"),
        *full("a", 1, labels={"app": "db"}),
        *full("a", 0, labels={"app": "db", "tier": "x"}, metadata={"name": "second"}),
    ]
    budgets = [budget("one", 2, app="db"), budget("two", 0, tier="x")]

    result = Bench([*objects, *budgets]).preempt(preemptor(cpu="2"))

    assert result.record is not None
    assert result.record().candidates["a"].pdb_violations == 1


def test_room_for_nominated_pods_of_the_same_priority_is_not_taken() -> None:
    rival = make_pod("rival", requests={"cpu": "1"}, priority=10, nominated_node="a")

    assert victims(Bench([node("a"), *full("a", 0, 0)]), preemptor()) == ("a", ["a-1"])
    bench = Bench([node("a"), *full("a", 0, 0), rival])
    assert victims(bench, preemptor()) == ("a", ["a-0", "a-1"])
    # One of a lower priority does not count.
    assert victims(bench, preemptor(priority=11)) == ("a", ["a-1"])


def test_a_host_port_is_freed_by_the_first_of_two_that_hold_it() -> None:
    # A set, as upstream's: recorded in preemption-4.
    objects = [
        node("a"),
        placed("high", "a", 99, host_ports=[443], requests={}),
        placed("low", "a", 0, host_ports=[443], requests={}),
    ]

    assert victims(Bench(objects), preemptor(host_ports=[443])) == ("a", ["low"])
