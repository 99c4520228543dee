"""Extenders in a decision, driven by hand: what is yielded, and what answers make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mooring.errors import ExtenderError, InvariantViolation
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    Placement,
    PreFilterResult,
    Reject,
)
from mooring.framework.extender import (
    Extender,
    ExtenderCalls,
    FilterResult,
    PrioritizeResult,
    Victims,
)
from mooring.framework.runtime.post_filter import post_filter_with_extenders
from mooring.framework.runtime.with_extenders import schedule_pod, still_fits
from mooring.framework.status import Candidate, PostFilterResult
from mooring.objects import Pod
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from mooring.testing.harness import Harness


class Says:
    """An extender whose answers are given to it; never awaited here."""

    def __init__(self, name: str, *verbs: str, weight: int = 1, ignorable: bool = False) -> None:
        self.name = name
        self.weight = weight
        self.is_ignorable = ignorable
        self.has_filter = "filter" in verbs
        self.has_prioritize = "prioritize" in verbs
        self.has_preempt = "preempt" in verbs
        self.has_bind = "bind" in verbs

    def is_interested(self, pod: PodInfo) -> bool:
        return True

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        raise AssertionError("the driver answers")

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        raise AssertionError("the driver answers")

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Mapping[str, Victims]:
        raise AssertionError("the driver answers")

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        raise AssertionError("the driver answers")


class NoScore:
    """A profile that filters only."""

    name = "NoScore"

    def filter(self, cycle: Any, nodes: Any) -> Any:
        return FilterStatuses.feasible(len(nodes))


def cycle_of(harness: Harness, pod: Pod) -> Cycle:
    return harness.framework.new_cycle(PodInfo(pod), harness.cache.snapshot())


def opened(
    extenders: Sequence[Extender], *names: str, pod: Any = None, draw: float = 0.0
) -> tuple[Any, Any, Attempt]:
    harness = Harness([make_node(name) for name in names], plugins=[NoScore()])
    framework = harness.framework
    framework.set_extenders(extenders, lambda: draw)
    cycle = cycle_of(harness, pod or make_pod("web"))
    return framework, cycle, Attempt(cycle.snapshot)


def driven(questions: ExtenderCalls[Any], *answers: Any) -> tuple[Any, list[list[Any]]]:
    """Returns what comes of it, and the arguments of what was asked."""
    waiting = iter(answers)
    asked: list[list[Any]] = []
    try:
        asks: Any = next(questions)
        while True:
            asked.append([ask.args[1] for ask in asks])
            asks = questions.send(next(waiting))
    except StopIteration as done:
        return done.value, asked


def scored(*pairs: tuple[str, int]) -> PrioritizeResult:
    return PrioritizeResult([name for name, _ in pairs], [score for _, score in pairs])


def test_without_nodes_nobody_is_asked() -> None:
    found, asked = driven(schedule_pod(*opened([Says("x", "filter")])))
    assert isinstance(found, Diagnosis)
    assert (found.message, asked) == ("no nodes available to schedule pods", [])


def test_questions_and_answers_of_a_whole_decision() -> None:
    extenders = [Says("x", "filter", "prioritize", weight=2), Says("y", "prioritize")]
    framework, cycle, attempt = opened(extenders, "a", "b", "c")
    found, asked = driven(
        schedule_pod(framework, cycle, attempt),
        [FilterResult(["c", "b"], {"a": "no"}, {})],
        [scored(("c", 4), ("b", 1)), scored(("b", 5), ("elsewhere", 10))],
    )
    assert asked == [[["a", "b", "c"]], [["c", "b"], ["c", "b"]]]
    assert isinstance(found, Placement)
    # c: 4 x 2 x 10; b: 1 x 2 x 10 + 5 x 10
    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
    assert decision.total == {"b": 70, "c": 80}
    assert decision.node == "c"
    assert decision.rejected["a"].reasons == ("no",)
    assert [call.url for call in decision.extenders] == ["x", "y"]


def test_the_reason_at_the_nominated_node_stays_if_it_is_rejected_again_without_one() -> None:
    framework, cycle, attempt = opened(
        [Says("x", "filter")], "a", "b", pod=make_pod("web", nominated_node="b")
    )
    rejected = FilterResult([], {"b": "no licence"}, {})
    answers = [rejected], [FilterResult([], {"a": "no disk"}, {})]
    found, asked = driven(schedule_pod(framework, cycle, attempt), *answers)
    assert asked == [[["b"]], [["a", "b"]]]
    assert found.reasons == {"no licence": 1, "no disk": 1}
    assert found.message == "0/2 nodes are available: 1 no disk, 1 no licence."


def test_the_reason_at_the_nominated_node_stays_if_the_next_extender_fails() -> None:
    framework, cycle, attempt = opened(
        [Says("x", "filter"), Says("y", "filter")],
        *("a", "b"),
        pod=make_pod("web", nominated_node="b"),
    )
    contradictory = FilterResult(["b"], {}, {"b": "no licence"})
    silent = FilterResult([], {}, {})
    answers = [contradictory], [ExtenderError("away")], [silent]
    found, _ = driven(schedule_pod(framework, cycle, attempt), *answers)
    assert found.reasons == {"no licence": 1}
    assert found.status_of("b") == Reject("no licence", resolvable=False)


@pytest.mark.parametrize(("draw", "node"), [(0.0, "a"), (0.4, "b"), (0.99, "c")])
def test_ties_are_drawn_among_those_that_were_scored(draw: float, node: str) -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize")], *"abcd", draw=draw)
    scores = [scored(("a", 0), ("b", 0), ("c", 0))]  # d has no score of an extender
    found, _ = driven(schedule_pod(framework, cycle, attempt), scores)
    assert found.node_name == node


def test_without_a_score_of_any_extender_the_first_in_the_heap_wins() -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize")], *"abcd", draw=0.99)
    found, _ = driven(schedule_pod(framework, cycle, attempt), [ExtenderError("away")])
    assert found.node_name == "a"
    assert attempt.calls["x"].error == "away"


def test_one_that_only_filters_makes_ties_a_matter_of_chance() -> None:
    # Upstream takes it to have given 0 to all nodes, and draws among nodes that have scores.
    framework, cycle, attempt = opened([Says("x", "filter")], *"abc", draw=0.99)
    found, _ = driven(
        schedule_pod(framework, cycle, attempt),
        [FilterResult(["a", "b", "c"], {}, {})],
    )
    assert found.node_name == "c"


def test_weights_go_round_as_64_bits_do() -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize", weight=2**62)], "a", "b")
    found, _ = driven(schedule_pod(framework, cycle, attempt), [scored(("a", 10), ("b", 1))])
    expected = {name: (score * 2**62 * 10 + 2**63) % 2**64 - 2**63 for name, score in
                (("a", 10), ("b", 1))}  # fmt: skip
    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
    assert decision.total == expected
    assert found.node_name == max(expected, key=lambda name: expected[name])


@pytest.mark.parametrize("order", ["abc", "cba", "bac"])
def test_scores_may_come_in_any_order(order: str) -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize")], *"abc")
    said = scored(*((name, {"a": 3, "b": 9, "c": 1}[name]) for name in order))
    found, _ = driven(schedule_pod(framework, cycle, attempt), [said])
    assert found.node_name == "b"
    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
    assert decision.total == {"a": 30, "b": 90, "c": 10}
    assert attempt.calls["x"].scores == {"a": 3, "b": 9, "c": 1}


def test_scores_of_a_node_are_added_up() -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize")], "a", "b")
    said = scored(("a", 4), ("b", 7), ("a", 4))
    found, _ = driven(schedule_pod(framework, cycle, attempt), [said])
    assert found.node_name == "a"
    assert attempt.calls["x"].scores == {"a": 8, "b": 7}


@pytest.mark.parametrize(("score", "node"), [(50, "b"), (11, "b"), (-1, "a"), (-50, "a")])
def test_a_score_may_be_of_any_size(score: int, node: str) -> None:
    # Upstream's own test (test/integration/scheduler/extender) has one that gives up to 50.
    framework, cycle, attempt = opened([Says("x", "prioritize")], "a", "b")
    found, _ = driven(schedule_pod(framework, cycle, attempt), [scored(("a", 5), ("b", score))])
    assert found.node_name == node
    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
    assert decision.total == {"a": 50, "b": score * 10}
    assert not attempt.calls["x"].error


def test_sums_of_scores_go_round_as_64_bits_do() -> None:
    framework, cycle, attempt = opened([Says("x", "prioritize")], "a", "b")
    largest = 2**63 - 1
    said = scored(("a", largest), ("a", largest), ("b", 0))
    found, _ = driven(schedule_pod(framework, cycle, attempt), [said])
    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
    assert decision.total == {"a": -20, "b": 0}


def test_a_node_may_be_kept_only_once() -> None:
    framework, cycle, attempt = opened([Says("x", "filter")], "a", "b")
    found, asked = driven(
        schedule_pod(framework, cycle, attempt), [FilterResult(["b", "b"], {}, {})]
    )
    assert (found.node_name, found.feasible_count, len(asked)) == ("b", 1, 1)


def test_an_error_names_the_node_that_was_not_sent() -> None:
    framework, cycle, attempt = opened([Says("http://x", "filter")], "a")
    with pytest.raises(ExtenderError, match=r"http://x.* claims a filtered node .moon."):
        driven(schedule_pod(framework, cycle, attempt), [FilterResult(["moon"], {}, {})])


def test_if_there_is_somebody_to_judge_nodes_all_are_looked_at() -> None:
    framework, _, _ = opened([Says("x", "bind")], "a")
    assert not framework.needs_scoring
    framework, _, _ = opened([Says("x", "filter")], "a")
    assert framework.needs_scoring


@pytest.mark.parametrize(("percentage", "count"), [(None, 300), (0, 144), (50, 150), (1, 100)])
def test_an_extender_is_asked_about_the_sample(percentage: int | None, count: int) -> None:
    names = [f"node-{number}" for number in range(300)]
    harness = Harness(
        [make_node(name) for name in names],
        plugins=[NoScore()],
        percentage_of_nodes_to_score=percentage,
    )
    harness.framework.set_extenders([Says("x", "filter")], lambda: 0.0)
    cycle = cycle_of(harness, make_pod("web"))
    questions = schedule_pod(harness.framework, cycle, Attempt(cycle.snapshot))
    asks: Any = next(questions)
    assert asks[0].args[1] == names[:count]
    questions.close()


def test_those_that_may_be_ignored_come_last_in_their_order() -> None:
    names = [("1", True), ("2", False), ("3", True), ("4", False)]
    extenders = [Says(name, "filter", ignorable=ignorable) for name, ignorable in names]
    framework, _, _ = opened(extenders, "a")
    assert [each.name for each in framework.extenders] == ["2", "4", "1", "3"]


def test_a_node_that_has_gone_fits_no_more() -> None:
    harness = Harness([make_node("a"), make_node("b")], plugins=[NoScore()])
    cycle = cycle_of(harness, make_pod("web"))
    harness.cache.remove_node("a")
    assert not still_fits(harness.framework, cycle, cycle_of(harness, make_pod("web")), "a")
    assert still_fits(harness.framework, cycle, cycle_of(harness, make_pod("web")), "b")


class Narrows(NoScore):
    """Leaves only one node, or refuses the pod."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pre_filter(self, cycle: Any) -> Any:
        return self.answer


def test_what_pre_filter_says_now_counts_too() -> None:
    for answer, fits in (
        (PreFilterResult(frozenset({"a"})), True),
        (PreFilterResult(frozenset({"b"})), False),
        (Reject("not now"), False),
        (None, True),
    ):
        harness = Harness([make_node("a"), make_node("b")], plugins=[Narrows(answer)])
        cycle, later = cycle_of(harness, make_pod("web")), cycle_of(harness, make_pod("web"))
        assert still_fits(harness.framework, cycle, later, "a") is fits


# ---- preemption ----


class MakesRoom:
    name = "MakesRoom"

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates

    def post_filter(self, cycle: Any, diagnosis: Diagnosis) -> PostFilterResult:
        first = self.candidates[0]
        return PostFilterResult(
            None, first.node_name, first.victims, candidates=lambda: self.candidates
        )


def preempting(extenders: Sequence[Extender], *priorities: int) -> tuple[Any, Any, list[Candidate]]:
    """Returns a pod, and nodes with one victim each, which have these priorities."""
    victims = [
        make_pod(f"on-{number}", node=f"n{number}", priority=priority)
        for number, priority in enumerate(priorities)
    ]
    nodes = [make_node(f"n{number}") for number in range(len(priorities))]
    candidates = [Candidate(pod.spec.node_name, (PodInfo(pod),), 0) for pod in victims]
    harness = Harness([*nodes, *victims], plugins=[MakesRoom(candidates)])
    harness.framework.set_extenders(extenders, lambda: 0.0)
    return harness.framework, cycle_of(harness, make_pod("web", priority=1000)), candidates


def uids(room: Candidate) -> tuple[str, ...]:
    return tuple(pod.uid for pod in room.victims)


def test_extenders_agree_one_after_another_and_the_best_that_is_left_is_taken() -> None:
    extenders = [Says("x", "preempt"), Says("y", "filter"), Says("z", "preempt")]
    framework, cycle, candidates = preempting(extenders, 5, 1, 3)
    first = {room.node_name: Victims(uids(room), 0) for room in (candidates[0], candidates[2])}
    second = {"n0": Victims(uids(candidates[0]), 0), "n2": Victims(uids(candidates[2]), 0)}
    found, asked = driven(
        post_filter_with_extenders(framework, cycle, Diagnosis(3)), [first], [second]
    )
    assert [[room.node_name for room in of] for [of] in asked] == [["n0", "n1", "n2"], ["n0", "n2"]]
    assert (found.node_name, found.plugin) == ("n2", "MakesRoom")
    assert [pod.key for pod in found.victims] == ["default/on-2"]
    record = found.record()
    assert (record.nominated, sorted(record.candidates)) == ("n2", ["n0", "n2"])


def test_the_violations_are_those_that_the_extender_counts() -> None:
    framework, cycle, candidates = preempting([Says("x", "preempt")], 5, 1)
    answer = {"n0": Victims(uids(candidates[0]), 0), "n1": Victims(uids(candidates[1]), 1)}
    found, _ = driven(post_filter_with_extenders(framework, cycle, Diagnosis(2)), [answer])
    assert found.node_name == "n0"


def test_nodes_without_victims_are_passed_over_if_the_extender_may_be_ignored() -> None:
    framework, cycle, candidates = preempting([Says("x", "preempt", ignorable=True)], 5, 1)
    answer = {"n0": Victims(uids(candidates[0]), 0), "n1": Victims((), 0)}
    found, _ = driven(post_filter_with_extenders(framework, cycle, Diagnosis(2)), [answer])
    assert found.node_name == "n0"


def test_without_the_verb_nobody_is_asked_about_victims() -> None:
    framework, cycle, _ = preempting([Says("x", "filter")], 5, 1)
    found, asked = driven(post_filter_with_extenders(framework, cycle, Diagnosis(2)))
    assert (found.node_name, asked) == ("n0", [])


def test_ranks_are_compared_as_upstream_compares_them() -> None:
    def room(*priorities: int, violations: int = 0) -> Candidate:
        pods = [PodInfo(make_pod(f"p{n}", priority=n)) for n in priorities]
        return Candidate("a", tuple(pods), violations)

    ordered = [room(-5), room(3), room(7, 1), room(7, 2), room(7, 2, 2), room(1, violations=1)]
    assert sorted(ordered, key=lambda each: each.rank) == ordered


def test_drawing_without_extenders_is_our_own_mistake() -> None:
    harness = Harness([make_node("a")], plugins=[NoScore()])
    with pytest.raises((AssertionError, InvariantViolation)):
        harness.framework.random_index(2)
