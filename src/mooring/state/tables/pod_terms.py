"""The compiled (anti-)affinity terms of a pod.

Source: k8s.io/kube-scheduler framework/types.go (GetAffinityTerms, AffinityTerm.Matches),
pkg/scheduler/framework/types.go (PodInfo.Update).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from mooring.objects.pod import Affinity, PodAffinityTerm, WeightedPodAffinityTerm
from mooring.objects.selectors import Selector, SelectorError, compile_label_selector
from mooring.state.tables.pods import PodInfo


class Term(NamedTuple):
    """One compiled term.

    Attributes:
        namespaces: The listed ones; the pod's own if the term has neither list nor selector.
        namespace_selector: Selects further namespaces; selects nothing if the term has none.
        selector: The selector that the labels of the other pods must match.
        topology_key: Nodes with the same value of this label are in one topology domain.
    """

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Returns whether the term selects a pod of this namespace with these labels."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespace_labels
        ):
            return False
        return self.selector.matches(labels)


class WeightedTerm(NamedTuple):
    """A preferred term; the weight of an anti-affinity term is negative."""

    weight: int
    term: Term


class PodTerms(NamedTuple):
    """All terms of a pod. Equal for pods of one template.

    Attributes:
        affinity: Required affinity.
        anti_affinity: Required anti-affinity.
        preferred: Preferred affinity.
        preferred_anti: Preferred anti-affinity; the weights are negative.
        problems: Compile errors. All terms of the sort in question are omitted then.
    """

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    preferred_anti: tuple[WeightedTerm, ...] = ()
    problems: tuple[str, ...] = ()


NO_TERMS = PodTerms()


def terms_of(pod: PodInfo) -> PodTerms:
    """Returns the terms of ``pod``. Complexity: O(conditions in them)."""
    return compile_terms(pod.metadata.namespace, pod.spec.affinity)


def compile_terms(namespace: str, affinity: Affinity | None) -> PodTerms:
    """Returns the terms in ``affinity`` of a pod in ``namespace``."""
    if affinity is None:
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    if near is None and far is None:
        return NO_TERMS
    problems: list[str] = []

    def required(sort: str, terms: Iterable[PodAffinityTerm]) -> tuple[Term, ...]:
        return _all(sort, terms, lambda term: _term(namespace, term), problems)

    def preferred(
        sort: str, terms: Iterable[WeightedPodAffinityTerm], sign: int
    ) -> tuple[WeightedTerm, ...]:
        return _all(
            sort,
            terms,
            lambda term: WeightedTerm(
                _int32(sign * term.weight), _term(namespace, term.pod_affinity_term)
            ),
            problems,
        )

    return PodTerms(
        required(
            "requiredAffinityTerms",
            near.required_during_scheduling_ignored_during_execution if near else (),
        ),
        required(
            "requiredAntiAffinityTerms",
            far.required_during_scheduling_ignored_during_execution if far else (),
        ),
        preferred(
            "preferredAffinityTerms",
            near.preferred_during_scheduling_ignored_during_execution if near else (),
            1,
        ),
        preferred(
            "preferredAntiAffinityTerms",
            far.preferred_during_scheduling_ignored_during_execution if far else (),
            -1,
        ),
        tuple(problems),
    )


Source = TypeVar("Source")
Compiled = TypeVar("Compiled")


def _all(
    sort: str,
    terms: Iterable[Source],
    compile_one: Callable[[Source], Compiled],
    problems: list[str],
) -> tuple[Compiled, ...]:
    """Returns the terms of one sort; if one does not compile, none, and appends to ``problems``."""
    try:
        return tuple(map(compile_one, terms))
    except SelectorError as error:
        problems.append(f"{sort}: {error}")
        return ()


def _term(namespace: str, term: PodAffinityTerm) -> Term:
    is_own_namespace = not term.namespaces and term.namespace_selector is None
    return Term(
        frozenset((namespace,) if is_own_namespace else term.namespaces),
        compile_label_selector(term.namespace_selector),
        compile_label_selector(term.label_selector),
        term.topology_key,
    )


def _int32(number: int) -> int:
    """Returns the number wrapped to int32, as Go multiplies."""
    return (number + 2**31) % 2**32 - 2**31
