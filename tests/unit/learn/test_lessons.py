"""Every lesson of both variants, on virtual time: outcomes, what leads to them, and stability."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mooring.learn.event_log import Line
from mooring.learn.lessons import LESSONS
from mooring.learn.running import LessonResult
from mooring.learn.scenarios import SCENARIOS, VARIANTS
from tests.helpers.lesson_fixture import STEPS, learn
from tests.helpers.paths import ROOT

NAKAMASATO, SANPOSHIHO = VARIANTS
SEEDS = range(20)
FIVE_TO_NINE = {f"node{number}" for number in range(5, 10)}

#: The outcomes of the originals: variant, step -> pod -> its node ("" none, * by chance).
OUTCOMES: dict[tuple[str, int], dict[str, str]] = {
    (NAKAMASATO, 1): {"pod1": "*"},
    (NAKAMASATO, 2): {"pod1": "node10"},
    (NAKAMASATO, 3): {"pod1": "*", "pod8": "node8"},
    (NAKAMASATO, 4): {"pod1": "*", "pod8": "node8"},
    (NAKAMASATO, 5): {"pod1": "*", "pod8": "node8"},
    (NAKAMASATO, 6): {"pod1": "*", "pod8": "node8"},
    (NAKAMASATO, 7): {"pod1": "", "pod8": "node5"},
    (NAKAMASATO, 8): {"pod1": "*", "pod8": "node5"},
    (SANPOSHIHO, 1): {"pod1": "*"},
    (SANPOSHIHO, 2): {"pod1": "node10"},
    (SANPOSHIHO, 3): {"pod1": "node1", "pod3": "node3"},
    (SANPOSHIHO, 4): {"pod1": "node1", "pod3": "node3"},
    (SANPOSHIHO, 5): {"pod1": "node1", "pod9": "node9"},
    (SANPOSHIHO, 6): {"pod1": ""},
    (SANPOSHIHO, 7): {"pod1": "node10"},
    (SANPOSHIHO, 8): {"pod1": "node10"},
}


def words(result: LessonResult, pod: str, *left_out: str) -> list[str]:
    """Returns what happened to a pod, in order, each run of equal words once."""
    found: list[str] = []
    for line in result.lines:
        if line.pod == f"default/{pod}" and line.what not in left_out and found[-1:] != [line.what]:
            found.append(line.what)
    return found


def the(result: LessonResult, pod: str, what: str) -> Line:
    """Returns the last line of its kind about a pod."""
    return [line for line in result.lines if (line.pod, line.what) == (f"default/{pod}", what)][-1]


# ---- outcomes ----


@pytest.mark.parametrize(("variant", "step"), OUTCOMES)
def test_the_outcome_is_that_of_the_original_for_every_seed(variant: str, step: int) -> None:
    found: dict[str, Counter[str]] = {pod: Counter() for pod in OUTCOMES[variant, step]}
    for seed in SEEDS:
        result = learn(step, variant, seed)
        assert result.failures == [], seed
        assert result.nodes.keys() == found.keys()
        for pod, node in result.nodes.items():
            found[pod][node] += 1

    for pod, expected in OUTCOMES[variant, step].items():
        if expected != "*":
            assert set(found[pod]) == {expected}
        elif step == 1:
            assert len(found[pod]) >= 7  # of ten nodes
        else:
            assert set(found[pod]) == FIVE_TO_NINE


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", STEPS)
def test_equal_seeds_give_equal_lessons(variant: str, step: int) -> None:
    assert learn(step, variant, 7).lines == learn(step, variant, 7).lines


# ---- what leads there ----


def test_a_filter_refuses_each_cordoned_node_once() -> None:
    result = learn(2, NAKAMASATO, 0)

    refused = [line for line in result.lines if line.what == "refused"]
    assert [line.node for line in refused] == [f"node{number}" for number in range(10)]
    assert {line.detail for line in refused} == {"NodeUnschedulable: node(s) were unschedulable"}
    assert words(result, "pod1") == ["queued", "popped", "refused", "bound"]


@pytest.mark.parametrize("step", [3, 4, 5, 6])
def test_a_node_with_the_pods_number_has_ten_and_all_others_none(step: int) -> None:
    result = learn(step, NAKAMASATO, 0)

    for pod in ("pod1", "pod8"):
        scored = {
            line.node: line.detail
            for line in result.lines
            if line.what == "scored" and line.pod == f"default/{pod}"
        }
        assert scored == {node: "10" if node[-1] == pod[-1] else "0" for node in FIVE_TO_NINE}


@pytest.mark.parametrize("step", [5, 6])
def test_a_pod_is_bound_after_as_many_seconds_as_its_node_says(step: int) -> None:
    for seed in SEEDS:
        result = learn(step, NAKAMASATO, seed)
        for pod, node in result.nodes.items():
            waiting, allowed = the(result, pod, "waiting"), the(result, pod, "allowed")
            assert (waiting.node, allowed.node) == (node, node)
            assert allowed.time_s - waiting.time_s == pytest.approx(int(node[-1]), abs=0.01)
            assert the(result, pod, "bound").time_s == pytest.approx(allowed.time_s, abs=0.01)
        # A wait blocks no other pod: both are scheduled before the first is bound.
        assert the(result, "pod8", "waiting").time_s < 0.1


def test_pod9_is_not_bound_after_four_seconds_but_after_nine() -> None:
    result = learn(5, SANPOSHIHO, 0)

    assert the(result, "pod1", "bound").time_s == pytest.approx(1.0, abs=0.1)
    assert the(result, "pod9", "bound").time_s == pytest.approx(9.0, abs=0.1)


def test_a_pod_that_fits_no_node_is_unschedulable_after_one_attempt() -> None:
    result = learn(6, SANPOSHIHO, 0)

    assert words(result, "pod1") == ["queued", "popped", "refused", "failed", "unschedulable"]
    assert the(result, "pod1", "failed").detail == (
        "0/9 nodes are available: 9 node(s) were unschedulable."
    )


@pytest.mark.parametrize("step", [7, 8])
def test_a_node_wakes_a_pod_whose_backoff_is_over_at_once(step: int) -> None:
    result = learn(step, SANPOSHIHO, 0)

    active = the(result, "pod1", "active")
    assert active.detail == "NodeAdd"
    assert "backoff" not in words(result, "pod1")
    assert the(result, "pod1", "bound").time_s == pytest.approx(active.time_s, abs=0.1)
    assert active.time_s >= 3.0


def test_without_flushing_a_pod_backs_off_for_ever() -> None:
    for seed in SEEDS:
        result = learn(7, NAKAMASATO, seed)
        pod_lines = words(result, "pod1")
        assert pod_lines == ["queued", "popped", "refused", "failed", "unschedulable", "backoff"]
        assert result.lines[-1].time_s == pytest.approx(5.0, abs=0.1)
        assert words(result, "pod8", "refused", "popped", "queued") == [
            "waiting",
            "allowed",
            "bound",
        ]


def test_with_flushing_it_is_tried_again_after_its_backoff() -> None:
    for seed in SEEDS:
        result = learn(8, NAKAMASATO, seed)
        active, bound = the(result, "pod1", "active"), the(result, "pod1", "bound")
        assert active.detail == "BackoffComplete"
        # One second of backoff, and up to one until the next check.
        assert 1.0 <= active.time_s <= 2.1
        assert bound.time_s - active.time_s == pytest.approx(int(bound.node[-1]), abs=0.1)
        assert the(result, "pod8", "bound").time_s == pytest.approx(5.0, abs=0.1)
        scored = [line.node for line in result.lines if line.what == "scored"]
        assert set(scored) == FIVE_TO_NINE


# ---- the schedulers themselves ----


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_less_than_eighty_lines_and_stands_in_the_tutorial(step: int) -> None:
    in_package = Path(LESSONS[step - 1].module.__file__)
    in_tutorial = ROOT / "docs" / "tutorial" / in_package.name

    assert len(in_package.read_text().splitlines()) < 80
    assert in_tutorial.resolve() == in_package.resolve()  # one copy


@pytest.mark.parametrize("step", STEPS)
def test_the_lines_of_a_step_are_those_of_its_file(step: int) -> None:
    lesson = LESSONS[step - 1]
    text = Path(lesson.module.__file__).read_text().splitlines()

    for where, shown in lesson.source():
        file, _, number = where.partition(", line ")
        assert file == f"step_{step}.py"
        lines = text[int(number) - 1 :][: len(shown.splitlines())]
        assert [line.strip() for line in lines] == [line.strip() for line in shown.splitlines()]


def test_both_variants_have_a_scenario_for_every_step() -> None:
    assert {variant: len(scenarios) for variant, scenarios in SCENARIOS.items()} == {
        NAKAMASATO: len(LESSONS),
        SANPOSHIHO: len(LESSONS),
    }
    assert [lesson.number for lesson in LESSONS] == [*STEPS]
