"""The table of terms: who on which row has them, and finding those that mean a new pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.objects.pod import Pod
from mooring.objects.selectors import NOTHING, Selector, requirement, selector_of
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables.affinity_terms import (
    CELLS_PER_ENTRY,
    ENTRIES_MIN,
    TERMS_MAX,
    RowCounts,
    TermIndex,
)
from mooring.state.tables.pod_terms import NO_TERMS, Term, terms_of
from mooring.testing import make_node, make_pod
from tests.plugins.affinity_clusters import avoids, near, wants, web

# ---------------------------------------------------------------- a pod's terms


def terms(affinity: dict[str, Any], **more: Any) -> Any:
    return terms_of(PodInfo(web("a", affinity, **more)))


def test_a_pod_that_says_nothing_has_no_terms() -> None:
    assert terms_of(PodInfo(make_pod())) == NO_TERMS
    assert terms({"nodeAffinity": {}}) == NO_TERMS
    assert terms({"podAffinity": {}, "podAntiAffinity": {}}) == NO_TERMS


@pytest.mark.parametrize(
    ("written", "names", "has_selector"),
    [
        ({}, {"shop"}, False),
        ({"namespaces": ["red"]}, {"red"}, False),
        ({"namespaceSelector": {}}, set(), True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, set(), True),
        ({"namespaces": ["red"], "namespaceSelector": {}}, {"red"}, True),
    ],
)
def test_a_term_means_its_own_namespace_unless_it_names_or_selects_some(
    written: dict[str, Any], names: set[str], has_selector: bool
) -> None:
    (term,) = terms(wants(near(**written)), namespace="shop").affinity

    assert term.namespaces == names
    assert (term.namespace_selector != NOTHING) is has_selector


def test_a_term_without_a_label_selector_means_no_pod_and_an_empty_one_means_all() -> None:
    (nobody,) = terms(wants({"topologyKey": "zone"})).affinity
    (everybody,) = terms(wants({"topologyKey": "zone", "labelSelector": {}})).affinity

    assert not nobody.matches("default", {}, {"app": "web"})
    assert everybody.matches("default", {}, {})
    assert not everybody.matches("other", {}, {})


def test_weights_against_nearness_are_negative_and_wrap_as_int32_does() -> None:
    assert terms(avoids(near(), preferred=7)).preferred_anti[0].weight == -7
    assert terms(wants(near(), preferred=7)).preferred[0].weight == 7
    lowest = terms(avoids(near(), preferred=-(2**31))).preferred_anti[0]
    assert lowest.weight == -(2**31)


def test_a_faulty_term_takes_those_of_its_sort_along_and_no_others() -> None:
    wrong = near(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    found = terms({**wants(near(), wrong), **avoids(near())})

    assert found.affinity == ()
    assert len(found.anti_affinity) == 1
    (problem,) = found.problems
    assert problem.startswith("requiredAffinityTerms: ")


# ---------------------------------------------------------------- counts per row


@given(st.lists(st.tuples(st.integers(0, 299), st.integers(1, 3)), max_size=200))
def test_counts_are_the_same_in_a_dict_and_in_a_column(changes: list[tuple[int, int]]) -> None:
    counts, expected = RowCounts(300), [0] * 300
    for row, by in changes:
        counts.change(row, by)
        expected[row] += by
    for row, by in changes[::2]:
        counts.change(row, -by)
        expected[row] -= by

    sums = np.ones(300, dtype=np.int64)
    counts.add_to(sums, -2)

    assert sums.tolist() == [1 - 2 * count for count in expected]
    assert sorted(counts.items()) == [(row, count) for row, count in enumerate(expected) if count]
    assert len(counts) == sum(count != 0 for count in expected)


def test_only_a_term_that_many_rows_have_gets_a_column() -> None:
    capacity = 100 * CELLS_PER_ENTRY
    counts = RowCounts(capacity)
    for row in range(100):
        counts.change(row, 1)
    forms = [counts.is_column]
    counts.change(100, 1)
    forms.append(counts.is_column)

    for row in range(77):
        counts.change(row, -1)
    forms.append(counts.is_column)

    assert forms == [False, True, False]
    assert counts.items() == [(row, 1) for row in range(77, 101)]


def test_a_column_grows_with_the_cluster() -> None:
    counts = RowCounts(64)
    for row in range(ENTRIES_MIN + 1):
        counts.change(row, 1)
    assert counts.is_column

    counts.grow(128)
    counts.change(127, 5)

    sums = np.zeros(128, dtype=np.int64)
    counts.add_to(sums, 1)
    assert sums.sum() == ENTRIES_MIN + 1 + 5


# ---------------------------------------------------------------- finding terms

APPS = ("web", "db", "cache")
SELECTORS: list[Selector] = [
    NOTHING,
    Selector(),
    *(selector_of([requirement("app", "In", (app,))]) for app in APPS),
    selector_of([requirement("app", "In", ("web", "db"))]),
    selector_of([requirement("app", "In", (*"abcdefghijk", "web"))]),
    selector_of([requirement("app", "NotIn", ("web",))]),
    selector_of([requirement("tier", "Exists")]),
    selector_of([requirement("tier", "DoesNotExist"), requirement("app", "In", ("db",))]),
    selector_of([requirement("app", "In", ("web",)), requirement("tier", "In", ("1",))]),
]
TERMS = st.builds(
    Term,
    st.frozensets(st.sampled_from(["red", "blue", *(f"n{i}" for i in range(12))]), max_size=10),
    st.sampled_from([NOTHING, Selector(), selector_of([requirement("team", "In", ("a",))])]),
    st.sampled_from(SELECTORS),
    st.sampled_from(["zone", "host"]),
)
LABELS = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(APPS), "tier": st.sampled_from(["1", "2"])}
)


@given(
    st.lists(st.tuples(TERMS, st.integers(0, 2)), max_size=12),
    st.sampled_from(["red", "blue", "green"]),
    st.sampled_from([{}, {"team": "a"}]),
    LABELS,
)
@settings(max_examples=300, deadline=None)
def test_the_terms_found_are_those_that_mean_the_pod(
    held: list[tuple[Term, int]], namespace: str, of_namespace: dict[str, str], labels: Any
) -> None:
    index = TermIndex()
    there = [index.acquire(term, weight, 64) for term, weight in held]
    for term in there[1::3]:
        index.release(term)

    found = index.matching(namespace, of_namespace, labels)

    left = [held[at] for at in range(len(held)) if at % 3 != 1]
    expected = {key for key in left if key[0].matches(namespace, of_namespace, labels)}
    assert len(found) == len(expected)
    assert {(each.term, each.weight) for each in found} == expected


def test_a_term_that_nobody_holds_any_more_is_gone() -> None:
    index = TermIndex()
    term = Term(frozenset({"red"}), NOTHING, SELECTORS[2], "zone")
    one, two = index.acquire(term, 0, 64), index.acquire(term, 0, 64)
    assert one is two

    index.release(one)
    assert index.matching("red", {}, {"app": "web"}) == [one]
    index.release(one)

    assert index.matching("red", {}, {"app": "web"}) == []
    assert len(index) == 0
    assert index._lookup == {}


def test_terms_of_one_namespace_are_found_without_those_of_all_namespaces() -> None:
    index = TermIndex()
    own = index.acquire(Term(frozenset({"red"}), NOTHING, SELECTORS[2], "zone"), 0, 64)
    anywhere = index.acquire(Term(frozenset(), Selector(), SELECTORS[2], "zone"), 0, 64)
    labels = {"app": "web"}

    assert set(index.matching("red", {}, labels)) == {own, anywhere}
    assert index.matching("blue", {}, labels) == [anywhere]
    index.release(own)
    assert index.matching("red", {}, labels) == [anywhere]
    index.release(anywhere)
    assert index._lookup == {}


def stateful(number: int) -> Pod:
    """Returns a pod of a StatefulSet with anti-affinity to its own; all share the label tier."""
    labels = {"tier": "data", "app": f"set-{number}"}
    term = near(labelSelector={"matchLabels": labels})
    return web(f"set-{number}", avoids(term), labels=labels, node=f"n-{number % 10}")


def test_of_thousands_of_terms_only_the_few_that_can_mean_a_pod_are_looked_at() -> None:
    cache = Cache()
    for number in range(3_000):
        cache.put_pod(stateful(number))
    index = cache.terms.anti_affinity
    assert len(index) == 3_000

    labels = {"tier": "data", "app": "set-77"}

    assert len(list(index.candidates("default", labels))) < 50
    assert [list(h.rows.items()) for h in index.matching("default", {}, labels)] == [
        [(cache.nodes.row("n-7"), 1)]
    ]
    assert list(index.candidates("other", labels)) == []


# ---------------------------------------------------------------- pods come and go


def test_a_term_that_a_pod_has_twice_counts_twice() -> None:
    cache = Cache()
    cache.put_node(make_node("a"))
    cache.put_pod(web("one", avoids(near(), near()), node="a"))
    cache.put_pod(web("two", avoids(near()), node="a"))

    (held,) = cache.terms.anti_affinity

    assert held.rows.items() == [(cache.nodes.row("a"), 3)]
    cache.remove_pod(web("one").metadata.uid)
    assert held.rows.items() == [(cache.nodes.row("a"), 1)]
    assert audit(cache) == []


def test_templates_are_kept_once_and_go_with_their_last_pod() -> None:
    cache = Cache()
    for number in range(20):
        cache.put_pod(web(f"pod-{number}", wants(near()), node="a"))
    assert cache.terms.set_count == 1

    for number in range(20):
        cache.remove_pod(web(f"pod-{number}").metadata.uid)

    assert cache.terms.set_count == 0
    assert [len(index) for _, index in cache.terms.indexes()] == [0, 0, 0]


def test_a_pod_whose_terms_change_counts_with_the_new_ones() -> None:
    cache = Cache()
    cache.put_pod(web("one", wants(near()), node="a"))
    cache.put_pod(web("one", avoids(near("rack")), node="a"))

    assert [len(index) for _, index in cache.terms.indexes()] == [0, 1, 0]
    assert audit(cache) == []


def test_what_is_damaged_is_reported() -> None:
    cache = Cache()
    cache.put_pod(web("one", avoids(near()), node="a"))
    (held,) = cache.terms.anti_affinity
    held.rows.change(5, 1)

    (told,) = audit(cache)
    assert told.startswith("anti-affinity term ")
    assert told.endswith("rows have {0: 1, 5: 1}, should have {0: 1}")


def test_the_faulty_terms_of_a_placed_pod_do_not_count_and_the_others_do() -> None:
    faulty = near(labelSelector={"matchExpressions": [{"key": "a", "operator": "Bad"}]})
    cache = Cache()
    cache.put_node(make_node("a"))
    both = {**wants(near()), **avoids(faulty)}
    for name, affinity in (("one", both), ("two", wants(near())), ("three", avoids(faulty))):
        cache.put_pod(web(name, affinity, node="a"))

    assert [len(index) for _, index in cache.terms.indexes()] == [1, 0, 0]
    assert cache.terms.set_count == 1
    (shared,) = cache.terms.affinity
    assert shared.rows.items() == [(cache.nodes.row("a"), 2)]
    assert audit(cache) == []
    for name in ("one", "three"):
        cache.remove_pod(web(name).metadata.uid)
    assert shared.rows.items() == [(cache.nodes.row("a"), 1)]
    assert audit(cache) == []


def test_terms_without_namespaces_are_those_of_the_namespace_of_each_pod() -> None:
    cache = Cache()
    template = web("one", wants(near()), node="a")
    cache.put_pod(template)
    other = PodInfo(web("two", wants(near()), namespace="red"))
    info = PodInfo(template)

    assert cache.terms.compiled(info) is cache.terms.compiled(info)
    assert cache.terms.compiled(info) == terms_of(info)
    assert cache.terms.compiled(other) == terms_of(other) != terms_of(info)
    assert cache.terms.compiled(PodInfo(make_pod())) is NO_TERMS


def test_an_affinity_that_pods_of_two_namespaces_share_is_compiled_for_each() -> None:
    table = Cache().terms
    one = web("one", wants(near()))
    other = replace(one, metadata=replace(one.metadata, namespace="red"))
    assert one.spec.affinity is other.spec.affinity

    compiled = [table.compiled(PodInfo(pod)) for pod in (one, other, one, other)]

    assert [[*terms.affinity[0].namespaces] for terms in compiled] == [
        ["default"],
        ["red"],
        ["default"],
        ["red"],
    ]
    assert compiled[0] is compiled[2]
    assert compiled[1] is compiled[3]


def test_many_terms_are_compiled_again_and_the_others_once() -> None:
    table = Cache().terms
    for count, is_cached in ((TERMS_MAX, True), (TERMS_MAX + 1, False)):
        info = PodInfo(web("one", wants(*(near(str(number)) for number in range(count)))))
        compiled = table.compiled(info)
        assert (table.compiled(info) is compiled) is is_cached
        assert table.compiled(info) == compiled == terms_of(info)


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": {}}])
def test_a_pod_without_affinity_to_pods_has_no_terms(affinity: dict[str, Any] | None) -> None:
    pod = make_pod("one", spec={"affinity": affinity} if affinity is not None else {})
    assert Cache().terms.compiled(PodInfo(pod)) is NO_TERMS


def test_counts_of_many_rows_grow_with_the_cluster() -> None:
    cache = Cache()
    for number in range(ENTRIES_MIN + 4):
        cache.put_pod(web(f"pod-{number}", wants(near()), node=f"n-{number}"))
    (shared,) = cache.terms.affinity
    assert shared.rows.is_column
    for number in range(100):
        cache.put_node(make_node(f"more-{number}"))

    assert len(shared.rows.column()) == cache.nodes.capacity > 64
    cache.put_pod(web("last", wants(near()), node="more-99"))
    assert dict(shared.rows.items())[cache.nodes.row("more-99")] == 1
    assert len(shared.rows) == ENTRIES_MIN + 5
    assert audit(cache) == []
