"""PostFilter: order of plugins, results and messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring.decision import Preemption
from mooring.framework import Code, Cycle, Diagnosis, PostFilterResult, Reject
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import ClaimChange, NodeError
from mooring.objects.resource import ResourceClaim
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

NO = Reject("no victims")
POD = PodInfo(make_pod("victim"))


class Tries:
    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.answer = answer
        self.seen: list[Diagnosis] = []

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> Any:
        self.seen.append(diagnosis)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def tried(*answers: Any) -> tuple[PostFilterResult, Diagnosis, list[Tries]]:
    plugins = [Tries("ABC"[at], answer) for at, answer in enumerate(answers)]
    harness = Harness([make_node("a")], plugins)
    cycle = harness.framework.new_cycle(PodInfo(make_pod()), harness.cache.snapshot())
    diagnosis = Diagnosis(1, reasons=Counter({"full": 1}))
    return post_filter(harness.framework, cycle, diagnosis), diagnosis, plugins


def test_room_is_made_and_nobody_else_is_asked() -> None:
    result, diagnosis, plugins = tried(
        PostFilterResult(NO), PostFilterResult(None, "a"), PostFilterResult(NO)
    )

    assert result == PostFilterResult(None, "a", plugin="B")
    assert diagnosis.message == "0/1 nodes are available: 1 full."  # success has no words
    assert plugins[1].seen == [diagnosis]
    assert plugins[2].seen == []


def test_the_reasons_of_all_that_failed_are_joined_under_the_first_ones_name() -> None:
    result, diagnosis, _ = tried(
        PostFilterResult(Reject("no victims", "no luck")), PostFilterResult(Reject("too late"))
    )

    assert result.status == Reject("no victims", "no luck", "too late").named("A")
    assert diagnosis.message == ("0/1 nodes are available: 1 full. no victims, no luck, too late")


def test_who_knows_that_eviction_cannot_help_ends_it_with_its_own_words_alone() -> None:
    final = Reject("never", resolvable=False)
    result, diagnosis, plugins = tried(
        PostFilterResult(NO), PostFilterResult(final, ""), PostFilterResult(None, "a")
    )

    assert result == PostFilterResult(final.named("B"), "")
    assert diagnosis.post_filter_message == "never"
    assert plugins[2].seen == []


@pytest.mark.parametrize(
    ("names", "last"),
    [(["", None], ""), ([None, None], None), (["", "a"], "a"), (["a", None], "a")],
)
def test_the_last_word_on_the_nomination_counts_and_silence_is_no_word(
    names: list[str | None], last: str | None
) -> None:
    result, _, _ = tried(*(PostFilterResult(NO, name) for name in names))

    assert result.node_name == last


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (None, "returned None"),
        (NO, "returned Reject(code="),
        (PostFilterResult("no"), "returned 'no'"),  # type: ignore[arg-type]
        (PostFilterResult(None, "a", ("zzz",)), "returned the victims ('zzz',)"),  # type: ignore[arg-type]
        (PostFilterResult(None, "a", POD), "returned the victims PodInfo"),  # type: ignore[arg-type]
        (PostFilterResult(None, "a", None), "returned the victims None"),  # type: ignore[arg-type]
    ],
)
def test_a_failure_leaves_the_pod_unschedulable_and_is_reported(answer: Any, told: str) -> None:
    # Upstream: RunPostFilterPlugins' error text joins the FitError; the nomination stays.
    result, diagnosis, plugins = tried(
        PostFilterResult(NO, "a"), answer, PostFilterResult(None, "a")
    )

    assert result.node_name is None
    assert result.status is not None
    assert (result.status.code, result.status.plugin) == (Code.ERROR, "B")
    assert diagnosis.message.startswith(
        f'0/1 nodes are available: 1 full. running PostFilter plugin "B": {told}'
    )
    assert plugins[2].seen == []


@pytest.mark.parametrize(
    "later",
    [
        PostFilterResult(NO),
        PostFilterResult(None, "a"),
        PostFilterResult(Reject("never", resolvable=False)),
        PostFilterResult(NodeError("broken")),
        ValueError("broken"),
        None,
    ],
)
def test_a_claim_is_changed_whatever_later_plugins_return(later: Any) -> None:
    change = ClaimChange(ResourceClaim())

    result, _, _ = tried(PostFilterResult(NO, claim_change=change), later)

    assert result.claim_change is change


def test_the_record_of_an_earlier_plugin_is_kept_unless_a_later_one_has_its_own() -> None:
    def record(name: str) -> Any:
        return lambda: Preemption(name, (), {}, ())

    first, second = record("first"), record("second")
    answers = PostFilterResult(NO, record=first), PostFilterResult(NO)
    assert tried(*answers)[0].record is first
    assert tried(*reversed(answers))[0].record is first
    answers = PostFilterResult(NO, record=first), PostFilterResult(NO, record=second)
    assert tried(*answers)[0].record is second
    success = PostFilterResult(None, "a", record=second)
    assert tried(answers[0], success)[0].record is second
