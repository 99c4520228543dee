"""Comparing what some plugins say, tried on a whole scheduler of a few lines.

Run with all of its plugins the twin makes the record, run with some of them it makes what a
scheduler under construction would decide. What the two say about the same plugins never differs,
and every slip is found.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.decision import Decision, Rejection
from mooring.recordings.compare import differences
from mooring.recordings.difference import Difference

NODES = ("n0", "n1", "n2", "n3")
ORDER = ("A", "B", "C", "D")
WEIGHTS = {"A": 3, "B": 2, "C": 1, "D": 5}

World = dict[str, Any]


def world(seed: int) -> World:
    """Returns random statuses and scores of four plugins, and perhaps an error."""
    rng = random.Random(seed)
    chance = rng.choice([0.0, 0.1, 0.3, 0.6])
    return {
        "refused": {name: {n for n in NODES if rng.random() < chance} for name in ORDER},
        "score": {
            name: {node: rng.randint(0, rng.choice([0, 9])) for node in NODES}
            for name in ORDER
            if rng.random() < 0.7
        },
        "gate": rng.choice(ORDER) if rng.random() < 0.1 else None,
        "whole": rng.choice(ORDER) if rng.random() < 0.1 else None,
        "error": rng.choice(ORDER) if rng.random() < 0.1 else None,
    }


def decide(given_world: World, plugins: Collection[str]) -> Decision:
    """Returns one attempt by these plugins alone."""
    ours = [name for name in ORDER if name in plugins]
    if given_world["gate"] in ours:
        return Decision("gated", None, (), {}, (given_world["gate"],), (), message="gate")
    if given_world["whole"] in ours:
        no = Rejection(given_world["whole"], "UnschedulableAndUnresolvable", ("no",))
        return Decision("unschedulable", None, (), {}, (no.plugin,), (), prefilter=no)
    rejected: dict[str, Rejection] = {}
    for node in NODES:
        for name in ours:
            if given_world["error"] == name and node == "n2":
                text = f'running "{name}" filter plugin: boom'
                return Decision("error", None, (), rejected, (), (), message=text)
            if node in given_world["refused"][name]:
                rejected[node] = Rejection(name, "Unschedulable", (f"{name} says no",))
                break
    passed = [node for node in NODES if node not in rejected]
    if not passed:
        guilty = tuple(sorted({refusal.plugin for refusal in rejected.values()}))
        text = f"0/4 nodes are available: 4 {' '.join(guilty)}. preemption: {len(ours)}"
        return Decision("unschedulable", None, (), rejected, guilty, (), message=text)
    if len(passed) == 1:
        return Decision("scheduled", passed[0], (passed[0],), rejected, (), ())
    scorers = [name for name in ours if name in given_world["score"]]
    raw = {name: {node: given_world["score"][name][node] for node in passed} for name in scorers}
    scores = {
        name: {node: 100 * s // max(1, *nodes.values()) for node, s in nodes.items()}
        for name, nodes in raw.items()
    }
    total = {node: sum(scores[name][node] * WEIGHTS[name] for name in scorers) for node in passed}
    tied = tuple(sorted(node for node in passed if total[node] == max(total.values())))
    scored = {"raw": raw, "scores": scores} if scorers else {"raw": None, "scores": None}
    return Decision("scheduled", tied[0], tied, rejected, (), (), total=total, **scored)


def found(recorded: Decision, decided: Decision, only: Collection[str] | None) -> list[Difference]:
    return differences(0, recorded, decided, only=only, weights=WEIGHTS, filter_order=ORDER)


seeds = st.integers(0, 2**32)
owners = st.sets(st.sampled_from(ORDER))


@given(seed=seeds, only=owners)
def test_a_scheduler_with_some_plugins_never_differs_in_what_they_say(
    seed: int, only: set[str]
) -> None:
    everything = world(seed)
    whole, part = decide(everything, ORDER), decide(everything, only)
    # An error is reported in any case, even on a node that another plugin would have filtered.
    assume(part.result != "error" or whole.result == "error")

    assert found(whole, part, only) == []


@given(seed=seeds, only=owners)
def test_comparing_some_plugins_of_two_whole_runs_finds_nothing_either(
    seed: int, only: set[str]
) -> None:
    everything = world(seed)
    assert found(decide(everything, ORDER), decide(everything, ORDER), only) == []


@given(seed=seeds, other=seeds, only=owners)
def test_what_foreign_plugins_do_is_no_difference(seed: int, other: int, only: set[str]) -> None:
    here, there = world(seed), world(other)
    for name in only:
        there["refused"][name] = here["refused"][name]
        there["score"].pop(name, None)
        if name in here["score"]:
            there["score"][name] = here["score"][name]
    for stage in ("gate", "whole", "error"):
        here[stage] = there[stage] = None
    assert found(decide(here, ORDER), decide(there, ORDER), only) == []


@given(seed=seeds, only=owners)
def test_a_refusal_that_the_record_shows_must_come_again(seed: int, only: set[str]) -> None:
    here, there = world(seed), world(seed)
    for stage in ("gate", "whole", "error"):
        here[stage] = there[stage] = None
    recorded = decide(here, ORDER)
    visible = [(n, r) for n, r in recorded.rejected.items() if r.plugin in only]
    for node, refusal in visible:
        there["refused"][refusal.plugin] = here["refused"][refusal.plugin] - {node}
        report = found(recorded, decide(there, only), only)
        assert any(item.field == "rejected" and item.node == node for item in report)
        there["refused"][refusal.plugin] = here["refused"][refusal.plugin]


@given(seed=seeds, only=owners)
def test_a_refusal_of_a_node_that_passed_is_found(seed: int, only: set[str]) -> None:
    here, there = world(seed), world(seed)
    for stage in ("gate", "whole", "error"):
        here[stage] = there[stage] = None
    recorded = decide(here, ORDER)
    for node in recorded.total or ():
        for name in only:
            there["refused"][name] = here["refused"][name] | {node}
            report = found(recorded, decide(there, only), only)
            assert any(item.field == "rejected" and item.node == node for item in report)
            there["refused"][name] = here["refused"][name]


@given(seed=seeds, only=owners)
def test_another_raw_score_is_found_on_every_node_that_was_scored(
    seed: int, only: set[str]
) -> None:
    here, there = world(seed), world(seed)
    for stage in ("gate", "whole", "error"):
        here[stage] = there[stage] = None
    recorded = decide(here, ORDER)
    for name in only & set(recorded.raw or {}):
        for node in (recorded.raw or {})[name]:
            before = here["score"][name][node]
            there["score"][name] = {**here["score"][name], node: before + 1}
            report = found(recorded, decide(there, only), only)
            there["score"][name] = here["score"][name]
            assert Difference(0, "", "raw", name, node, before, before + 1) in report
