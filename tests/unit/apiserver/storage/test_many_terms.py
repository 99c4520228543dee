"""Selectors with many terms: they select the same objects, and cost no more for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.storage.many_terms import (
    FieldMatcher,
    LabelMatcher,
    field_matcher,
    label_matcher,
)
from mooring.objects.selector_text import FieldRequirement, FieldSelector, parse_label_selector
from mooring.objects.selectors import Selector, requirement

KEYS = st.sampled_from("abc")
VALUES = st.sampled_from(["", "x", "y", "1", "5", "3"])
TERMS = st.one_of(
    st.builds(
        requirement,
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        requirement,
        KEYS,
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["0", "5", "9"]).map(lambda n: (n,)),
    ),
)


@given(st.lists(TERMS, max_size=6), st.dictionaries(KEYS, VALUES), st.booleans())
def test_joined_terms_select_what_the_terms_select(
    terms: list[object], labels: dict[str, str], is_nothing: bool
) -> None:
    selector = Selector(tuple(terms), selects_nothing=is_nothing)  # type: ignore[arg-type]

    assert LabelMatcher(selector).matches(labels) == selector.matches(labels)


FIELD_TERMS = st.builds(FieldRequirement, KEYS, VALUES, is_equal=st.booleans())


@given(st.lists(FIELD_TERMS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_joined_fields_select_what_the_terms_select(
    terms: list[FieldRequirement], fields: dict[str, str]
) -> None:
    selector = FieldSelector(tuple(terms))

    assert FieldMatcher(selector).matches(fields) == selector.matches(fields)


class Counted(Mapping[str, str]):
    """Labels that count how often they are read."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self.reads = 0

    def __getitem__(self, key: str) -> str:
        self.reads += 1
        return self._labels[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


def test_thousands_of_terms_read_each_label_once() -> None:
    texts = [",".join(f"!k{n}" for n in range(5_000)), ",".join(f"a!=v{n}" for n in range(5_000))]
    for text in texts:
        labels = Counted({"a": "x", "b": "y"})

        assert label_matcher(parse_label_selector(text)).matches(labels)
        assert labels.reads <= 4


def test_thousands_of_fields_read_each_field_once() -> None:
    terms = tuple(FieldRequirement("a", f"v{n}", is_equal=False) for n in range(5_000))
    fields = Counted({"a": "x"})

    assert field_matcher(FieldSelector(terms)).matches(fields)
    assert fields.reads <= 2
