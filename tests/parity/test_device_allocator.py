"""The allocator gives kube-scheduler's answers in 1 023 recorded calls: ``device_cases.py``."""

from __future__ import annotations

import pytest

from mooring.dra import features_of
from tests.parity.device_cases import (
    CASES,
    GATES_OFF,
    answer,
    expected,
    expected_without,
    is_expected,
    selectors,
)


@pytest.mark.parametrize("compiler", ["recorded", "mooring.cel"])
@pytest.mark.parametrize("source", ["upstream unit test", "quirk", "random"])
def test_the_allocator_gives_the_recorded_answers(source: str, compiler: str) -> None:
    cases = [case for case in CASES if case["source"] == source]

    of_devices = selectors(compiler)
    different = {case["name"]: (answer(case, of_devices), expected(case)) for case in cases}

    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}


def test_all_cases_are_here() -> None:
    assert len(CASES) == 1023
    assert sum(case["expect"]["results"] is not None for case in CASES) > 400


@pytest.mark.parametrize("off", GATES_OFF, ids="+".join)
def test_the_allocator_gives_the_recorded_answers_without_gates(off: tuple[str, ...]) -> None:
    features = features_of(dict.fromkeys(off, False))
    of_devices, different = selectors("mooring.cel"), {}
    for case in CASES:
        actual, answers = answer(case, of_devices, features), expected_without(case, off)
        if not is_expected(actual, answers):
            different[case["name"]] = actual, answers
    assert different == {}
