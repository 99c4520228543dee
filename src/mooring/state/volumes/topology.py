"""From which nodes a volume can be reached, as a mask over the rows of the node table.

A volume's node affinity, a class's allowed topologies and the topology of a storage capacity all
say the same kind of thing: labels that a node must have. They become one form, a
``NodeTopology``: terms of which one must hold. Most of them ask for one label only, the zone or the
host; then what is known per value of that label is looked up for all rows at once, without a mask.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.objects.meta import LabelSelector, NodeSelector
from mooring.objects.selectors import (
    IN,
    Requirement,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
    requirement,
)
from mooring.objects.storage import TopologySelectorTerm
from mooring.state.columns.change_log import Change
from mooring.state.columns.labels import MISSING
from mooring.state.tables.nodes import NodeTable

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: Masks kept at most, of a byte a row: at 5 000 nodes 20 MB.
MASKS_MAX: Final = 4_096

#: Affinities whose reach is remembered: those of volumes that pods ask for again and again.
_AFFINITIES_MAX: Final = 16_384

#: What masks follow from.
_READS: Final = int(Change.LABELS | Change.EXISTENCE)


class NodeTopology(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The nodes whose labels meet all requirements of one of the terms; no term = no node."""

    terms: tuple[tuple[Requirement, ...], ...]

    @property
    def is_everywhere(self) -> bool:
        """Whether any node will do."""
        return any(not term for term in self.terms)

    def matches(self, labels: dict[str, str]) -> bool:
        """Returns whether a node with these labels is among them."""
        return any(all(each.matches(labels) for each in term) for term in self.terms)


ALL_NODES: Final = NodeTopology(((),))
NO_NODES: Final = NodeTopology(())


class OneLabel(NamedTuple):
    """A reach that is nothing but some values of one label."""

    key: str
    values: tuple[str, ...]


@lru_cache(maxsize=_AFFINITIES_MAX)
def reach_of_affinity(required: NodeSelector | None) -> NodeTopology:
    """Returns a volume's node affinity.

    A term that cannot be compiled selects no node. What a term says of the node's *name* counts
    for nothing: kube-scheduler compares with a node that has labels only.

    Source: component-helpers v0.36.3, storage/volume/helpers.go (CheckNodeAffinity),
    scheduling/corev1/nodeaffinity.
    """
    if required is None:
        return ALL_NODES
    compiled = compile_node_selector(required)
    return NodeTopology(tuple(term.expressions for term in compiled.terms if not term.problem))


def reach_of_topologies(terms: tuple[TopologySelectorTerm, ...]) -> NodeTopology:
    """A class's ``allowedTopologies``: none = every node; an empty or faulty term selects none.

    Source: pkg/apis/core/v1/helper/helpers.go (MatchTopologySelectorTerms).
    """
    if not terms:
        return ALL_NODES
    found = []
    for term in terms:
        try:
            wanted = [requirement(e.key, IN, e.values) for e in term.match_label_expressions]
        except SelectorError:
            continue
        if wanted:
            found.append(tuple(wanted))
    return NodeTopology(tuple(found))


def reach_of_selector(selector: LabelSelector | None) -> NodeTopology:
    """Returns the node topology of a storage capacity: None or a faulty one = no node."""
    try:
        compiled = compile_label_selector(selector)
    except SelectorError:
        return NO_NODES
    return NO_NODES if compiled.selects_nothing else NodeTopology((compiled.requirements,))


def one_label(reach: NodeTopology) -> OneLabel | None:
    """Returns the label and its values, if the reach asks for nothing else."""
    values: dict[str, None] = {}
    keys = set()
    for term in reach.terms:
        if len(term) != 1 or term[0].operator != IN:
            return None
        keys.add(term[0].key)
        values.update(dict.fromkeys(term[0].values))
    return OneLabel(keys.pop(), tuple(values)) if len(keys) == 1 else None


class TopologyMasks:
    """The masks that were asked for lately, as long as nodes and their labels stay as they are."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._masks: OrderedDict[NodeTopology, Bools] = OrderedDict()
        self._capacity = 0
        self._generation = -1
        self._version = 0

    def __len__(self) -> int:
        """How many masks are kept."""
        return len(self._masks)

    @property
    def version(self) -> int:
        """Rises when nodes come, go or change their labels: what else is kept of rows is old."""
        self._invalidate_if_stale()
        return self._version

    def mask(self, reach: NodeTopology) -> Bools:
        """Which rows are reached, bool shape (capacity,); of rows with a node. Read only."""
        self._invalidate_if_stale()
        found = self._masks.get(reach)
        if found is None:
            found = self._masks[reach] = _mask(self._nodes, reach)
            found.flags.writeable = False
            if len(self._masks) > MASKS_MAX:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(reach)
        return found

    def reachable_rows(self, reach: NodeTopology, rows: Rows) -> Bools:
        """Which of ``rows`` are reached, bool shape (len(rows),); the caller's own array.

        By one label that is a look at one column: nothing is kept, so thousands of local disks
        cost no memory.
        """
        if reach.is_everywhere:
            return np.ones(len(rows), dtype=np.bool_)
        if len(reach.terms) == 1 and len(reach.terms[0]) == 1:
            condition = reach.terms[0][0]
            if condition.operator == IN and len(condition.values) == 1:
                column = self._nodes.label(condition.key)
                code = column.values.find(condition.values[0])
                is_there: Bools = (column.codes[rows] == code) & (code != MISSING)
                return is_there
        return self.mask(reach)[rows]

    def _invalidate_if_stale(self) -> None:
        """Forgets everything if nodes came, went, or changed their labels."""
        nodes, generation = self._nodes, self._nodes.log.generation
        if generation == self._generation and nodes.capacity == self._capacity:
            return
        is_known = self._generation >= 0 and nodes.capacity == self._capacity
        changes = nodes.log.since(self._generation) if is_known else None
        if changes is None or int(np.bitwise_or.reduce(changes[1])) & _READS:
            self._masks.clear()
            self._version += 1
        self._capacity, self._generation = nodes.capacity, generation


def _mask(nodes: NodeTable, reach: NodeTopology) -> Bools:
    found = np.zeros(nodes.capacity, dtype=np.bool_)
    for term in reach.terms:
        of_term = np.ones(nodes.capacity, dtype=np.bool_)
        for condition in term:
            of_term &= _matches(nodes, condition)
        found |= of_term
    return found


def _matches(nodes: NodeTable, condition: Requirement) -> Bools:
    """One condition, judged once per distinct value of the label and once for its absence."""
    column = nodes.label(condition.key)
    if condition.operator == IN:
        codes = [column.values.find(value) for value in condition.values]
        known = [code for code in codes if code != MISSING]
        is_in: Bools = column.codes == known[0] if len(known) == 1 else np.isin(column.codes, known)
        return is_in
    judged = [
        value is not None and condition.matches_value(value) for value in column.values.values()
    ]
    judged.append(condition.matches_value(None))  # code -1, MISSING, is the last entry
    answers: Bools = np.array(judged, dtype=np.bool_)[column.codes]
    return answers
