"""Recomputes the term table, namespace selections and cached sums from the objects."""

from __future__ import annotations

from collections import Counter

from mooring.state.cache import Cache
from mooring.state.columns.grouped import GroupedCounts
from mooring.state.tables.affinity_terms import TermIndex
from mooring.state.tables.pod_terms import NO_TERMS, PodTerms, Term, terms_of


def audit_terms(cache: Cache) -> list[str]:
    """Returns the differences between the term table and the pods on nodes as texts.

    Complexity: O(pods x their terms).
    """
    problems: list[str] = []
    expected: dict[str, dict[tuple[Term, int], Counter[int]]] = {}
    sets: set[PodTerms] = set()
    for placed in cache.pods:
        terms = terms_of(placed.info)._replace(problems=())
        if cache.terms.terms_of(placed) != terms:
            problems.append(f"pod {placed.info.key}: its terms are not those of its spec")
        if terms != NO_TERMS:
            sets.add(terms)
        sorts: list[tuple[str, list[tuple[Term, int]]]] = [
            ("affinity", [(term, 0) for term in terms.affinity]),
            ("anti-affinity", [(term, 0) for term in terms.anti_affinity]),
            ("preferred", [(t, weight) for weight, t in (*terms.preferred, *terms.preferred_anti)]),
        ]
        for sort, of_sort in sorts:
            for term in of_sort:
                rows = expected.setdefault(sort, {}).setdefault(term, Counter())
                rows[placed.row] += 1
    for sort, index in cache.terms.indexes():
        problems += _audit_index(sort, index, expected.get(sort, {}))
    if cache.terms.set_count != len(sets):
        problems.append(f"{cache.terms.set_count} sets of terms, should be {len(sets)}")
    return problems + _audit_sums(cache) + _audit_namespaces(cache)


def _audit_index(
    sort: str, index: TermIndex, expected: dict[tuple[Term, int], Counter[int]]
) -> list[str]:
    actual = {(shared.term, shared.weight): shared for shared in index}
    problems = [f"{sort} term {key} is missing" for key in expected if key not in actual]
    for key, shared in actual.items():
        rows = dict(shared.rows.items())
        if rows != expected.get(key, {}):
            problems.append(
                f"{sort} term {key}: rows have {rows}, should have {dict(expected.get(key, {}))}"
            )
        if len(shared.rows) != len(rows):
            problems.append(f"{sort} term {key}: {len(shared.rows)} rows, should be {len(rows)}")
    return problems


def _audit_sums(cache: Cache) -> list[str]:
    """Audits the cached sums over groups of rows of counters and terms."""
    counts: list[tuple[str, GroupedCounts]] = [
        (f"counter {counter.key}", counter) for counter in cache.counters.all()
    ]
    for sort, index in cache.terms.indexes():
        # A preferred term is there once for each of its weights.
        counts += [(f"{sort} term {(shared.term, shared.weight)}", shared.rows) for shared in index]
    problems = []
    for name, of_name in counts:
        for groups, sums in of_name.cached_sums():
            expected = groups.add_up(of_name.column()).tolist()
            if sums.tolist() != expected:
                problems.append(f"{name}: sums are {sums.tolist()}, should be {expected}")
    return problems


def _audit_namespaces(cache: Cache) -> list[str]:
    problems = []
    labels = dict(cache.namespaces.items())
    for selector, names in cache.namespaces.selections():
        expected = {name for name, own in labels.items() if selector.matches(own)}
        if names != expected:
            problems.append(
                f"namespaces selected by {selector}: {sorted(names)}, should be {sorted(expected)}"
            )
    return problems
