"""Changes of NodeAffinity: what the pod requires, nearly as a node has it; labels of the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.explain.changes.change import EDIT_NODE, EDIT_POD, SuggestedChange
from mooring.explain.reasons.case import Case, similar
from mooring.explain.reasons.labels import added_affinity
from mooring.objects.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.objects.node import Node
from mooring.objects.pod import Affinity, NodeAffinity, Pod
from mooring.objects.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    CompiledNodeSelector,
    NodeTerm,
    Requirement,
    compile_node_term,
    parse_int64,
    required_node_affinity,
    requirement,
)

#: A bound that is further from the node's value costs more, but less than an edit of the node.
DISTANCE_SHARE: Final = 0.5


class _Unmet(NamedTuple):
    """A requirement that a node does not meet; ``term`` None = of the nodeSelector."""

    item: Requirement
    term: NodeTerm | None = None


def for_labels(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields corrected requirements of the pod, and the labels that the node lacks."""
    required, labels = required_node_affinity(case.pod), node.metadata.labels
    unmet = [_Unmet(item) for item in required.labels.requirements if not item.matches(labels)]
    added = _nearest(added_affinity(case), node)
    own = _nearest(required.affinity, node)
    if own is None or added is None:
        return
    unmet += own
    corrections = [change for item in unmet for change in (_corrected(case, item, node),) if change]
    if unmet and not added and len(corrections) == len(unmet):
        yield tuple(corrections)
    every = [item.item for item in (*unmet, *added)]
    changes = [change for item in every for change in (_label(item, node),) if change]
    if every and len(changes) == len(every):
        yield tuple(changes)


def _nearest(affinity: CompiledNodeSelector | None, node: Node) -> list[_Unmet] | None:
    """Returns what a node lacks of the term that it nearly meets; None = no label helps."""
    labels, name = node.metadata.labels, node.metadata.name
    if affinity is None or affinity.matches(labels, name):
        return []
    terms = [
        [_Unmet(item, term) for item in term.expressions if not item.matches(labels)]
        for term in affinity.terms
        if not term.problem and all(item.matches_value(name) for item in term.fields)
    ]
    return min(terms, key=len) if terms else None


# ---- the pod ----


def _corrected(case: Case, unmet: _Unmet, node: Node) -> SuggestedChange | None:
    """Returns the requirement as the node meets it; None = the node has nothing similar."""
    new = _similar(unmet.item, node)
    if new is None:
        return None
    if unmet.term is None:
        return _in_selector(unmet.item, new)
    return _in_affinity(case.pod, unmet.term, unmet.item, new, node)


def _similar(item: Requirement, node: Node) -> Requirement | None:
    """Returns the most similar requirement that a node meets; None = there is none."""
    labels = node.metadata.labels
    value = labels.get(item.key)
    if value is None:
        near = similar(item.key, labels)
        new = None if near is None else requirement(near, item.operator, item.values)
        return (
            new if new is not None and item.operator in _POSITIVE and new.matches(labels) else None
        )
    if item.operator == IN:
        is_near = any(similar(required, [value]) for required in item.values)
        return requirement(item.key, IN, (value,)) if is_near else None
    number = parse_int64(value)
    if item.operator not in _STEPS or number is None:
        return None
    bound = parse_int64(str(number - _STEPS[item.operator]))
    return None if bound is None else requirement(item.key, item.operator, (str(bound),))


#: Operators that require a label.
_POSITIVE: Final = frozenset((IN, EXISTS, GREATER, LESS))

#: Operator -> the step from its bound to the nearest number that it accepts.
_STEPS: Final = {GREATER: 1, LESS: -1}


def _in_selector(old: Requirement, new: Requirement) -> SuggestedChange:
    value = new.values[0]

    def edit(pod: Pod) -> Pod:
        selector = {k: v for k, v in pod.spec.node_selector.items() if k != old.key}
        selector[new.key] = value
        return replace(pod, spec=replace(pod.spec, node_selector=selector))

    before = old.values[0] if old.key == new.key else str(old)
    text = f"set nodeSelector {new.key}={value} in the pod (instead of {before})"
    return SuggestedChange(text, EDIT_POD, f"selector {new}", edit)


def _in_affinity(
    pod: Pod, term: NodeTerm, old: Requirement, new: Requirement, node: Node
) -> SuggestedChange | None:
    """Returns the pod with another expression in a term of its node affinity."""
    index = next((i for i, raw in enumerate(_raw_terms(pod)) if compile_node_term(raw) == term), -1)
    if index < 0:
        return None

    def expression(raw: NodeSelectorRequirement) -> NodeSelectorRequirement:
        is_old = requirement(raw.key, raw.operator, raw.values) == old
        return replace(raw, key=new.key, values=new.values) if is_old else raw

    def edit(pod: Pod) -> Pod:
        terms = list(_raw_terms(pod))
        expressions = tuple(map(expression, terms[index].match_expressions))
        terms[index] = replace(terms[index], match_expressions=expressions)
        return _with_terms(pod, tuple(terms))

    text = f"require {new} in the pod's node affinity (instead of {old})"
    kind = f"node affinity {old}" if old.operator in _STEPS else f"node affinity {old} {new}"
    return SuggestedChange(text, EDIT_POD + _distance(old, node), kind, edit)


def _raw_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return () if required is None else required.node_selector_terms


def _with_terms(pod: Pod, terms: tuple[NodeSelectorTerm, ...]) -> Pod:
    affinity = pod.spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    selector = NodeSelector(node_selector_terms=terms)
    nodes = replace(nodes, required_during_scheduling_ignored_during_execution=selector)
    changed = replace(affinity, node_affinity=nodes)
    return replace(pod, spec=replace(pod.spec, affinity=changed))


def _distance(item: Requirement, node: Node) -> float:
    """Returns a share of ``DISTANCE_SHARE``: how far the node's number is from the bound."""
    if item.operator not in _STEPS:
        return 0.0
    number = parse_int64(node.metadata.labels.get(item.key, "")) or 0
    distance = abs((parse_int64(item.values[0]) or 0) - number) + 1
    return DISTANCE_SHARE * distance / (distance + 1)


# ---- the node ----


def _label(item: Requirement, node: Node) -> SuggestedChange | None:
    """Returns the label that a node needs; None = no label helps."""
    name, key = node.metadata.name, item.key
    value = _label_value(item)
    if value is None and item.operator not in (DOES_NOT_EXIST, NOT_IN):
        return None

    def update(node: Node) -> Node:
        labels = {k: v for k, v in node.metadata.labels.items() if k != key}
        if value is not None:
            labels[key] = value
        return replace(node, metadata=replace(node.metadata, labels=labels))

    text = (
        f"remove the label {key} from node {name}"
        if value is None
        else f"set the label {key}={value} on node {name}"
    )
    return SuggestedChange(text, EDIT_NODE, f"label {item}", updates={name: update})


def _label_value(item: Requirement) -> str | None:
    """Returns the first value that a requirement accepts; None = the label has to go."""
    if item.operator in (IN, EXISTS):
        return item.values[0] if item.values else ""
    if item.operator in _STEPS:
        return str(int(item.values[0]) + _STEPS[item.operator])
    return None
