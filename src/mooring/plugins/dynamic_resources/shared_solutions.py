"""Solutions of the search for devices, shared by pods whose claims are alike.

Replicas have claims with equal specs. Their search on a node has the same result until a slice or a
device of the node's pools changes, so only the few nodes with changes are searched again.

A result is not shared if the node has devices with counters: what counters have left is computed
once per attempt, and depends on the other nodes of the attempt. Errors are not shared either, since
their texts name the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.dra import NodePools, PreparedClaim, Solution
from mooring.state import Change, NodeTable
from mooring.state.columns.caches import LRUCache
from mooring.state.devices.devices import Devices

#: Templates whose results are kept: a solution of each node takes about 1 KiB.
TEMPLATES_MAX: Final = 16

#: The entries of ``NodeSolutions.verdicts``.
UNKNOWN, FEASIBLE, NOT_ALLOCATABLE = range(3)

#: The changes of a node after which its row is another node, or its pools are others.
_OTHER_NODE: Final = int(Change.EXISTENCE | Change.LABELS)


class NodeSolutions:
    """The solutions for claims with equal specs, by node.

    Attributes:
        verdicts: int8 shape (capacity,): whether the claims can be allocated, if it is known.
    """

    def __init__(self) -> None:
        self.verdicts: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._solutions: dict[str, tuple[NodePools, int, Solution | None]] = {}
        self._generation = 0
        self._node_generation = 0
        self._table: NodeTable | None = None

    def refresh(self, nodes: NodeTable, devices: Devices) -> None:
        """Forgets the verdicts of nodes that changed. Once per attempt, before they are read."""
        names = devices.changes.since(self._generation)
        self._generation = devices.changes.generation
        changes = None
        if nodes is self._table:
            changes = nodes.log.since(self._node_generation)
        is_stale = changes is None or int(np.bitwise_or.reduce(changes[1])) & _OTHER_NODE
        self._table, self._node_generation = nodes, nodes.log.generation
        if is_stale or names is None or len(self.verdicts) != nodes.capacity:
            self.verdicts = np.zeros(nodes.capacity, dtype=np.int8)
            return
        rows = [nodes.live_row(name) for name in names]
        self.verdicts[[row for row in rows if row >= 0]] = UNKNOWN

    def get(self, name: str, pools: NodePools, version: int) -> tuple[Solution | None] | None:
        """Returns the solution of a node, in a tuple; None = it is not known, or not any more."""
        shared = self._solutions.get(name)
        if shared is None or shared[0] is not pools or shared[1] != version:
            return None
        return (shared[2],)

    def put(self, name: str, pools: NodePools, version: int, solution: Solution | None) -> None:
        """Keeps the solution of a node for the pools and the version of their devices."""
        self._solutions[name] = pools, version, solution

    def forget(self, name: str) -> None:
        """Drops the solution of a node."""
        self._solutions.pop(name, None)

    def has(self, name: str) -> bool:
        """Returns whether a result of this node is kept."""
        return name in self._solutions

    def latest(self, name: str) -> Solution | None:
        """Returns the solution of a node whose verdict is FEASIBLE."""
        shared = self._solutions.get(name)
        return shared[2] if shared is not None else None


class SharedSolutions:
    """Specs of claims -> the solutions by node."""

    def __init__(self) -> None:
        self._by_template: LRUCache[tuple[int, bytes], NodeSolutions] = LRUCache(TEMPLATES_MAX)
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, claims: Sequence[PreparedClaim], devices: Devices) -> NodeSolutions:
        """Returns the solutions for claims with these specs; the caller adds to them."""
        specs = self._encode([claim.claim.spec for claim in claims])
        template = devices.classes.version, specs
        solutions = self._by_template.recent(template)
        return (
            solutions if solutions is not None else self._by_template.put(template, NodeSolutions())
        )
