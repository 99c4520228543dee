"""Results of plugins that nodes with equal amounts share.

Most nodes of a cluster come from a few templates, and most pods from a few more: so a node on which
a pod was placed is often equal to one that was evaluated before, in all that a plugin such as
NodeResourcesFit reads of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from mooring.framework.node_info import NodeInfo
from mooring.state.snapshot import Snapshot
from mooring.state.tables.nodes import NodeTable

#: Amounts whose results are stored for one signature and plugin.
AMOUNTS_MAX: Final = 2048
#: Lookups after which equal nodes must have been frequent, or there are no further ones.
TRIES: Final = 512

_UNKNOWN: Final = object()


class ChangedNodes:
    """The few nodes that have changed since the last attempt, as plugins get them one by one.

    Attributes:
        rows: Of the node table.
        version: Amounts of different versions cannot be compared.

    Args:
        snapshot: The state of the cluster.
        rows: Of the node table; all have a node.
    """

    __slots__ = ("_amounts", "_infos", "_snapshot", "rows", "version")

    def __init__(self, snapshot: Snapshot, rows: list[int]) -> None:
        self.rows = rows
        self.version = snapshot.nodes.resources.version
        self._snapshot = snapshot
        self._infos: list[NodeInfo] | None = None
        self._amounts: list[Hashable] | None = None

    def infos(self) -> list[NodeInfo]:
        """Returns the nodes."""
        if self._infos is None:
            self._infos = [NodeInfo(self._snapshot, row) for row in self.rows]
        return self._infos

    def amounts(self) -> list[Hashable]:
        """Returns, for each node, all its amounts as one value."""
        if self._amounts is None:
            self._amounts = [amounts_of(self._snapshot.nodes, row) for row in self.rows]
        return self._amounts


def amounts_of(nodes: NodeTable, row: int) -> Hashable:
    """Returns all amounts of a node as one value: equal for nodes with equal amounts.

    They are ``allocatable``, ``requested``, ``nonzero_requested``, ``pod_count`` and
    ``allowed_pods``. Values can be compared as long as ``nodes.resources.version`` is the same.
    """
    nonzero = nodes.nonzero_requested
    return (
        nodes.allocatable[:, row].tobytes(),
        nodes.requested[:, row].tobytes(),
        nonzero.item(0, row),
        nonzero.item(1, row),
        nodes.pod_count.item(row),
        nodes.allowed_pods.item(row),
    )


class EqualNodes:
    """The results of plugins with ``amounts_only`` for pods of one signature, by amounts.

    *Limit:* ``AMOUNTS_MAX`` for each plugin. If most nodes differ, it is given up.
    """

    __slots__ = ("_hits", "_lookups", "_results", "_version")

    def __init__(self) -> None:
        self._results: dict[int, dict[Hashable, Any]] = {}
        self._version = -1
        self._lookups = self._hits = 0

    def results(
        self,
        plugin: int,
        nodes: ChangedNodes,
        call: Callable[[int, list[NodeInfo]], list[Any]],
    ) -> list[Any]:
        """Returns the result of a plugin for each node; calls it if one of them is new.

        Args:
            plugin: Its number.
            nodes: The nodes.
            call: Calls the plugin with this number for some nodes.
        """
        if self._lookups >= TRIES and self._hits * 2 < self._lookups:
            return call(plugin, nodes.infos())
        if nodes.version != self._version:
            self._version = nodes.version
            self._results.clear()
        stored = self._results.get(plugin)
        if stored is None:
            stored = self._results[plugin] = {}
        amounts = nodes.amounts()
        results = [stored.get(of_node, _UNKNOWN) for of_node in amounts]
        self._lookups += 1
        if _UNKNOWN not in results:
            self._hits += 1
            return results
        results = call(plugin, nodes.infos())
        if len(stored) + len(results) > AMOUNTS_MAX:
            stored.clear()
        stored.update(zip(amounts, results, strict=True))
        return results
