"""Answers of selectors: evaluated once for equal devices, bounded, and with their errors."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import Selectors
from mooring.dra import selectors as module
from mooring.dra.devices import PreparedSlice, SliceDevice
from mooring.dra.selectors import whole_content
from tests.helpers.devices import AttributeCompiler, make_device, make_slice


def device(name: str, model: str, driver: str = "gpu.test", **fields: Any) -> SliceDevice:
    entry = make_device(name, model=model, **fields)
    return PreparedSlice(make_slice("s", [entry], node="a", driver=driver)).devices[0]


def test_an_answer_is_that_of_the_expression_and_the_device() -> None:
    answers = Selectors(AttributeCompiler())
    x, y = device("d0", "x"), device("d1", "y")

    assert [answers.answer("model=x", entry) for entry in (x, y, x)] == [True, False, True]
    assert [answers.answer("model=y", entry) for entry in (x, y)] == [False, True]
    assert answers.answer("color=red", x) == "CEL runtime error: no such key: color"
    assert answers.answer("odd", x) == "CEL compile error: odd"


def test_a_device_and_equal_ones_are_evaluated_once() -> None:
    compiler = AttributeCompiler()
    answers = Selectors(compiler)
    one, equal, other = device("d0", "x"), device("d1", "x"), device("d2", "y")
    for entry in (one, equal, one, other, equal, other):
        answers.answer("model=x", entry)

    assert compiler.programs["model=x"].evaluated == ["d0", "d2"]


@pytest.mark.parametrize(
    ("limit", "evaluated"),
    [("ANSWERS_MAX", ["d0", "d1", "d0"]), ("DEVICES_MAX", ["d0", "d1"])],
)
def test_answers_are_forgotten_when_there_are_too_many(
    limit: str, evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 1)
    compiler = AttributeCompiler()
    answers = Selectors(compiler)
    for name, model in (("d0", "x"), ("d1", "y"), ("d0", "x")):
        assert answers.answer("model=x", device(name, model)) is (model == "x")

    assert compiler.programs["model=x"].evaluated == evaluated


@pytest.mark.parametrize(("limit", "kept"), [(2, True), (1, False)])
def test_expressions_are_forgotten_when_there_are_too_many(
    limit: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXPRESSIONS_MAX", limit)
    compiler = AttributeCompiler()
    answers = Selectors(compiler)
    there = device("d0", "x")
    answers.answer("model=x", there)
    first = compiler.programs["model=x"]
    answers.answer("model=y", there)
    answers.answer("model=x", there)

    assert (compiler.programs["model=x"] is first) is kept


@pytest.mark.parametrize(("limit", "kept"), [(3, True), (2, True), (1, False)])
def test_the_last_answers_by_device_are_forgotten_at_the_limit(
    limit: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEVICES_MAX", limit)
    monkeypatch.setattr(module, "ANSWERS_MAX", 1)
    compiler = AttributeCompiler()
    answers = Selectors(compiler)
    x, y = device("d0", "x"), device("d1", "y")
    for entry in (x, y, x):
        answers.answer("model=x", entry)

    assert compiler.programs["model=x"].evaluated == (["d0", "d1"] if kept else ["d0", "d1", "d0"])


def test_the_attributes_that_an_expression_reads() -> None:
    answers = Selectors(AttributeCompiler())

    assert answers.names("model=x") is None
    assert answers.names("odd") == frozenset()
    assert answers.names("odd") == frozenset()


def test_the_whole_content_is_all_that_a_selector_can_read() -> None:
    capacity = {"memory": {"value": "1Gi"}}
    contents = [
        whole_content(entry)
        for entry in (
            device("d0", "x"),
            device("d0", "y"),
            device("d0", "x", driver="other.test"),
            device("d0", "x", capacity=capacity),
            device("d0", "x", allowMultipleAllocations=True),
        )
    ]

    assert len({*contents}) == len(contents)
    assert whole_content(device("other-name", "x")) == contents[0]
