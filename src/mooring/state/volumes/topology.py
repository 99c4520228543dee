"""Node masks for volume topology.

A volume's node affinity, a class's allowed topologies and the topology of a storage capacity all
list labels that a node must have. They are converted to one form, ``NodeTopology``: terms of which
one must match. Most of them require one label only, the zone or the host name; then data per label
value is looked up for all rows at once, without a mask.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

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
from mooring.state.columns.caches import NodeCache
from mooring.state.columns.change_log import Change
from mooring.state.columns.labels import MISSING
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Bools, Rows

#: Maximum number of cached masks, of one byte per row: 20 MB at 5 000 nodes.
MASKS_MAX: Final = 4_096

#: Maximum number of cached conversions of a volume's node affinity.
_AFFINITIES_MAX: Final = 16_384


class NodeTopology(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Selects nodes whose labels meet all requirements of one term; no term = no node."""

    terms: tuple[tuple[Requirement, ...], ...]

    @property
    def is_everywhere(self) -> bool:
        """True if every node matches."""
        return any(not term for term in self.terms)

    def matches(self, labels: dict[str, str]) -> bool:
        """Returns whether a node with these labels matches."""
        return any(all(condition.matches(labels) for condition in term) for term in self.terms)


ALL_NODES: Final = NodeTopology(((),))
NO_NODES: Final = NodeTopology(())


class OneLabel(NamedTuple):
    """A topology that requires one of some values of one label."""

    key: str
    values: tuple[str, ...]


@lru_cache(maxsize=_AFFINITIES_MAX)
def topology_of_affinity(required: NodeSelector | None) -> NodeTopology:
    """Returns the topology of a volume's node affinity.

    A term that cannot be compiled selects no node. ``matchFields`` are ignored: kube-scheduler
    evaluates the term on a node that has labels only.

    Source: component-helpers v0.36.3, storage/volume/helpers.go (CheckNodeAffinity),
    scheduling/corev1/nodeaffinity.
    """
    if required is None:
        return ALL_NODES
    compiled = compile_node_selector(required)
    return NodeTopology(tuple(term.expressions for term in compiled.terms if not term.problem))


def topology_of_class(terms: tuple[TopologySelectorTerm, ...]) -> NodeTopology:
    """Returns a class's ``allowedTopologies``: none = every node; an invalid term selects none.

    Source: pkg/apis/core/v1/helper/helpers.go (MatchTopologySelectorTerms).
    """
    if not terms:
        return ALL_NODES
    compiled = []
    for term in terms:
        try:
            conditions = [requirement(e.key, IN, e.values) for e in term.match_label_expressions]
        except SelectorError:
            continue
        if conditions:
            compiled.append(tuple(conditions))
    return NodeTopology(tuple(compiled))


def topology_of_selector(selector: LabelSelector | None) -> NodeTopology:
    """Returns the node topology of a storage capacity: None or an invalid one = no node."""
    try:
        compiled = compile_label_selector(selector)
    except SelectorError:
        return NO_NODES
    return NO_NODES if compiled.selects_nothing else NodeTopology((compiled.requirements,))


def one_label(reach: NodeTopology) -> OneLabel | None:
    """Returns the label and its values, if the topology requires nothing else."""
    values: dict[str, None] = {}
    keys = set()
    for term in reach.terms:
        if len(term) != 1 or term[0].operator != IN:
            return None
        keys.add(term[0].key)
        values.update(dict.fromkeys(term[0].values))
    return OneLabel(keys.pop(), tuple(values)) if len(keys) == 1 else None


class TopologyMasks:
    """Cached masks of topologies, invalidated when nodes or their labels change."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._masks: NodeCache[NodeTopology, Bools] = NodeCache(
            MASKS_MAX, Change.LABELS | Change.EXISTENCE
        )

    def __len__(self) -> int:
        """Returns the number of cached masks."""
        return len(self._masks)

    @property
    def version(self) -> int:
        """A number that rises when nodes or their labels change: other caches by row are stale."""
        self._masks.invalidate_if_stale(self._nodes.log, self._nodes.size)
        return self._masks.version

    def mask(self, reach: NodeTopology) -> Bools:
        """Returns a mask of the matching rows with a node, bool shape (capacity,); read-only."""
        self._masks.invalidate_if_stale(self._nodes.log, self._nodes.size)
        mask = self._masks.recent(reach)
        if mask is None:
            mask = self._masks.put(reach, _mask(self._nodes, reach))
            mask.flags.writeable = False
        return mask

    def reachable_rows(self, reach: NodeTopology, rows: Rows) -> Bools:
        """Returns which of ``rows`` match, bool shape (len(rows),), as a new array.

        With one value of one label this reads one column and caches nothing, so thousands of local
        disks cost no memory.
        """
        if reach.is_everywhere:
            return np.ones(len(rows), dtype=np.bool_)
        if len(reach.terms) == 1 and len(reach.terms[0]) == 1:
            condition = reach.terms[0][0]
            if condition.operator == IN and len(condition.values) == 1:
                column = self._nodes.label(condition.key)
                code = column.values.find(condition.values[0])
                matches: Bools = (column.codes[rows] == code) & (code != MISSING)
                return matches
        return self.mask(reach)[rows]


def _mask(nodes: NodeTable, reach: NodeTopology) -> Bools:
    mask = np.zeros(nodes.capacity, dtype=np.bool_)
    for term in reach.terms:
        of_term = np.ones(nodes.capacity, dtype=np.bool_)
        for condition in term:
            of_term &= _matches(nodes, condition)
        mask |= of_term
    return mask


def _matches(nodes: NodeTable, condition: Requirement) -> Bools:
    """Returns the rows that meet one condition, evaluated once per distinct label value."""
    column = nodes.label(condition.key)
    if condition.operator == IN:
        codes = [column.values.find(value) for value in condition.values]
        present = [code for code in codes if code != MISSING]
        is_in: Bools = (
            column.codes == present[0] if len(present) == 1 else np.isin(column.codes, present)
        )
        return is_in
    results = [
        value is not None and condition.matches_value(value) for value in column.values.values()
    ]
    results.append(condition.matches_value(None))  # code -1, MISSING, is the last entry
    mask: Bools = np.array(results, dtype=np.bool_)[column.codes]
    return mask
