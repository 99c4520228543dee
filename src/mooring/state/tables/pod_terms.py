"""The (anti-)affinity terms of a pod, compiled: which other pods it wants near or far.

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
    """One term, ready to be applied.

    Attributes:
        namespaces: Those that are listed; the pod's own if the term says nothing of namespaces.
        namespace_selector: Selects further ones; selects nothing if the term has none.
        selector: What the labels of the other pods must match.
        topology_key: Nodes with the same value of this label are near to each other.
    """

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Returns whether a pod of this namespace and with these labels is meant."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespace_labels
        ):
            return False
        return self.selector.matches(labels)


class WeightedTerm(NamedTuple):
    """A preference; the weight of one against nearness is negative."""

    weight: int
    term: Term


class PodTerms(NamedTuple):
    """All terms of a pod. Equal for pods of one template.

    Attributes:
        affinity: Pods that must be near.
        anti_affinity: Pods that must not be near.
        preferred: Pods that should be near.
        preferred_anti: Pods that should not; their weights are negative.
        problems: What could not be compiled. All terms of that sort are left out then.
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
        return _all(sort, terms, lambda each: _term(namespace, each), problems)

    def preferred(
        sort: str, terms: Iterable[WeightedPodAffinityTerm], sign: int
    ) -> tuple[WeightedTerm, ...]:
        return _all(
            sort,
            terms,
            lambda each: WeightedTerm(
                _int32(sign * each.weight), _term(namespace, each.pod_affinity_term)
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


Written = TypeVar("Written")
Compiled = TypeVar("Compiled")


def _all(
    sort: str,
    terms: Iterable[Written],
    compiled: Callable[[Written], Compiled],
    problems: list[str],
) -> tuple[Compiled, ...]:
    """Returns the terms of one sort: all of them, or none and a problem more."""
    try:
        return tuple(map(compiled, terms))
    except SelectorError as error:
        problems.append(f"{sort}: {error}")
        return ()


def _term(namespace: str, written: PodAffinityTerm) -> Term:
    says_nothing = not written.namespaces and written.namespace_selector is None
    return Term(
        frozenset((namespace,) if says_nothing else written.namespaces),
        compile_label_selector(written.namespace_selector),
        compile_label_selector(written.label_selector),
        written.topology_key,
    )


def _int32(number: int) -> int:
    """As Go multiplies int32: what does not fit wraps."""
    return (number + 2**31) % 2**32 - 2**31
