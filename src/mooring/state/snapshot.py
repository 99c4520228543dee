"""What one scheduling cycle sees of the cluster.

There is no copy. Deciding never awaits, so nothing can change the columns between the snapshot and
``assume``; the generation proves it afterwards. Who does await throws the snapshot away.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """The tables as they are at ``generation``. Read only: the Cache is their one owner.

    ``generation`` counts what changed in the nodes' columns; labels of pods and the
    other objects change without it.
    """

    nodes: NodeTable
    pods: PodTable
    counters: PodCounters
    terms: PodTermTable
    device_classes: DeviceClasses
    namespaces: Namespaces
    workloads: Workloads
    storage: Storage
    budgets: Budgets
    nominator: Nominator
    generation: int

    @property
    def is_current(self) -> bool:
        """Whether nothing changed since the snapshot was taken."""
        return self.generation == self.nodes.log.generation
