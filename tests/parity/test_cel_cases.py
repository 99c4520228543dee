"""Selectors of devices against kube-scheduler's own CEL: results, texts of errors, costs."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from mooring.cel import CompileError, DeviceInput, EvaluationError, Version, compile_selector
from tests.helpers.paths import ROOT

DATA = ROOT / "tests" / "parity" / "data"


def records(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def attribute(value: dict[str, Any]) -> bool | int | str | Version | None:
    if "version" in value:
        return Version(value["version"])
    for kind in ("int", "bool", "string"):
        if kind in value:
            return value[kind]  # type: ignore[no-any-return]
    return None


def device_input(device: dict[str, Any]) -> DeviceInput:
    attributes = device.get("attributes") or {}
    capacity = device.get("capacity") or {}
    return DeviceInput(
        device.get("driver", ""),
        allow_multiple_allocations=bool(device.get("allowMultipleAllocations")),
        attributes={name: attribute(value) for name, value in attributes.items()},
        capacity={name: amount["value"] for name, amount in capacity.items()},
    )


def compile_problem(expression: str) -> str:
    with pytest.raises(CompileError) as failure:
        compile_selector(expression)
    return str(failure.value)


def answer(expression: str, device: DeviceInput) -> tuple[bool, str, int]:
    """Returns result, error and cost; both ways to evaluate must agree."""
    selector = compile_selector(expression)
    try:
        evaluation = selector.evaluate(device)
        result = (evaluation.matches, "", evaluation.cost)
    except EvaluationError as error:
        result = (False, str(error), error.cost or 0)
    try:
        quick = (selector.matches(device), "")
    except EvaluationError as error:
        quick = (False, str(error))
    assert quick == result[:2]
    return result


@pytest.mark.parametrize("case", records("dra-cel-cases.jsonl.gz"), ids=lambda c: c["expression"])
def test_a_selector_is_answered_as_by_kube_scheduler(case: dict[str, Any]) -> None:
    if "compile_error" in case:
        assert compile_problem(case["expression"]) == case["compile_error"]
        return
    for device, expected in zip(case["devices"], case["answers"], strict=True):
        assert answer(case["expression"], device_input(device)) == (
            expected.get("matches", False),
            expected.get("error", ""),
            expected.get("cost", 0),
        )


@pytest.mark.parametrize(
    "case", records("dra-allocator-selectors.jsonl.gz"), ids=lambda c: c["expression"]
)
def test_the_selectors_of_the_allocator_match_the_same_devices(case: dict[str, Any]) -> None:
    if "compile_error" in case:
        assert compile_problem(case["expression"]) == case["compile_error"]
        return
    selector = compile_selector(case["expression"])
    for device, expected in zip(case["devices"], case["answers"], strict=True):
        try:
            actual = (selector.matches(device_input(device)), "")
        except EvaluationError as error:
            actual = (False, str(error))
        assert actual == (expected.get("matches", False), expected.get("error", ""))


@pytest.mark.parametrize("name", ["cel-language.jsonl.gz", "cel-random.jsonl.gz"])
def test_every_part_of_the_language_answers_as_upstream(name: str) -> None:
    head, *cases = records(name)
    devices = [device_input(device) for device in head["devices"]]
    assert len(cases) > 800
    for case in cases:
        expression = case["expression"]
        if "compile_error" in case:
            assert compile_problem(expression) == case["compile_error"]
            continue
        for device, expected in zip(devices, case["answers"], strict=True):
            assert (expression, *answer(expression, device)) == (expression, *expected)
