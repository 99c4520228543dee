"""CSINodes: the volume limits of the CSI drivers of each node, and the migrated plugins."""

from __future__ import annotations

from typing import Final

from mooring.objects.csi_migration import MIGRATED_PLUGINS
from mooring.objects.storage import CSINode
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Ints
from mooring.state.volumes.node_columns import NodeColumns

#: In a column of limits: the node has no limit for the driver, or does not have the driver.
NO_LIMIT: Final = 2**62


class CSINodes:
    """The CSINodes by name, and as columns. Owned by Storage.

    Source: nodevolumelimits/csi.go (getVolumeLimits), volumebinding/binder.go
    (isPluginMigratedToCSIOnNode).
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._known: dict[str, CSINode] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self._migrated: dict[str, frozenset[str]] = {}
        self._migrated_columns = NodeColumns(nodes, self._has_migrated)
        self._traits = NodeColumns(nodes, self._trait)
        self._drivers = NodeColumns(nodes, self._has_driver)
        self._all = [self._migrated_columns, self._traits, self._drivers]

    def get(self, name: str) -> CSINode | None:
        """Returns the CSINode of a node."""
        return self._known.get(name)

    def items(self) -> list[tuple[str, CSINode]]:
        """Returns all of them, by name."""
        return list(self._known.items())

    def limit(self, driver: str, node_name: str) -> int:
        """Returns the node's volume limit of the driver, or NO_LIMIT.

        A negative limit, which an API server rejects, counts as 0.
        """
        return self._limits.get(node_name, {}).get(driver, NO_LIMIT)

    def has_limits(self) -> Ints:
        """Returns 1 for rows whose node has a limit for any driver, else 0."""
        return self._traits.column("limits")

    def has_csi_node_by_row(self) -> Ints:
        """Returns 1 for rows whose node has a CSINode, else 0."""
        return self._traits.column("is there")

    def have_driver(self, driver: str) -> Ints:
        """Returns 1 for rows whose node has this CSI driver, else 0."""
        return self._drivers.column(driver)

    def have_migrated(self, plugin: str) -> Ints:
        """Returns 1 for rows whose node has migrated the in-tree ``plugin``, else 0."""
        return self._migrated_columns.column(plugin)

    def put(self, obj: CSINode) -> None:
        """Adds or updates a CSINode."""
        name = obj.metadata.name
        self._known[name] = obj
        limits = {
            driver.name: max(0, driver.allocatable.count)
            for driver in obj.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        migrated_plugins = obj.metadata.annotations.get(MIGRATED_PLUGINS, "")
        self._remove_derived(name)
        if limits:
            self._limits[name] = limits
        if migrated_plugins:
            self._migrated[name] = frozenset(migrated_plugins.split(","))
        self.update_row(name)

    def remove(self, name: str) -> None:
        """Removes a CSINode. Unknown names are ignored."""
        self._known.pop(name, None)
        self._remove_derived(name)
        self.update_row(name)

    def update_row(self, node_name: str) -> None:
        """Updates the columns after a row got this node, or its CSINode changed."""
        for columns in self._all:
            columns.update(node_name)

    def update_also(self, columns: NodeColumns) -> None:
        """Registers columns of another owner that depend on limits, to be updated as well."""
        self._all.append(columns)

    def _remove_derived(self, name: str) -> None:
        self._limits.pop(name, None)
        self._migrated.pop(name, None)

    def has_migrated(self, plugin: str, node_name: str) -> bool:
        """Returns whether the node has migrated the in-tree plugin to CSI."""
        return plugin in self._migrated.get(node_name, ())

    def _has_migrated(self, plugin: str, node_name: str) -> int:
        return int(self.has_migrated(plugin, node_name))

    def _has_driver(self, name: str, node_name: str) -> int:
        csi_node = self._known.get(node_name)
        return int(csi_node is not None and any(d.name == name for d in csi_node.spec.drivers))

    def _trait(self, key: str, node_name: str) -> int:
        return int(node_name in (self._limits if key == "limits" else self._known))
