"""The output of a lesson: text or JSON."""

from __future__ import annotations

import json

import pytest

from mooring.clock import VirtualClock
from mooring.errors import InvariantViolation
from mooring.learn.event_log import EventLog, JsonLines, Line
from mooring.learn.lessons import lesson
from mooring.learn.running import LessonResult
from mooring.learn.scenario_runner import runs
from mooring.learn.scenarios import SCENARIOS
from mooring.learn.view import TextLines, after, before
from mooring.testing import make_pod

POD = "default/pod1"


def line(what: str, node: str = "", detail: str = "", *, time_s: float = 1.5) -> Line:
    return Line(time_s, POD, what, node, detail)


def as_text(*lines: Line) -> list[str]:
    written: list[str] = []
    text = TextLines(written.append)
    for each in lines:
        text(each)
    text.flush()
    return written


def as_json(*lines: Line) -> list[dict[str, object]]:
    written: list[str] = []
    view = JsonLines(written.append)
    for each in lines:
        view(each)
    return [json.loads(each) for each in written]


# ---- text ----


@pytest.mark.parametrize(
    ("pod_lines", "expected"),
    [
        (line("queued"), "   1.500 s  pod1    queued"),
        (line("popped", detail="attempt 2"), "   1.500 s  pod1    popped (attempt 2)"),
        (line("bound", "node5"), "   1.500 s  pod1    bound to node5"),
        (line("waiting", "node5", "A"), "   1.500 s  pod1    waiting in Permit for node5 (A)"),
        (line("allowed", "node5"), "   1.500 s  pod1    allowed on node5"),
    ],
)
def test_a_line_is_a_time_a_pod_and_what_happened(pod_lines: Line, expected: str) -> None:
    assert as_text(pod_lines) == [expected]


def test_what_is_said_of_many_nodes_at_once_is_one_line() -> None:
    refused = [line("refused", f"node{number}", "no") for number in (0, 1, 2, 4)]
    others = [line("refused", "node5", "never")]
    scores = {"node7": "0", "node8": "10", "node9": "0"}
    scored = [line("scored", node, score) for node, score in scores.items()]

    assert as_text(*refused, *others, *scored, line("queued")) == [
        "   1.500 s  pod1    refused by node0..node2, node4: no",
        "   1.500 s  pod1    refused by node5: never",
        "   1.500 s  pod1    scored 10 at node8, 0 at node7, node9",
        "   1.500 s  pod1    queued",
    ]


def test_what_the_scenario_does_stands_between_the_lines_in_order() -> None:
    written: list[str] = []
    text = TextLines(written.append)
    text(line("refused", "node1", "no"))
    text.say(2.0, "nodes are created")

    assert written == [
        "   1.500 s  pod1    refused by node1: no",
        "   2.000 s          nodes are created",
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["node0"], "node0"),
        (["node0", "node1"], "node0, node1"),
        (["node0", "node1", "node2"], "node0..node2"),
        (["node9", "node10", "node11", "node13"], "node9..node11, node13"),
        (["a1", "b2", "b3"], "a1, b2, b3"),
        (["a", "b"], "a, b"),
    ],
)
def test_names_that_follow_each_other_are_cut_short(names: list[str], expected: str) -> None:
    assert runs(names) == expected


def test_at_the_end_stands_what_is_not_as_it_must_be() -> None:
    text = after(lesson(1), ["pod1 has no node."], ["pod1 must be on node1"])

    assert "pod1 has no node." in text
    assert "Failed checks:\n  pod1 must be on node1\n" in text
    assert "Next: mooring learn 2" in text


def test_the_last_step_has_no_next_one() -> None:
    assert "Next:" not in after(lesson(8), [], [])


def test_no_line_is_too_wide_for_a_terminal() -> None:
    for scenarios in SCENARIOS.values():
        for number, scenario in enumerate(scenarios, start=1):
            text = before(lesson(number), scenario) + after(lesson(number), [], [])
            assert max(map(len, text.splitlines())) <= 100


def test_an_outcome_says_what_chance_could_have_chosen() -> None:
    scenario = SCENARIOS["nakamasato"][7]
    result = LessonResult([], {"pod1": "node6", "pod8": "node5"}, [])

    assert result.pod_lines(scenario) == [
        "pod1 is on node6 (any of node5 to node9 would do).",
        "pod8 is on node5.",
    ]
    assert LessonResult([], {"pod1": ""}, []).pod_lines(scenario) == ["pod1 has no node."]


# ---- JSON ----


def test_json_has_five_fields_in_every_line() -> None:
    assert as_json(line("queued"), line("bound", "node5", time_s=2.00000049)) == [
        {"time_s": 1.5, "pod": POD, "what": "queued", "node": "", "detail": ""},
        {"time_s": 2.0, "pod": POD, "what": "bound", "node": "node5", "detail": ""},
    ]


def test_scores_are_the_detail_of_what_follows_from_them() -> None:
    scored = [line("scored", "node8", "10"), line("scored", "node9", "0")]
    waiting = line("waiting", "node8", "NodeNumber")

    found = as_json(*scored, waiting, line("allowed", "node8"))
    assert [each["detail"] for each in found] == ["NodeNumber; scores: node8 10, node9 0", ""]
    assert as_json(*scored, line("bound", "node8"))[0]["detail"] == "scores: node8 10, node9 0"


# ---- the board ----


def test_times_count_from_the_beginning_of_the_scenario() -> None:
    clock = VirtualClock()
    event_log = EventLog(clock)
    clock.advance(5.0)
    event_log.start()
    clock.advance(1.25)

    event_log.emit("queued", make_pod("pod1"))

    assert event_log.lines == [Line(1.25, POD, "queued", "", "")]


def test_the_newest_line_about_a_pod_counts() -> None:
    event_log = EventLog(VirtualClock())
    event_log.emit("bound", make_pod("pod1"), "node1")
    event_log.emit("queued", make_pod("pod2"))

    assert event_log.node_of(POD) == "node1"
    assert event_log.node_of("default/pod2") == ""
    newest = event_log.last("default/pod2")
    assert newest is not None
    assert newest.what == "queued"
    assert event_log.last("default/pod3") is None


def test_a_word_that_means_nothing_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="unknown event 'lost'"):
        EventLog(VirtualClock()).emit("lost", make_pod("pod1"))
