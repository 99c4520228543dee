"""Node selectors on columns: what they select is what each node's labels and name meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.framework import NodeView
from mooring.framework import selector_matching as module
from mooring.framework.selector_matching import NodeTermEvaluator, matches_required
from mooring.objects.selectors import (
    CompiledNodeSelector,
    Selector,
    compile_node_selector,
    required_node_affinity,
    requirement,
    selector_of,
)
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node, make_pod

LABELS: dict[str, dict[str, str]] = {
    "a": {"zone": "1", "size": "3"},
    "b": {"zone": "2", "size": "10"},
    "c": {"zone": "1", "size": "x"},
    "d": {"size": "7"},
    "e": {"zone": "3"},
    "f": {},
}


def nodes() -> Cache:
    return cluster(*(make_node(name, labels=labels) for name, labels in LABELS.items()))


def compiled(*terms: dict[str, Any]) -> CompiledNodeSelector:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    pod = make_pod(spec={"affinity": {"nodeAffinity": affinity}})
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    return compile_node_selector(required)


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def named(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [label("metadata.name", operator, *names)]}


def by_label(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


TERMS = [
    by_label(label("zone", "In", "1")),
    by_label(label("zone", "In", "1", "2")),
    by_label(label("zone", "In", "2", "9")),
    by_label(label("zone", "In", "9")),
    by_label(label("zone", "NotIn", "1")),
    by_label(label("zone", "NotIn", "9")),
    by_label(label("zone", "NotIn", "1", "3")),
    by_label(label("zone", "Exists")),
    by_label(label("zone", "DoesNotExist")),
    by_label(label("rack", "Exists")),
    by_label(label("rack", "DoesNotExist")),
    by_label(label("rack", "NotIn", "1")),
    by_label(label("size", "Gt", "3")),
    by_label(label("size", "Lt", "8")),
    by_label(label("zone", "In", "1"), label("size", "Gt", "1")),
    by_label(label("zone", "In", "9"), label("size", "Exists")),
    {},
    by_label(label("zone", "Near", "1")),
    named("b"),
    named("a"),
    named("a", operator="NotIn"),
    named("f", operator="NotIn"),
    named("unknown"),
    named("a", "f", operator="NotIn"),
    {**named("c"), **by_label(label("zone", "In", "1"))},
    {**named("b"), **by_label(label("zone", "In", "1"))},
    {**named("b", operator="NotIn"), **by_label(label("size", "Exists"))},
]


def expected(selector: CompiledNodeSelector, names: list[str]) -> list[bool]:
    return [selector.matches(LABELS[name], name) for name in names]


@pytest.mark.parametrize("names", [list("abcdef"), list("fb"), ["a"], []])
@pytest.mark.parametrize("term", TERMS, ids=str)
def test_a_term_selects_the_nodes_that_meet_it(term: dict[str, Any], names: list[str]) -> None:
    cache = nodes()
    rows = np.array([cache.nodes.row(name) for name in names], dtype=np.intp)
    view = NodeView(cache.snapshot(), rows)
    selector = compiled(term)

    assert NodeTermEvaluator(view).any_term(selector).tolist() == expected(selector, names)


@given(st.lists(st.sampled_from(TERMS), max_size=4), st.permutations("abcdef"))
@settings(max_examples=60, deadline=None)
def test_any_of_several_terms_is_enough(terms: list[dict[str, Any]], order: list[str]) -> None:
    cache = nodes()
    view = NodeView(cache.snapshot(), np.array([cache.nodes.row(name) for name in order]))
    selector, evaluator = compiled(*terms), NodeTermEvaluator(view)

    assert evaluator.any_term(selector).tolist() == expected(selector, list(order))
    assert evaluator.any_term(selector).tolist() == expected(selector, list(order))


def test_the_whole_cluster_is_selected_from_without_rows() -> None:
    cache = nodes()
    cache.remove_node("c")
    view = NodeView(cache.snapshot())
    selector = compiled(named("b"), by_label(label("zone", "In", "1")), named("c"))

    selected = NodeTermEvaluator(view).any_term(selector)

    alive = {name: row for row, name in enumerate(cache.nodes.names) if name and name != "c"}
    assert {name for name, row in alive.items() if selected[row]} == {"a", "b"}


@pytest.mark.parametrize("limit", [0, 1, 256])
def test_results_of_conditions_are_the_same_cached_or_not(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CACHED_REQUIREMENTS_MAX", limit)
    cache = nodes()
    names = list("abcdef")
    view = NodeView(cache.snapshot(), np.array([cache.nodes.row(name) for name in names]))
    evaluator = NodeTermEvaluator(view)
    shared = label("zone", "In", "1")
    for terms in (
        [by_label(shared, label("size", "Exists"))],
        [by_label(shared), named("f")],
        [by_label(shared, label("size", "Lt", "5")), by_label(shared)],
    ):
        selector = compiled(*terms)
        assert evaluator.any_term(selector).tolist() == expected(selector, names)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (Selector(), "abcdef"),
        (selector_of([requirement("zone", "In", ("1",))]), "ac"),
        (selector_of([requirement("zone", "Exists"), requirement("size", "Exists")]), "abc"),
        (selector_of([requirement("zone", "NotIn", ("1",))]), "bdef"),
    ],
)
def test_label_selectors(selector: Selector, names: str) -> None:
    cache = nodes()
    view = NodeView(cache.snapshot(), cache.nodes.order.array())

    selected = NodeTermEvaluator(view).label_selector(selector)

    assert {name for name, fits in zip(view.names, selected, strict=True) if fits} == set(names)


@pytest.mark.parametrize(
    ("node_selector", "terms", "names"),
    [
        ({}, None, "abcdef"),
        ({"zone": "1"}, None, "ac"),
        ({"zone": "1"}, [by_label(label("size", "Gt", "1"))], "a"),
        ({}, [named("b"), named("f")], "bf"),
        ({"zone": "1"}, [named("b"), named("c")], "c"),
        ({"zone": "1"}, [], ""),
        ({"zone": "1", "size": "x"}, None, "c"),
    ],
)
def test_the_node_selector_and_the_required_affinity_must_both_match(
    node_selector: dict[str, str], terms: list[dict[str, Any]] | None, names: str
) -> None:
    spec: dict[str, Any] = {"nodeSelector": node_selector}
    if terms is not None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    cache = nodes()
    view = NodeView(cache.snapshot(), cache.nodes.order.array())

    fits = matches_required(required_node_affinity(make_pod(spec=spec)), view)

    assert {name for name, fit in zip(view.names, fits, strict=True) if fit} == set(names)
