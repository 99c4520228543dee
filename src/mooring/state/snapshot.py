"""What one scheduling cycle sees of the cluster.

There is no copy. Deciding never awaits, so nothing can change the columns between the snapshot and
``assume``; the generation proves it afterwards. Who does await throws the snapshot away.
"""

from __future__ import annotations

from typing import NamedTuple

from mooring.state.budgets import Budgets
from mooring.state.counters import PodCounters
from mooring.state.device_classes import DeviceClasses
from mooring.state.namespaces import Namespaces
from mooring.state.nodes import NodeTable
from mooring.state.nominator import Nominator
from mooring.state.pods import PodTable
from mooring.state.storage import Storage
from mooring.state.terms import PodTermTable
from mooring.state.workloads import Workloads


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
