"""Attached and in-use volumes per node, per driver.

A volume is identified by "driver/handle". It counts once per node, regardless of how many pods use
it and whether it is attached.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
"""

from __future__ import annotations

from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Ints
from mooring.state.volumes.csi_nodes import CSINodes
from mooring.state.volumes.node_columns import NodeColumns


class _Users:
    """The number of users of one volume on one node."""

    __slots__ = ("attachments", "driver", "pods")

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.pods = 0
        self.attachments = 0


class AttachedVolumes:
    """Volume -> node -> users, and the volumes that each node has, and can still have, per driver.

    Complexity: O(1) for each change.
    """

    def __init__(self, nodes: NodeTable, csi_nodes: CSINodes) -> None:
        """Takes ``csi_nodes``, the volume limits of the nodes."""
        self._users: dict[str, dict[str, _Users]] = {}
        #: Node name -> driver -> volumes.
        self._counts: dict[str, dict[str, int]] = {}
        self._limit = csi_nodes.limit
        self._remaining = NodeColumns(nodes, self.remaining)
        csi_nodes.update_also(self._remaining)

    def __len__(self) -> int:
        """Returns the number of volumes in use."""
        return len(self._users)

    # -- queries ----------------------------------------------------------------------------------

    def count(self, driver: str, node_name: str) -> int:
        """Returns the number of volumes of the driver on the node."""
        return self._counts.get(node_name, {}).get(driver, 0)

    def remaining(self, driver: str, node_name: str) -> int:
        """Returns how many more volumes the node can have; negative if it is over its limit."""
        return self._limit(driver, node_name) - self.count(driver, node_name)

    def remaining_by_row(self, driver: str) -> Ints:
        """Returns ``remaining`` by row, shape (capacity,)."""
        return self._remaining.column(driver)

    def columns(self) -> list[tuple[str, Ints]]:
        """Returns the columns of remaining volumes, for the audit."""
        return self._remaining.items()

    def nodes_of(self, volume: str) -> list[str]:
        """Returns the nodes where pods use the volume."""
        return [name for name, users in self._users.get(volume, {}).items() if users.pods]

    def pods_on(self, volume: str, node_name: str) -> int:
        """Returns the number of pods of the node that use the volume."""
        users = self._users.get(volume, {}).get(node_name)
        return 0 if users is None else users.pods

    def is_attached(self, volume: str, node_name: str) -> bool:
        """Returns whether the volume is attached to the node."""
        users = self._users.get(volume, {}).get(node_name)
        return users is not None and users.attachments > 0

    def driver_of(self, volume: str, node_name: str) -> str:
        """Returns the driver of a volume that is in use on the node."""
        return self._users[volume][node_name].driver

    def items(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Returns (volume, node) -> (pods, attachments), for the audit."""
        return {
            (volume, name): (users.pods, users.attachments)
            for volume, of_node in self._users.items()
            for name, users in of_node.items()
        }

    # -- changes ----------------------------------------------------------------------------------

    def use(self, node_name: str, volumes: dict[str, str], sign: int) -> None:
        """Adds (+1) or removes (-1) a pod of the node as user of volumes (volume -> driver)."""
        for volume, driver in volumes.items():
            users = self._users_on(node_name, volume, driver)
            users.pods += sign
            self._remove_if_unused(node_name, volume, users)

    def attach(self, node_name: str, volume: str, driver: str, sign: int) -> None:
        """Adds (+1) or removes (-1) an attachment of the volume to the node."""
        users = self._users_on(node_name, volume, driver)
        users.attachments += sign
        self._remove_if_unused(node_name, volume, users)

    # -- internal ---------------------------------------------------------------------------------

    def _users_on(self, node_name: str, volume: str, driver: str) -> _Users:
        of_volume = self._users.setdefault(volume, {})
        users = of_volume.get(node_name)
        if users is None:
            users = of_volume[node_name] = _Users(driver)
            self._add(node_name, driver, 1)
        return users

    def _remove_if_unused(self, node_name: str, volume: str, users: _Users) -> None:
        if users.pods or users.attachments:
            return
        of_volume = self._users[volume]
        del of_volume[node_name]
        if not of_volume:
            del self._users[volume]
        self._add(node_name, users.driver, -1)

    def _add(self, node_name: str, driver: str, amount: int) -> None:
        counts = self._counts.setdefault(node_name, {})
        counts[driver] = counts.get(driver, 0) + amount
        if not counts[driver]:
            del counts[driver]
            if not counts:
                del self._counts[node_name]
        self._remaining.update(node_name, driver)
