"""matchLabelKeys and mismatchLabelKeys, turned into plain selectors.

"Pods of my own revision" is written as the key of a label whose value each pod has for itself. The
API server puts the values into the selectors when a pod is created, so that nobody else has to.

Source: pkg/registry/core/pod/strategy.go (applyLabelKeysToLabelSelector and its callers), with
MatchLabelKeysInPodAffinity and MatchLabelKeysInPodTopologySpreadSelectorMerge on, as by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mooring.objects.meta import LabelSelector, LabelSelectorRequirement
from mooring.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)

_Terms = TypeVar("_Terms", PodAffinity, PodAntiAffinity)


def with_label_keys_merged(pod: Pod) -> Pod:
    """Returns the pod with the values of its label keys in the selectors of affinity and spreading.

    A selector that has a condition already does not get it twice, so a pod that an API server
    has seen stays as it is (upstream: this runs only once, at creation).
    """
    spec = pod.spec
    affinity = spec.affinity
    if affinity is None and not spec.topology_spread_constraints:
        return pod
    labels = pod.metadata.labels
    return replace(
        pod,
        spec=replace(
            spec,
            affinity=_affinity(affinity, labels) if affinity else None,
            topology_spread_constraints=tuple(
                _constraint(constraint, labels) for constraint in spec.topology_spread_constraints
            ),
        ),
    )


def _affinity(affinity: Affinity, labels: Mapping[str, str]) -> Affinity:
    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    return replace(
        affinity,
        pod_affinity=_terms(near, labels) if near else None,
        pod_anti_affinity=_terms(away, labels) if away else None,
    )


def _terms(terms: _Terms, labels: Mapping[str, str]) -> _Terms:
    required = terms.required_during_scheduling_ignored_during_execution
    preferred = terms.preferred_during_scheduling_ignored_during_execution
    return replace(
        terms,
        required_during_scheduling_ignored_during_execution=tuple(
            _term(term, labels) for term in required
        ),
        preferred_during_scheduling_ignored_during_execution=tuple(
            replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))
            for weighted in preferred
        ),
    )


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = term.label_selector
    if selector is None:
        return term  # selects no pod, and must go on selecting none
    selector = _merged(selector, term.match_label_keys, "In", labels)
    selector = _merged(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _constraint(
    constraint: TopologySpreadConstraint, labels: Mapping[str, str]
) -> TopologySpreadConstraint:
    selector = constraint.label_selector
    if selector is None:
        return constraint
    selector = _merged(selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _merged(
    selector: LabelSelector, keys: Sequence[str], operator: str, labels: Mapping[str, str]
) -> LabelSelector:
    """Returns the selector with a condition for each key that the pod has a label for."""
    conditions = list(selector.match_expressions)
    for key in keys:
        if key not in labels:
            continue
        values = (labels[key],)
        condition = LabelSelectorRequirement(key=key, operator=operator, values=values)
        if condition not in conditions:
            conditions.append(condition)
    return replace(selector, match_expressions=tuple(conditions))
