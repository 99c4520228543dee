"""Selectors as text: what kubectl and client-go write, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.selector_text import (
    TEXT_LENGTH_MAX,
    FieldRequirement,
    FieldSelector,
    parse_field_selector,
    parse_label_selector,
)
from mooring.objects.selectors import (
    EVERYTHING,
    Selector,
    SelectorError,
    requirement,
    selector_of,
)

WEB = {"app": "web", "tier": "a"}


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("  ", {"a": "b"}, True),
        ("app=web", WEB, True),
        ("app==web", WEB, True),
        ("app = web , tier!=b", WEB, True),
        ("app!=web", WEB, False),
        ("app", WEB, True),
        ("!app", WEB, False),
        ("!other", WEB, True),
        ("! other", WEB, True),
        ("tier in (a,b)", WEB, True),
        ("tier in (b)", WEB, False),
        ("tier notin (b, c)", WEB, True),
        ("other notin (b)", WEB, True),
        ("other=", {"other": ""}, True),
        ("other=", {}, False),
        ("other=,app=web", {"other": "", "app": "web"}, True),
        ("other in ()", {"other": ""}, True),
        ("other in (,x)", {"other": ""}, True),
        ("other in (x,)", {"other": ""}, True),
        ("size>5", {"size": "6"}, True),
        ("size<5", {"size": "6"}, False),
        ("size>5", {"size": "six"}, False),
        # Words that are operators elsewhere are names and values in their own places.
        ("in in (in, notin)", {"in": "notin"}, True),
        ("notin=in", {"notin": "in"}, True),
        ("in", {"in": "x"}, True),
        ("example.com/role=a", {"example.com/role": "a"}, True),
        ("a\t=\nb", {"a": "b"}, True),
    ],
)
def test_a_label_selector_is_read_as_kubectl_writes_it(
    text: str, labels: dict[str, str], *, expected: bool
) -> None:
    assert parse_label_selector(text).matches(labels) is expected


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        ",a",
        "a,,b",
        "=a",
        "a=b=c",
        "a in",
        "a in b",
        "a in (b",
        "a in (b,c",
        "a in b)",
        "a (b)",
        "!",
        "!a=b",
        "!!a",
        "a b",
        "a=(b)",
        "a=b c",
        "a in (b c)",
        "a in (b=c)",
        "a>",
        "a>b",
        "a=-x",
        "-a",
        "a/b/c",
        "a=<b",
        "a in (b))",
        "(a)",
        "a==!b",
    ],
)
def test_what_is_not_a_label_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


def test_the_complaint_shows_the_text_and_what_was_expected() -> None:
    with pytest.raises(SelectorError, match=re.escape("'a in b' is not a selector: found 'b'")):
        parse_label_selector("a in b")
    with pytest.raises(SelectorError, match=re.escape("found the end instead of ',' or ')'")):
        parse_label_selector("a in (b")


NAMES = st.sampled_from(["a", "b", "in", "notin", "x.io/k"])
LABEL_VALUES = st.sampled_from(["", "1", "v-2", "in", "notin"])
CONDITIONS = st.one_of(
    st.builds(
        lambda key, operator, values: requirement(key, operator, tuple(values)),
        NAMES,
        st.sampled_from(["In", "NotIn"]),
        st.lists(LABEL_VALUES, min_size=1, max_size=3),
    ),
    st.builds(requirement, NAMES, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(requirement, NAMES, st.sampled_from(["Gt", "Lt"]), st.just(("7",))),
)


@given(st.lists(CONDITIONS, max_size=4).map(selector_of))
def test_what_a_selector_writes_reads_back_as_the_same_selector(selector: Selector) -> None:
    assert parse_label_selector(str(selector)) == selector


def test_an_empty_text_selects_everything() -> None:
    assert parse_label_selector("") is EVERYTHING
    assert str(EVERYTHING) == ""
    assert parse_field_selector("") == FieldSelector()


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("", {}, True),
        ("spec.nodeName=n1", {"spec.nodeName": "n1"}, True),
        ("spec.nodeName==n1", {"spec.nodeName": "n2"}, False),
        ("spec.nodeName=", {}, True),
        ("status.phase!=Failed,status.phase!=Succeeded", {"status.phase": "Running"}, True),
        ("status.phase!=Failed,status.phase!=Succeeded", {"status.phase": "Failed"}, False),
        ("metadata.name=a,,", {"metadata.name": "a"}, True),
        (r"a=x\,y\=z\\", {"a": "x,y=z\\"}, True),
        ("=x", {"": "x"}, True),
        ("a=b!c", {"a": "b!c"}, True),
    ],
)
def test_a_field_selector_is_read_as_client_go_writes_it(
    text: str, fields: dict[str, str], *, expected: bool
) -> None:
    assert parse_field_selector(text).matches(fields) is expected


@pytest.mark.parametrize("text", ["a", "a,b=c", "a=b=c", r"a=\x", "a=b\\", "a>1"])
def test_what_is_not_a_field_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


@given(
    st.lists(
        st.builds(
            FieldRequirement,
            st.sampled_from(["metadata.name", "spec.nodeName"]),
            st.text("ab,=\\!", max_size=6),
            st.booleans(),
        ),
        max_size=3,
    )
)
def test_a_field_selector_survives_its_own_text(asked: list[FieldRequirement]) -> None:
    read = parse_field_selector(str(FieldSelector(tuple(asked))))
    assert sorted(read.requirements, key=repr) == sorted(asked, key=repr)


def test_the_one_value_of_a_field_can_be_asked_for() -> None:
    selector = parse_field_selector("spec.nodeName=n1,status.phase!=Failed")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert selector.exact("metadata.name") is None


@pytest.mark.parametrize("parse", [parse_label_selector, parse_field_selector])
def test_an_endless_selector_is_refused(parse: Callable[[str], object]) -> None:
    with pytest.raises(SelectorError, match="at most"):
        parse("a," * TEXT_LENGTH_MAX)
