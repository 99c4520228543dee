"""Which volumes each node has in use: by its pods, and attached to it whoever wants them.

A volume is called "driver/handle". One that several pods of a node use counts once there, and one
that is attached for them does not count again.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
"""

from __future__ import annotations

from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.csi_nodes import CSINodes
from mooring.state.volumes.node_columns import Ints, NodeColumns


class _Users:
    """Who uses one volume on one node."""

    __slots__ = ("attachments", "driver", "pods")

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.pods = 0
        self.attachments = 0


class AttachedVolumes:
    """Volume -> node -> its users, and how many volumes of a driver each node has, or could have.

    Complexity: O(1) for each change.
    """

    def __init__(self, nodes: NodeTable, csi_nodes: CSINodes) -> None:
        """``csi_nodes`` tell how many volumes of a driver a node can hold."""
        self._users: dict[str, dict[str, _Users]] = {}
        #: Node name -> driver -> volumes.
        self._counts: dict[str, dict[str, int]] = {}
        self._limit = csi_nodes.limit
        self._left = NodeColumns(nodes, self.left)
        csi_nodes.renew_also(self._left)

    def __len__(self) -> int:
        """How many volumes are in use."""
        return len(self._users)

    # -- questions --------------------------------------------------------------------------------

    def count(self, driver: str, node_name: str) -> int:
        """How many volumes of the driver the node has."""
        return self._counts.get(node_name, {}).get(driver, 0)

    def left(self, driver: str, node_name: str) -> int:
        """How many more the node can hold; below zero if it has too many."""
        return self._limit(driver, node_name) - self.count(driver, node_name)

    def left_by_row(self, driver: str) -> Ints:
        """``left`` by row, shape (capacity,)."""
        return self._left.column(driver)

    def columns(self) -> list[tuple[str, Ints]]:
        """Returns the columns of what is left that exist, for the audit."""
        return self._left.items()

    def nodes_of(self, volume: str) -> list[str]:
        """Returns the nodes where pods use the volume."""
        return [name for name, users in self._users.get(volume, {}).items() if users.pods]

    def pods_on(self, volume: str, node_name: str) -> int:
        """How many pods of the node use the volume."""
        users = self._users.get(volume, {}).get(node_name)
        return 0 if users is None else users.pods

    def is_attached(self, volume: str, node_name: str) -> bool:
        """Returns whether the volume is attached to the node, whoever wants it."""
        users = self._users.get(volume, {}).get(node_name)
        return users is not None and users.attachments > 0

    def driver_of(self, volume: str, node_name: str) -> str:
        """Returns the driver of a volume that is in use on the node."""
        return self._users[volume][node_name].driver

    def items(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(Volume, node) -> (pods, attachments), for the audit."""
        return {
            (volume, name): (users.pods, users.attachments)
            for volume, of_node in self._users.items()
            for name, users in of_node.items()
        }

    # -- changes ----------------------------------------------------------------------------------

    def use(self, node_name: str, volumes: dict[str, str], sign: int) -> None:
        """A pod of the node uses (+1) or leaves (-1) these volumes (volume -> driver)."""
        for volume, driver in volumes.items():
            users = self._at(node_name, volume, driver)
            users.pods += sign
            self._settle(node_name, volume, users)

    def attach(self, node_name: str, volume: str, driver: str, sign: int) -> None:
        """The volume is attached to the node, once more (+1) or once less (-1)."""
        users = self._at(node_name, volume, driver)
        users.attachments += sign
        self._settle(node_name, volume, users)

    # -- inside -----------------------------------------------------------------------------------

    def _at(self, node_name: str, volume: str, driver: str) -> _Users:
        of_volume = self._users.setdefault(volume, {})
        users = of_volume.get(node_name)
        if users is None:
            users = of_volume[node_name] = _Users(driver)
            self._add(node_name, driver, 1)
        return users

    def _settle(self, node_name: str, volume: str, users: _Users) -> None:
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
        self._left.update(node_name, driver)
