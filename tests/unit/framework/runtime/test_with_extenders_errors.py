"""Extenders in a decision that fail, reject the nominated node, or ask for what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import ExtenderError
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeError,
    NodeView,
    Placement,
    Reject,
)
from mooring.framework.extender import FilterResult, Victims
from mooring.framework.runtime import bind as binding
from mooring.framework.runtime.filter import pre_filter
from mooring.framework.runtime.post_filter import NO_CANDIDATE, post_filter_with_extenders
from mooring.framework.runtime.with_extenders import schedule_pod, still_fits
from mooring.framework.status import Code, PostFilterResult
from mooring.simulation.offline import run_to_end
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from mooring.testing.harness import Harness
from tests.unit.framework.runtime.test_with_extenders import (
    Says,
    cycle_of,
    driven,
    opened,
    preempting,
    scored,
    uids,
)


class Uninterested(Says):
    """Handles no pod."""

    def is_interested(self, pod: PodInfo) -> bool:
        return False


# ---------------------------------------------------------------- filter


@pytest.mark.parametrize("names", ["ab", "a"])
def test_a_nominated_node_that_extenders_accept_is_taken_without_the_others(names: str) -> None:
    framework, cycle, attempt = opened(
        [Says("x", "filter"), Says("y", "filter")], *names, pod=make_pod("w", nominated_node="a")
    )
    accepts = [FilterResult(["a"], {}, {})]

    placement, calls = driven(schedule_pod(framework, cycle, attempt), accepts, accepts)

    assert calls == [[["a"]], [["a"]]]
    assert placement == Placement("a", cycle.snapshot.nodes.row("a"), 1, 1)
    assert attempt.choice == ("nominated" if len(names) > 1 else None)


def test_an_error_at_the_nominated_node_lets_all_nodes_be_filtered() -> None:
    framework, cycle, attempt = opened(
        [Says("x", "filter")], "a", "b", pod=make_pod("w", nominated_node="a")
    )
    rejects = FilterResult(["b"], {"a": "no"}, {})

    placement, calls = driven(
        schedule_pod(framework, cycle, attempt), [ExtenderError("away")], [rejects]
    )

    assert calls == [[["a"]], [["a", "b"]]]
    assert placement.node_name == "b"
    assert attempt.extra == {}


def test_an_ignorable_extender_that_fails_rejects_nothing_and_the_next_is_called() -> None:
    extenders = [Says("x", "filter", ignorable=True), Says("y", "filter", ignorable=True)]
    framework, cycle, attempt = opened(extenders, "a", "b")

    placement, calls = driven(
        schedule_pod(framework, cycle, attempt),
        [ExtenderError("away")],
        [FilterResult(["b"], {"a": "no"}, {})],
    )

    assert calls == [[["a", "b"]], [["a", "b"]]]
    assert placement.node_name == "b"
    assert attempt.calls["x"].error == "away"
    assert attempt.calls["y"].rejected == {"a": "no"}


def test_an_extender_that_is_not_ignorable_fails_the_attempt() -> None:
    framework, cycle, attempt = opened([Says("x", "filter"), Says("y", "filter")], "a")

    with pytest.raises(ExtenderError, match="away"):
        driven(schedule_pod(framework, cycle, attempt), [ExtenderError("away")])
    assert attempt.calls["x"].error == "away"


def test_without_nodes_no_plugin_and_no_extender_is_called() -> None:
    prepared: list[str] = []

    class Prepares:
        name = "Prepares"

        def pre_filter(self, cycle: Cycle) -> None:
            prepared.append(cycle.pod.metadata.name)

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.feasible(len(nodes))

    harness = Harness([], [Prepares()])
    harness.framework.set_extenders([Says("x", "filter")], lambda: 0.0)
    cycle = cycle_of(harness, make_pod("w"))

    diagnosis, calls = driven(schedule_pod(harness.framework, cycle, Attempt(cycle.snapshot)))

    assert (calls, prepared) == ([], [])
    assert diagnosis == Diagnosis(0)


def test_extenders_that_are_not_interested_are_not_called() -> None:
    extenders = [Uninterested("x", "filter", "prioritize"), Says("y", "prioritize", weight=3)]
    framework, cycle, attempt = opened(extenders, "a", "b")

    placement, calls = driven(schedule_pod(framework, cycle, attempt), [scored(("a", 1), ("b", 2))])

    assert calls == [[["a", "b"]]]
    assert placement.node_name == "b"
    assert list(attempt.calls) == ["y"]


def test_no_later_extender_is_called_when_no_node_is_left() -> None:
    framework, cycle, attempt = opened([Says("x", "filter"), Says("y", "filter")], "a", "b")
    rejects = FilterResult([], {"a": "no", "elsewhere": "x"}, {"b": "never"})

    diagnosis, calls = driven(schedule_pod(framework, cycle, attempt), [rejects])

    assert isinstance(diagnosis, Diagnosis)
    assert len(calls) == 1
    assert diagnosis.reasons == {"no": 1, "never": 1}
    assert diagnosis.status_of("a") == Reject("no")
    assert diagnosis.status_of("b") == Reject("never", resolvable=False)
    table = cycle.snapshot.nodes
    assert diagnosis.rows_of(Code.UNSCHEDULABLE, table).tolist() == [table.row("a")]
    assert len(diagnosis.unschedulable_plugins) == 1
    assert attempt.calls["x"].rejected == {"a": "no", "b": "never"}


def test_rejections_of_several_extenders_are_added_up() -> None:
    framework, cycle, attempt = opened([Says("x", "filter"), Says("y", "filter")], *"abcd")

    placement, _ = driven(
        schedule_pod(framework, cycle, attempt),
        [FilterResult(["a", "c", "d"], {"b": "no"}, {})],
        [FilterResult(["d", "a"], {}, {})],  # c without a reason
    )

    assert isinstance(placement, Placement)
    decision = attempt.decision("scheduled", node=placement.node_name, diagnosis=None)
    assert decision.rejected.keys() == {"b"}
    assert attempt.calls["y"].rejected == {"c": ""}
    assert (placement.feasible_count, placement.evaluated_count) == (2, 4)


# ---------------------------------------------------------------- preemption


def preempted(*extenders: Says, answers: list[Any], priorities: tuple[int, ...] = (5, 1)) -> Any:
    framework, cycle, candidates = preempting(extenders, *priorities)
    diagnosis = Diagnosis(len(priorities))
    made = [[answer(candidates) if callable(answer) else answer] for answer in answers]
    result, calls = driven(post_filter_with_extenders(framework, cycle, diagnosis), *made)
    return result, calls, diagnosis


def agrees(*nodes: int) -> Any:
    return lambda candidates: {
        candidates[node].node_name: Victims(uids(candidates[node]), 0) for node in nodes
    }


def test_an_extender_without_any_candidate_ends_the_preemption() -> None:
    result, calls, diagnosis = preempted(
        Says("x", "preempt"), Says("y", "preempt"), answers=[agrees()]
    )

    assert result.status == Reject(NO_CANDIDATE).named("MakesRoom")
    assert diagnosis.post_filter_message == NO_CANDIDATE
    assert len(calls) == 1
    record = result.record()
    assert (record.nominated, record.victims, record.candidates, record.acceptable) == (
        None,
        (),
        {},
        (),
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ExtenderError("away"), "away"),
        (
            {"moon": Victims(("u",), 0)},
            'extender "x" claims to preempt on node "moon", which was not sent to it',
        ),
        ({"n0": Victims((), 0)}, 'expected at least one victim pod on node "n0"'),
        (
            {"n0": Victims(("unknown",), 0)},
            "extender: x claims to preempt pod (UID: &{unknown}) on node: n0, but the pod is not"
            " found on that node",
        ),
        (
            {"n0": Victims(("pod-default-on-1",), 0)},
            "extender: x claims to preempt pod (UID: &{pod-default-on-1}) on node: n0, but the pod"
            " is not found on that node",
        ),
        (
            {"n2": Victims(("pod-default-on-2",), 0)},
            "extender: x claims to preempt pod (UID: &{pod-default-on-2}) on node: n2, but its"
            " priority is not lower",
        ),
    ],
)
@pytest.mark.parametrize("ignorable", [True, False])
def test_an_answer_that_cannot_be_is_an_error_unless_the_extender_is_ignorable(
    answer: Any, text: str, ignorable: bool
) -> None:
    result, _, diagnosis = preempted(
        Says("x", "preempt", ignorable=ignorable), answers=[answer], priorities=(5, 1, 1000)
    )

    if not ignorable:
        assert result.status == NodeError(f"preemption: {text}").named("MakesRoom")
        assert result.node_name is None
        assert diagnosis.post_filter_message == f"preemption: {text}"
    elif "at least one victim" in text:
        assert result.status == Reject(NO_CANDIDATE).named("MakesRoom")
    else:
        # As if it had not been called: the best of all candidates is taken.
        assert (result.status, result.node_name) == (None, "n1")


def test_after_an_ignorable_extender_that_failed_the_next_one_gets_its_candidates() -> None:
    extenders = Says("x", "preempt", ignorable=True), Says("y", "preempt", ignorable=True)
    result, calls, _ = preempted(*extenders, answers=[ExtenderError("away"), agrees(0)])

    sent = [[candidate.node_name for candidate in of] for [of] in calls]
    assert sent == [["n0", "n1"], ["n0", "n1"]]
    assert result.node_name == "n0"


def test_an_extender_that_is_not_interested_in_the_pod_changes_no_candidate() -> None:
    result, calls, _ = preempted(Uninterested("x", "preempt"), answers=[])

    assert (result.node_name, calls) == ("n0", [])


def test_the_record_of_a_preemption_has_all_candidates_and_those_that_are_equally_good() -> None:
    result, _, _ = preempted(Says("x", "preempt"), answers=[agrees(2, 1, 0)], priorities=(3, 7, 3))

    record = result.record()
    assert (record.nominated, record.victims) == ("n0", ("default/on-0",))
    assert list(record.candidates) == ["n0", "n1", "n2"]
    assert record.candidates["n1"].victims == ("default/on-1",)
    assert record.acceptable == ("n0", "n2")


# ---------------------------------------------------------------- bind


class Binds(Says):
    """Binds, or fails to."""

    def __init__(self, name: str, error: str = "", **options: Any) -> None:
        super().__init__(name, "bind", **options)
        self.error = error
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self.bound.append((pod.key, node_name))
        if self.error:
            raise ExtenderError(self.error)


class NotInterested(Binds):
    def is_interested(self, pod: PodInfo) -> bool:
        return False


class BindPlugin:
    """Binds, and records it."""

    name = "BindPlugin"

    def __init__(self) -> None:
        self.bound: list[str] = []

    async def bind(self, cycle: Cycle, node_name: str) -> None:
        self.bound.append(node_name)


def bound_by(*extenders: Says) -> list[str]:
    """Binds a pod to a; returns the names of the extenders and plugins that were called."""
    plugin = BindPlugin()
    harness = Harness([make_node("a")], [plugin])
    harness.framework.set_extenders(extenders, lambda: 0.0)
    cycle = cycle_of(harness, make_pod("w"))
    assert run_to_end(binding.bind(harness.framework, cycle, "a")) is None
    called = [item.name for item in extenders if isinstance(item, Binds) and item.bound]
    for item in extenders:
        if isinstance(item, Binds):
            assert item.bound in ([], [("default/w", "a")])
    return called + ["plugin"] * len(plugin.bound)


def test_the_first_interested_extender_with_the_verb_binds_instead_of_the_plugins() -> None:
    assert bound_by(Says("x", "filter"), NotInterested("y"), Binds("z"), Binds("w")) == ["z"]
    assert bound_by(Says("x", "filter"), NotInterested("y")) == ["plugin"]
    assert bound_by() == ["plugin"]


def test_the_next_one_binds_if_an_ignorable_extender_fails() -> None:
    failing = Binds("x", "away", ignorable=True)
    assert bound_by(failing, Binds("y", ignorable=True)) == ["x", "y"]
    assert bound_by(Binds("x", "away", ignorable=True)) == ["x", "plugin"]


def test_an_extender_that_is_not_ignorable_fails_the_binding() -> None:
    with pytest.raises(ExtenderError, match="away"):
        bound_by(Binds("x", "away"), Binds("y"))


# ---------------------------------------------------------------- after the calls


class AtMost:
    """Rejects nodes with so many pods or more; its PreScore has a state."""

    name = "AtMost"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= self.limit, Reject("full"))

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:
        cycle[self] = list(nodes.names)

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        raise AssertionError("scored already")


def test_a_node_that_has_filled_up_meanwhile_does_not_fit_any_more() -> None:
    plugin = AtMost(1)
    harness = Harness([make_node("a"), make_node("b")], [plugin])
    cycle = cycle_of(harness, make_pod("w"))
    cycle.restore(plugin.name, ["the nodes of PreScore"])
    harness.cache.put_pod(make_pod("q", node="a"))

    later = cycle_of(harness, make_pod("w"))
    assert not still_fits(harness.framework, cycle, later, "a")
    assert plugin not in later
    later = cycle_of(harness, make_pod("w"))
    assert still_fits(harness.framework, cycle, later, "b")
    assert later[plugin] == ["the nodes of PreScore"]


class AtMostInCluster(AtMost):
    """Counts the pods of the cluster in PreFilter."""

    def pre_filter(self, cycle: Cycle) -> None:
        cycle[self] = int(NodeView.all_nodes(cycle.snapshot).pod_count.sum())

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        is_full = np.full(len(nodes), cycle[self] >= self.limit)
        return FilterStatuses.reject(is_full, Reject("full"))


@pytest.mark.parametrize("limit", [1, 2])
def test_the_filters_use_what_pre_filter_has_counted_now(limit: int) -> None:
    plugin = AtMostInCluster(limit)
    harness = Harness([make_node("a"), make_node("b")], [plugin])
    cycle = cycle_of(harness, make_pod("w"))
    assert pre_filter(harness.framework, cycle).status is None
    assert cycle[plugin] == 0
    harness.cache.put_pod(make_pod("q", node="a"))

    later = cycle_of(harness, make_pod("w"))
    assert still_fits(harness.framework, cycle, later, "b") is (limit == 2)
    assert (later[plugin], cycle[plugin]) == (1, 0)


def test_an_extender_that_accepts_all_nodes_is_followed_by_the_next() -> None:
    extenders = [Says(name, "filter") for name in ("x", "y", "z")]
    framework, cycle, attempt = opened(extenders, "a", "b")
    accepts = FilterResult(["a", "b"], {}, {})

    placement, calls = driven(
        schedule_pod(framework, cycle, attempt),
        [accepts],
        [FilterResult(["b"], {"a": "no"}, {})],
        [FilterResult(["b"], {}, {})],
    )

    assert calls == [[["a", "b"]], [["a", "b"]], [["b"]]]
    assert placement.node_name == "b"
    assert [call.rejected for call in attempt.calls.values()] == [{}, {"a": "no"}, {}]


def test_extenders_count_among_the_plugins_only_if_nodes_were_left_for_them() -> None:
    framework, cycle, attempt = opened([Says("x", "filter")], "a", "b")
    silent = FilterResult([], {}, {})
    diagnosis, _ = driven(schedule_pod(framework, cycle, attempt), [silent])
    assert (len(diagnosis.unschedulable_plugins), diagnosis.reasons) == (1, {})

    harness = Harness([make_node("a"), make_node("b")], [AtMost(0)])
    harness.framework.set_extenders([Says("x", "filter")], lambda: 0.0)
    cycle = cycle_of(harness, make_pod("w"))
    diagnosis, calls = driven(schedule_pod(harness.framework, cycle, Attempt(cycle.snapshot)))
    assert calls == []
    assert diagnosis.unschedulable_plugins == {"AtMost"}


def test_a_node_that_an_extender_accepts_and_rejects_is_accepted() -> None:
    framework, cycle, attempt = opened([Says("x", "filter")], "a", "b", "c")
    contradictory = FilterResult(["a", "c"], {"a": "no", "b": "no"}, {})

    placement, _ = driven(schedule_pod(framework, cycle, attempt), [contradictory])

    decision = attempt.decision("scheduled", node=placement.node_name, diagnosis=None)
    assert decision.rejected.keys() == {"b"}
    assert placement.feasible_count == 2
    assert attempt.calls["x"].rejected == {"b": "no"}


def test_a_node_is_sent_as_the_extender_before_returned_it() -> None:
    framework, cycle, attempt = opened([Says("x", "filter", "prioritize")], *"abcd")
    accepted = FilterResult(["d", "b", "c"], {"a": "no"}, {})
    scores = scored(("d", 1), ("b", 5), ("c", 5))

    placement, calls = driven(schedule_pod(framework, cycle, attempt), [accepted], [scores])

    assert calls[1] == [["d", "b", "c"]]
    nodes = cycle.snapshot.nodes
    assert placement.node_name == "b"
    assert placement.row == nodes.row("b")
    decision = attempt.decision("scheduled", node="b", diagnosis=None)
    assert decision.total == {"b": 50, "c": 50, "d": 10}
    assert decision.tied == ("b", "c")


@pytest.mark.parametrize(
    "result",
    [
        PostFilterResult(Reject("no"), candidates=list),
        PostFilterResult(None, "n0"),
        PostFilterResult(NodeError("broken")),
    ],
)
def test_extenders_are_called_for_candidates_alone(result: PostFilterResult) -> None:
    class Returns:
        name = "Returns"

        def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
            return result

    harness = Harness([make_node("n0")], [Returns()])
    harness.framework.set_extenders([Says("x", "preempt")], lambda: 0.0)
    cycle = cycle_of(harness, make_pod("w"))

    returned, calls = driven(post_filter_with_extenders(harness.framework, cycle, Diagnosis(1)))

    assert calls == []
    assert returned.node_name == result.node_name
    assert (returned.status is None) is (result.status is None)
