"""Kinds of pods as columns, and counters with very many conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.selectors import NOTHING, Requirement, Selector, requirement, selector_of
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.tables import counters
from mooring.state.tables.counters import CounterKey
from mooring.testing import make_node, make_pod

KEYS, VALUES = ("app", "tier", "absent"), tuple(f"v{number}" for number in range(12))
LABELS = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))


def conditions(draw: Any) -> Requirement:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
    values: tuple[str, ...] = ()
    if operator in ("In", "NotIn"):
        values = tuple(draw(st.lists(st.sampled_from((*VALUES, "nobody")), min_size=1)))
    return requirement(draw(st.sampled_from(KEYS)), operator, values)


CONDITIONS = st.composite(conditions)()


@given(st.lists(LABELS, max_size=8), st.lists(CONDITIONS, max_size=4))
def test_columns_match_whom_the_selector_matches(
    labels: list[dict[str, str]], wanted: list[Requirement]
) -> None:
    selector = selector_of(wanted)

    columns = LabelClassColumns([each.items() for each in labels], [selector])

    assert columns.matching(selector).tolist() == [selector.matches(each) for each in labels]
    assert not columns.matching(NOTHING).any()


@pytest.mark.parametrize("with_terminating", [True, False])
def test_a_counter_with_many_conditions_counts_as_one_with_few(with_terminating: bool) -> None:
    cache = Cache()
    cache.put_node(make_node("n"))
    for number in range(30):
        labels = {"app": VALUES[number % 12], "tier": VALUES[number % 5]}
        leaves = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if number % 4 == 0 else {}
        pod = make_pod(f"p{number}", labels=labels, node="n", metadata=leaves)
        cache.put_pod(pod)
    many = [requirement("app", "NotIn", (f"none-{number}",)) for number in range(40)]
    selector = Selector((*many, requirement("tier", "In", ("v1", "v3"))))
    key = CounterKey(frozenset(("default",)), selector, with_terminating)
    expected = sum(key.counts(placed.info) for placed in cache.pods)

    assert len(selector.requirements) > counters.FEW_CONDITIONS
    assert cache.snapshot().counters.counter(key).counts.sum() == expected
    assert audit(cache) == []
