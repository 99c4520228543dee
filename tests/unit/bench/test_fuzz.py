"""Every fuzz target survives its corpus and some hundred mutations of it."""

from __future__ import annotations

import pytest

from bench import fuzz
from bench.fuzz import CORPUS, check, corpus_of, failures
from bench.fuzz.mutation import BYTES_MAX, mutated
from bench.fuzz.structures import mutated_cluster
from bench.fuzz.targets import TARGETS, Target
from mooring.cel import CompileError, compile_selector
from mooring.clock import seeded_random
from mooring.errors import ConfigError
from mooring.objects.files.documents import json_document


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_survives_its_corpus_and_mutations(name: str) -> None:
    assert list(failures(TARGETS[name], inputs=TARGETS[name].tested, seed=1)) == []


def test_every_corpus_belongs_to_a_target_and_is_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    for name in TARGETS:
        assert 0 < sum(map(len, corpus_of(name))) < 64 << 10


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"patches", "extenders", "http_heads"}))
def test_most_of_the_corpus_is_accepted(name: str) -> None:
    accepted = 0
    for data in corpus_of(name):
        try:
            TARGETS[name].read(data)
        except TARGETS[name].errors:
            continue
        accepted += 1
    assert accepted >= 1


def test_an_undocumented_error_and_a_slow_input_are_failures() -> None:
    def divide(data: bytes) -> float:
        return 1 / len(data)

    def slow(data: bytes) -> int:
        return sum(range(20_000_000))

    failure = check(Target("divide", divide, (ValueError,)), b"")
    assert failure is not None
    assert failure.problem == "ZeroDivisionError: division by zero"
    assert check(Target("divide", divide, (ZeroDivisionError,)), b"") is None
    failure = check(Target("slow", slow, ()), b"")
    assert failure is not None
    assert failure.problem.startswith("took ")


def test_an_input_that_never_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(data: bytes) -> None:
        while True:
            len(data)

    monkeypatch.setattr(fuzz, "STOPPED_S", 0.05)
    failure = check(Target("endless", endless, ()), b"")
    assert failure is not None
    assert failure.problem == "was stopped after 0.05 s of CPU time"


def test_mutations_of_files_are_repeatable_and_mostly_objects() -> None:
    kept = corpus_of("clusters")
    first, second = seeded_random(5), seeded_random(5)

    inputs = [mutated_cluster(first, kept) for _ in range(100)]

    assert inputs == [mutated_cluster(second, kept) for _ in range(100)]
    assert len(set(inputs)) > 80
    assert max(map(len, inputs)) <= BYTES_MAX
    assert sum(b"apiVersion" in data for data in inputs) > 90


def test_mutations_are_repeatable_and_of_limited_size() -> None:
    kept = corpus_of("yaml")
    first, second = seeded_random(5), seeded_random(5)

    inputs = [mutated(first, kept) for _ in range(200)]

    assert inputs == [mutated(second, kept) for _ in range(200)]
    assert len(set(inputs)) > 150
    assert max(map(len, inputs)) <= BYTES_MAX


# -- what fuzzing found ---------------------------------------------------------------------------


def test_json_with_thousands_of_digits_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="an integer of more than 64 digits"):
        json_document(b'{"a": ' + b"1" * 5000 + b"}")


@pytest.mark.parametrize("literal", ["1" * 5000, "-" + "1" * 5000, "1" * 5000 + "u"])
def test_a_cel_literal_with_thousands_of_digits_is_a_compile_error(literal: str) -> None:
    with pytest.raises(CompileError, match=r"invalid u?int literal"):
        compile_selector(f"{literal} == 1")


def test_a_cel_literal_with_thousands_of_zeros_is_its_value() -> None:
    assert compile_selector("0" * 5000 + "1 == 1").expression.endswith("1 == 1")


def test_a_cel_expression_with_hundreds_of_unknown_characters_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="1 more errors were truncated"):
        compile_selector("\N{REPLACEMENT CHARACTER}" * 500)
