"""Explains NodeAffinity: the requirement that fails, and labels that are nearly as required."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.explain.reasons.case import Case, count_text, names_text, similar
from mooring.objects.node import Node
from mooring.objects.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NODE_NAME_FIELD,
    CompiledNodeSelector,
    NodeTerm,
    RequiredNodeAffinity,
    Requirement,
    parse_int64,
    required_node_affinity,
)

NAME: Final = "NodeAffinity"

#: Requirements with a note, and values listed of one label.
NOTES_MAX: Final = 8
VALUES_SHOWN: Final = 5


def causes(case: Case, node: Node) -> Iterator[str]:
    """Yields each requirement of the pod that a node does not meet."""
    required, labels = required_node_affinity(case.pod), node.metadata.labels
    added = added_affinity(case)
    if added is not None and not added.matches(labels, node.metadata.name):
        yield from _terms(added, node, "the profile's added affinity")
    for requirement in required.labels.requirements:
        if not requirement.matches(labels):
            yield f"nodeSelector {requirement}: {_has(requirement, node)}"
    affinity = required.affinity
    if affinity is not None and not affinity.matches(labels, node.metadata.name):
        yield from _terms(affinity, node, "node affinity")


def added_affinity(case: Case) -> CompiledNodeSelector | None:
    """Returns the node affinity that the profile adds to all pods; None = it adds none."""
    plugin = case.plugin(NAME)
    added: CompiledNodeSelector | None = plugin.added_required if plugin is not None else None
    return added


def _terms(selector: CompiledNodeSelector, node: Node, title: str) -> Iterator[str]:
    """Yields why no term selects the node; of several terms, a line for each."""
    if not selector.terms:
        yield f"{title} has no term, so it selects no node"
    for number, term in enumerate(selector.terms, 1):
        of_several = f", term {number}" if len(selector.terms) > 1 else ""
        yield f"{title}{of_several}: {'; '.join(_failures(term, node))}"


def _failures(term: NodeTerm, node: Node) -> Iterator[str]:
    if term.problem:
        yield f"invalid, so it selects no node: {term.problem}"
        return
    for requirement in term.expressions:
        if not requirement.matches(node.metadata.labels):
            yield f"{requirement}: {_has(requirement, node)}"
    for field in term.fields:
        value = node.metadata.name if field.key == NODE_NAME_FIELD else ""
        if not field.matches_value(value):
            yield f"{field} is another node"


def _has(requirement: Requirement, node: Node) -> str:
    """Returns what a node has instead of the required label."""
    value = node.metadata.labels.get(requirement.key)
    if value is None:
        return "the label is missing"
    if requirement.operator == DOES_NOT_EXIST:
        return f"the node has {requirement.key}={value}"
    return f"the value is {value!r}" if value else "the value is empty"


def notes(case: Case, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the nodes that have a required label, or a similar one."""
    del nodes
    for requirement in list(_requirements(required_node_affinity(case.pod)))[:NOTES_MAX]:
        matching = [
            node.metadata.name for node in case.nodes if requirement.matches(node.metadata.labels)
        ]
        if matching:
            yield f"{requirement}: {count_text(len(matching), 'node')}: {names_text(matching)}"
        else:
            yield f"{requirement}: no node{_near_miss(case, requirement)}"
    for field in _fields(required_node_affinity(case.pod)):
        if field.operator == IN and case.node(field.values[0]) is None:
            near = similar(field.values[0], (node.metadata.name for node in case.nodes))
            hint = f"; did you mean {near}?" if near else ""
            yield f"{field}: there is no such node{hint}"


def _requirements(required: RequiredNodeAffinity) -> Iterator[Requirement]:
    terms = required.affinity.terms if required.affinity is not None else ()
    every = (*required.labels.requirements, *(item for term in terms for item in term.expressions))
    yield from dict.fromkeys(every)


def _fields(required: RequiredNodeAffinity) -> Iterator[Requirement]:
    terms = required.affinity.terms if required.affinity is not None else ()
    yield from dict.fromkeys(item for term in terms for item in term.fields)


def _near_miss(case: Case, requirement: Requirement) -> str:
    """Returns the similar key or value, and the nodes that have it."""
    key, holders = requirement.key, dict[str, list[str]]()
    for node in case.nodes:
        value = node.metadata.labels.get(key)
        if value is not None:
            holders.setdefault(value, []).append(node.metadata.name)
    if not holders:
        return f" has the label {key}{_similar_key(case, requirement)}"
    if requirement.operator in (GREATER, LESS):
        return _nearest_number(requirement, holders)
    if requirement.operator != IN:
        return ""
    for value in requirement.values:
        near = similar(value, holders)
        if near is not None:
            return f"; did you mean {key}={near} ({names_text(holders[near])})?"
    values = sorted(holders)
    more = ", ..." if len(values) > VALUES_SHOWN else ""
    return f"; values of {key}: {', '.join(values[:VALUES_SHOWN])}{more}"


def _nearest_number(requirement: Requirement, holders: dict[str, list[str]]) -> str:
    """Returns the value nearest to a bound, and the nodes that have it."""
    numbers = {number: value for value in holders if (number := parse_int64(value)) is not None}
    if not numbers:
        value = min(holders)
        return f"; no value is an integer: {requirement.key}={value} ({names_text(holders[value])})"
    is_greater = requirement.operator == GREATER
    value = numbers[max(numbers) if is_greater else min(numbers)]
    which = "largest" if is_greater else "smallest"
    return f"; the {which} value of {requirement.key} is {value} ({names_text(holders[value])})"


def _similar_key(case: Case, requirement: Requirement) -> str:
    keys = {key for node in case.nodes for key in node.metadata.labels}
    near = similar(requirement.key, keys)
    if near is None:
        return ""
    required_value = requirement.values[0] if requirement.operator == IN else None
    holders = [
        node.metadata.name
        for node in case.nodes
        if near in node.metadata.labels and required_value in (None, node.metadata.labels[near])
    ]
    if requirement.operator in (IN, EXISTS) and holders:
        text = near if required_value is None else f"{near}={required_value}"
        return f"; did you mean {text} ({names_text(holders)})?"
    return f"; did you mean {near}?"


def conflict(case: Case) -> Iterator[str]:
    """Yields the node names that no node can have at once."""
    for field in _fields(required_node_affinity(case.pod)):
        yield f"node affinity requires {field}"
    yield from notes(case, ())
