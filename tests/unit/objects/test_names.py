"""Label keys and values: what Kubernetes takes, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.names import are_label_values, label_key_problem, label_value_problem


@pytest.mark.parametrize(
    "key",
    ["a", "A-b_c.9", "example.com/role", "a-b.c/x", "x" * 63, "p" * 253 + "/n", "kubernetes.io/os"],
)
def test_a_label_key_is_a_name_with_an_optional_dns_prefix(key: str) -> None:
    assert label_key_problem(key) == ""


@pytest.mark.parametrize(
    "key",
    [
        "p" * 254 + "/n",
        "",
        "-a",
        "a-",
        "a b",
        "x" * 64,
        "/a",
        "a/",
        "A.com/x",
        "a_b/x",
        "a..b/x",
        "a/b/c",
        "a\n",
        "ä",
    ],
)
def test_anything_else_is_no_label_key(key: str) -> None:
    assert label_key_problem(key) != ""


def test_a_problem_with_the_prefix_is_told_from_one_with_the_name() -> None:
    assert "prefix" in label_key_problem("UPPER/name")
    assert "its name" in label_key_problem("lower/-")


@pytest.mark.parametrize("value", ["", "a", "1.2_3-4", "v" * 63])
def test_a_label_value_may_be_empty(value: str) -> None:
    assert label_value_problem(value) == ""


@pytest.mark.parametrize("value", ["-", "a.", "v" * 64, "a/b", " ", "a\n", "-5"])
def test_anything_else_is_no_label_value(value: str) -> None:
    assert label_value_problem(value) != ""


@given(st.lists(st.text("aZ9-_.\n \u00e9", max_size=4) | st.sampled_from(("a" * 63, "a" * 64))))
def test_many_label_values_are_judged_as_one_by_one(values: list[str]) -> None:
    assert are_label_values(values) is not any(map(label_value_problem, values))
