"""The CSI drivers of nodes, as a dict beside the columns of the cache.

CSINodes come and go by themselves, before their node, after it, or without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.clock import Rng
from mooring.state.cache import Cache
from tests.helpers.volume_objects import csi_node

#: Drivers as ``csi_node`` reads them, and the plugin that a node may have migrated.
DRIVERS: Final = ("ebs", "disk")
PLUGIN: Final = "kubernetes.io/aws-ebs"
CHANGE_SHARE: Final = 0.2


class CSINodesModel:
    """Changes the CSINodes of a cache at random, and compares its columns.

    Args:
        cache: The cache.
        names: Of the nodes.
        rng: Of these changes alone.
    """

    def __init__(self, cache: Cache, names: Sequence[str], rng: Rng) -> None:
        self._cache = cache
        self._names = names
        self._rng = rng
        #: Name -> the limits of its drivers, and the migrated plugin.
        self._nodes: dict[str, tuple[dict[str, int], str]] = {}

    def change(self) -> None:
        """Changes or removes a CSINode, in one of five calls."""
        rng = self._rng
        if rng.random() >= CHANGE_SHARE:
            return
        name = rng.choice(self._names)
        if rng.random() < 0.3:
            self._nodes.pop(name, None)
            self._cache.remove_object("CSINode", name)
            return
        limits = {driver: rng.randrange(4) for driver in DRIVERS if rng.random() < 0.6}
        migrated = rng.choice(("", PLUGIN))
        self._nodes[name] = limits, migrated
        self._cache.put_object("CSINode", csi_node(name, migrated=migrated, **limits))

    def problems(self) -> Iterator[str]:
        """Yields where the columns of a live node differ."""
        csi_nodes, nodes = self._cache.storage.csi_nodes, self._cache.nodes
        columns = [
            csi_nodes.has_csi_node_by_row(),
            csi_nodes.has_limits(),
            csi_nodes.have_migrated(PLUGIN),
            *map(csi_nodes.have_driver, DRIVERS),
        ]
        for row in nodes.order.rows():
            name = nodes.names[row]
            limits, migrated = self._nodes.get(name, ({}, ""))
            has_drivers = [driver in limits for driver in DRIVERS]
            expected = [name in self._nodes, bool(limits), bool(migrated), *has_drivers]
            if (actual := [bool(column[row]) for column in columns]) != expected:
                yield f"node {name}: CSINode, limits, migrated, drivers {actual}, not {expected}"
