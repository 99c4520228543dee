"""No text crashes the compiler, and no selector the evaluation."""

from __future__ import annotations

import gzip
import json
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cel import CompileError, DeviceInput, EvaluationError, Version, compile_selector
from tests.helpers.paths import ROOT

DEVICE = DeviceInput(
    "gpu.nvidia.com",
    attributes={"type": "gpu", "index": 3, "driverVersion": Version("1.2.3"), "a.b/c": True},
    capacity={"memory": "80Gi"},
)
TOKENS = (
    *("device", ".driver", ".attributes", '["gpu.nvidia.com"]', ".type", ".index", "x", "true"),
    *("1", "2u", "1.5", '"a"', "b'b'", "null", "[", "]", "{", "}", "(", ")", ",", ":", "?", ".?"),
    *("==", "!=", "<", ">=", "+", "-", "*", "/", "%", "!", "&&", "||", " in ", "[?", "0x1F"),
    *(".map(x, ", ".all(x, ", ".exists(k, v, ", "cel.bind(x, ", "has(", "size(", "optional.of("),
    *(".matches(", ".find('[a-z]+')", "quantity('1Gi')", "semver('1.2.3')", ".orValue(", ".sort()"),
    *(
        "duration('1h')",
        "timestamp(1)",
        "lists.range(3)",
        ".format([",
        "dyn(",
        "'''",
        "\\",
        "`",
        "#",
    ),
)


def expressions() -> list[str]:
    path = ROOT / "tests" / "parity" / "data" / "dra-cel-cases.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["expression"] for line in lines]


def outcome(expression: str) -> str:
    """Returns the answer of a selector or its error; any other error fails the test."""
    try:
        selector = compile_selector(expression)
    except CompileError as error:
        return f"compile error: {error}"
    answers = []
    for evaluate in (selector.matches, lambda device: selector.evaluate(device).matches):
        try:
            answers.append(str(evaluate(DEVICE)))
        except EvaluationError as error:
            answers.append(f"error: {error}")
    assert answers[0] == answers[1]
    return answers[0]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_random_tokens_give_an_answer_or_one_of_two_errors(tokens: list[str]) -> None:
    assert outcome("".join(tokens))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_random_text_gives_an_answer_or_one_of_two_errors(text: str) -> None:
    assert outcome(text)


def test_mutated_selectors_give_an_answer_or_one_of_two_errors() -> None:
    rng = Random(7)
    originals = expressions()
    for _ in range(600):
        text = rng.choice(originals)
        start, other = rng.randrange(len(text) + 1), rng.choice(originals)
        cut = other[rng.randrange(len(other) + 1) :][: rng.randrange(12)]
        assert outcome(text[:start] + cut + text[start + rng.randrange(6) :])


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 4000,
        "(" * 240 + "true" + ")" * 240,
        "[" * 4000 + "]" * 4000,
        "[" * 240 + "1" + "]" * 240 + " == []",
        "-" * 9000 + "1 > 0",
        "!" * 9000 + "true",
        "a" + ".b" * 4000,
        " + ".join(["1"] * 245) + " > 0",
        "true ? " * 200 + "true" + " : false" * 200,
        "[1].map(x, " * 120 + "1" + ")" * 120 + " == []",
        "dyn(" * 240 + "1" + ")" * 240 + " == 1",
        " && ".join(["true"] * 1000),
        "'" + "a" * 5000 + "'.matches('(a*)*(a*)*b')",
        "lists.range(1000000).all(x, lists.range(1000000).all(y, true))",
        "cel.bind(l, lists.range(100000), l.filter(a, l.filter(b, false).size() > 0).size() == 0)",
        "'" + "a" * 4000 + "'.replace('', '" + "b" * 4000 + "').replace('', 'ab').size() > 0",
        "'%.999999f'.format([1.5]) == ''",
    ],
    ids=lambda expression: expression[:40],
)
def test_large_and_deep_expressions_end(expression: str) -> None:
    before = sys.getrecursionlimit()
    assert outcome(expression)
    assert sys.getrecursionlimit() == before


def test_an_expression_longer_than_the_api_allows_is_refused() -> None:
    with pytest.raises(CompileError, match="10243 bytes, at most 10240"):
        compile_selector("'" + "a" * 10241 + "'")
