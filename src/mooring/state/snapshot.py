"""The cluster state that one scheduling cycle reads.

There is no copy. A scheduling cycle never awaits, so nothing can change the columns between the
snapshot and ``assume``; the generation verifies it afterwards. Code that awaits must take a new
snapshot.
"""

from __future__ import annotations

from typing import NamedTuple

from mooring.state.devices.devices import Devices
from mooring.state.kinds.budgets import Budgets
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.state.kinds.namespaces import Namespaces
from mooring.state.kinds.workloads import Workloads
from mooring.state.nominator import Nominator
from mooring.state.tables.affinity_terms import PodTermTable
from mooring.state.tables.counters import PodCounters
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodTable
from mooring.state.volumes.storage import Storage


class Snapshot(NamedTuple):
    """The tables at ``generation``. Read-only: the Cache owns them.

    ``generation`` counts changes of the node columns; changes of pod labels and of other objects
    do not raise it.
    """

    nodes: NodeTable
    pods: PodTable
    counters: PodCounters
    terms: PodTermTable
    device_classes: DeviceClasses
    devices: Devices
    namespaces: Namespaces
    workloads: Workloads
    storage: Storage
    budgets: Budgets
    nominator: Nominator
    generation: int

    @property
    def is_current(self) -> bool:
        """True if no node column changed since the snapshot was taken."""
        return self.generation == self.nodes.log.generation
