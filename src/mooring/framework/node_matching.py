"""Evaluates node selectors and required node affinity on the columns of a view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.framework.node_view import NodeView
from mooring.objects.selectors import (
    IN,
    NODE_NAME_FIELD,
    NOT_IN,
    CompiledNodeSelector,
    NodeTerm,
    RequiredNodeAffinity,
    Requirement,
    Selector,
)
from mooring.state.columns.labels import MISSING, LabelColumn

Bools = npt.NDArray[np.bool_]


def matches_required(required: RequiredNodeAffinity, nodes: NodeView) -> Bools:
    """Returns the nodes that a nodeSelector and required affinity select, bool shape (m,)."""
    conditions = NodeTermEvaluator(nodes)
    fits = conditions.all_hold(required.labels)
    if required.affinity is not None:
        fits &= conditions.any_term(required.affinity)
    return fits


#: Answers to conditions that are kept for later terms, of a byte a node.
_CONDITIONS_KEPT: Final = 256


class NodeTermEvaluator:
    """Evaluates node selector terms on the m nodes of a view: bool arrays of shape (m,).

    A requirement that several terms share is evaluated once.
    """

    def __init__(self, nodes: NodeView) -> None:
        self._nodes = nodes
        self._known: dict[Requirement, Bools] = {}

    def any_term(self, selector: CompiledNodeSelector) -> Bools:
        """Where at least one term holds; without terms nowhere."""
        names: list[str] = []
        others: dict[NodeTerm, None] = {}
        for term in selector.terms:
            if _is_one_name(term):
                names.append(term.fields[0].values[0])
            else:
                others[term] = None
        found = self._are_named(names)
        for term in others:
            if found.all():
                break
            found |= self.term(term)
        return found

    def all_hold(self, selector: Selector) -> Bools:
        """Where a selector of labels holds."""
        if selector.selects_nothing:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        return self.term(NodeTerm(selector.requirements))

    def term(self, term: NodeTerm) -> Bools:
        """Where all conditions of one term hold; the caller's own array. A faulty one: nowhere."""
        if term.problem:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        found = np.ones(len(self._nodes), dtype=np.bool_)
        for condition in term.expressions:
            found &= self._label(condition)
            if not found.any():
                return found
        for condition in term.fields:
            found &= self._field(condition)
        return found

    def _label(self, condition: Requirement) -> Bools:
        known = self._known.get(condition)
        if known is None:
            known = _matches_label(condition, self._nodes)
            if len(self._known) < _CONDITIONS_KEPT:
                self._known[condition] = known
        return known

    def _field(self, condition: Requirement) -> Bools:
        """Returns one condition on a field; any but the node's name reads as ""."""
        if condition.key != NODE_NAME_FIELD:
            return np.full(len(self._nodes), condition.matches_value(""), dtype=np.bool_)
        named = self._are_named(condition.values)
        return named if condition.operator == IN else ~named

    def _are_named(self, names: Iterable[str]) -> Bools:
        table = self._nodes.snapshot.nodes
        rows = np.fromiter(map(table.live_row, names), dtype=np.intp)
        is_named = np.zeros(table.capacity, dtype=np.bool_)
        is_named[rows[rows >= 0]] = True
        return self._nodes.take(is_named).copy()


def _is_one_name(term: NodeTerm) -> bool:
    """Returns whether a term asks for nothing but a node's name."""
    if term.problem or term.expressions or len(term.fields) != 1:
        return False
    field = term.fields[0]
    return field.key == NODE_NAME_FIELD and field.operator == IN


def _matches_label(condition: Requirement, nodes: NodeView) -> Bools:
    """One condition, judged once per distinct value of the label and once for its absence."""
    codes, column = nodes.label(condition.key)
    if condition.operator in (IN, NOT_IN):
        among = _are_among(condition.values, codes, column)
        return among if condition.operator == IN else ~among
    values = column.values.values()
    if len(nodes) < len(values):  # a few changed nodes: not worth judging what only others have
        by_node = [values[code] if code != MISSING else None for code in codes.tolist()]
        return np.array([condition.matches_value(value) for value in by_node], dtype=np.bool_)
    judged = [value is not None and condition.matches_value(value) for value in values]
    judged.append(condition.matches_value(None))  # code -1, MISSING, is the last entry
    answers: Bools = np.array(judged, dtype=np.bool_).take(codes)
    return answers


def _are_among(values: tuple[str, ...], codes: npt.NDArray[np.int32], column: LabelColumn) -> Bools:
    """Which codes stand for one of these values."""
    known = [code for code in map(column.values.find, values) if code != MISSING]
    if len(known) <= 1:
        one: Bools = codes == known[0] if known else np.zeros(len(codes), dtype=np.bool_)
        return one
    is_among = np.zeros(len(column.values) + 1, dtype=np.bool_)  # the last: no such label
    is_among[known] = True
    return is_among.take(codes)
