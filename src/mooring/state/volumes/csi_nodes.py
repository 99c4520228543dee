"""What the CSI drivers of each node say: their limits, and what they have taken over."""

from __future__ import annotations

from typing import Final

from mooring.objects.csi_migration import MIGRATED_PLUGINS
from mooring.objects.storage import CSINode
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.node_columns import Ints, NodeColumns

#: In a column of limits: the driver is not limited on the node, or not there.
NO_LIMIT: Final = 2**62


class CSINodes:
    """The CSINodes by name, and as columns. The one owner is Storage.

    Source: nodevolumelimits/csi.go (getVolumeLimits), volumebinding/binder.go
    (isPluginMigratedToCSIOnNode).
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._known: dict[str, CSINode] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self._migrated: dict[str, frozenset[str]] = {}
        self._migrated_columns = NodeColumns(nodes, self._has_migrated)
        self._traits = NodeColumns(nodes, self._trait)
        self._all = [self._migrated_columns, self._traits]

    def get(self, name: str) -> CSINode | None:
        """Returns the CSINode of a node."""
        return self._known.get(name)

    def items(self) -> list[tuple[str, CSINode]]:
        """Returns all of them, by name."""
        return list(self._known.items())

    def limit(self, driver: str, node_name: str) -> int:
        """How many volumes of the driver the node can hold, or NO_LIMIT.

        A negative limit, which no API server lets through, is one of none.
        """
        return self._limits.get(node_name, {}).get(driver, NO_LIMIT)

    def has_limits(self) -> Ints:
        """1 where the node has a limit for any driver, by row."""
        return self._traits.column("limits")

    def are_there(self) -> Ints:
        """1 where the node has a CSINode, by row."""
        return self._traits.column("is there")

    def have_migrated(self, plugin: str) -> Ints:
        """1 where the node's driver has taken over the in-tree ``plugin``, by row."""
        return self._migrated_columns.column(plugin)

    def put(self, obj: CSINode) -> None:
        """A CSINode is new or changed."""
        name = obj.metadata.name
        self._known[name] = obj
        limits = {
            driver.name: max(0, driver.allocatable.count)
            for driver in obj.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        written = obj.metadata.annotations.get(MIGRATED_PLUGINS, "")
        self._forget(name)
        if limits:
            self._limits[name] = limits
        if written:
            self._migrated[name] = frozenset(written.split(","))
        self.renew_row(name)

    def remove(self, name: str) -> None:
        """A CSINode is gone. Unknown ones are fine."""
        self._known.pop(name, None)
        self._forget(name)
        self.renew_row(name)

    def renew_row(self, node_name: str) -> None:
        """A row has got the node of this name, or what is said of it has changed."""
        for columns in self._all:
            columns.update(node_name)

    def renew_also(self, columns: NodeColumns) -> None:
        """These columns of somebody else rest on limits: they are renewed along with ours."""
        self._all.append(columns)

    def _forget(self, name: str) -> None:
        self._limits.pop(name, None)
        self._migrated.pop(name, None)

    def has_migrated(self, plugin: str, node_name: str) -> bool:
        """Returns whether the node's driver has taken over the in-tree plugin."""
        return plugin in self._migrated.get(node_name, ())

    def _has_migrated(self, plugin: str, node_name: str) -> int:
        return int(self.has_migrated(plugin, node_name))

    def _trait(self, key: str, node_name: str) -> int:
        return int(node_name in (self._limits if key == "limits" else self._known))
