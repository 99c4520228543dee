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
from mooring.state.types import Bools


def matches_required(required: RequiredNodeAffinity, nodes: NodeView) -> Bools:
    """Returns the nodes that a nodeSelector and required affinity select, bool shape (m,)."""
    evaluator = NodeTermEvaluator(nodes)
    fits = evaluator.label_selector(required.labels)
    if required.affinity is not None:
        fits &= evaluator.any_term(required.affinity)
    return fits


#: Maximum number of cached requirement results, each of one byte per node.
_CACHED_REQUIREMENTS_MAX: Final = 256


class NodeTermEvaluator:
    """Evaluates node selector terms on the m nodes of a view: bool arrays of shape (m,).

    A requirement that several terms share is evaluated once.
    """

    def __init__(self, nodes: NodeView) -> None:
        self._nodes = nodes
        self._cache: dict[Requirement, Bools] = {}

    def any_term(self, selector: CompiledNodeSelector) -> Bools:
        """Returns the nodes where at least one term matches; without terms none."""
        names: list[str] = []
        others: dict[NodeTerm, None] = {}
        for term in selector.terms:
            if _is_single_node_name(term):
                names.append(term.fields[0].values[0])
            else:
                others[term] = None
        matches = self._has_name(names)
        for term in others:
            if matches.all():
                break
            matches |= self.term(term)
        return matches

    def label_selector(self, selector: Selector) -> Bools:
        """Returns the nodes where a selector of labels matches."""
        if selector.selects_nothing:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        return self.term(NodeTerm(selector.requirements))

    def term(self, term: NodeTerm) -> Bools:
        """Returns the nodes that match one term, as a new array; an invalid term matches none."""
        if term.problem:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        matches = np.ones(len(self._nodes), dtype=np.bool_)
        for requirement in term.expressions:
            matches &= self._label(requirement)
            if not matches.any():
                return matches
        for requirement in term.fields:
            matches &= self._field(requirement)
        return matches

    def _label(self, requirement: Requirement) -> Bools:
        matches = self._cache.get(requirement)
        if matches is None:
            matches = _matches_label(requirement, self._nodes)
            if len(self._cache) < _CACHED_REQUIREMENTS_MAX:
                self._cache[requirement] = matches
        return matches

    def _field(self, requirement: Requirement) -> Bools:
        """Evaluates a requirement on a field; any field but the node's name has the value ""."""
        if requirement.key != NODE_NAME_FIELD:
            return np.full(len(self._nodes), requirement.matches_value(""), dtype=np.bool_)
        has_name = self._has_name(requirement.values)
        return has_name if requirement.operator == IN else ~has_name

    def _has_name(self, names: Iterable[str]) -> Bools:
        table = self._nodes.snapshot.nodes
        rows = np.fromiter(map(table.live_row, names), dtype=np.intp)
        is_named = np.zeros(table.capacity, dtype=np.bool_)
        is_named[rows[rows >= 0]] = True
        return self._nodes.take(is_named).copy()


def _is_single_node_name(term: NodeTerm) -> bool:
    """Returns True if a term requires one node name and nothing else."""
    if term.problem or term.expressions or len(term.fields) != 1:
        return False
    field = term.fields[0]
    return field.key == NODE_NAME_FIELD and field.operator == IN


def _matches_label(requirement: Requirement, nodes: NodeView) -> Bools:
    """Evaluates a requirement once per distinct value of the label and once for its absence."""
    codes, column = nodes.label(requirement.key)
    if requirement.operator in (IN, NOT_IN):
        is_in = _has_value(requirement.values, codes, column)
        return is_in if requirement.operator == IN else ~is_in
    values = column.values.values()
    if len(nodes) < len(values):  # few nodes: cheaper by node than by distinct value
        by_node = [values[code] if code != MISSING else None for code in codes.tolist()]
        return np.array([requirement.matches_value(value) for value in by_node], dtype=np.bool_)
    by_code = [value is not None and requirement.matches_value(value) for value in values]
    by_code.append(requirement.matches_value(None))  # code -1, MISSING, is the last entry
    matches: Bools = np.array(by_code, dtype=np.bool_).take(codes)
    return matches


def _has_value(values: tuple[str, ...], codes: npt.NDArray[np.int32], column: LabelColumn) -> Bools:
    """Returns the positions whose code stands for one of these values."""
    value_codes = [code for code in map(column.values.find, values) if code != MISSING]
    if not value_codes:
        return np.zeros(len(codes), dtype=np.bool_)
    if len(value_codes) == 1:
        equal: Bools = codes == value_codes[0]
        return equal
    is_in = np.zeros(len(column.values) + 1, dtype=np.bool_)  # the last: no such label
    is_in[value_codes] = True
    return is_in.take(codes)
