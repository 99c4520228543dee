"""What one scheduling cycle sees of the cluster.

There is no copy. Deciding never awaits, so nothing can change the columns between the snapshot and
``assume``; the generation proves it afterwards. Who does await throws the snapshot away.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.state.counters import PodCounters
from mooring.state.nodes import NodeTable
from mooring.state.nominator import Nominator
from mooring.state.pods import PodTable
from mooring.state.workloads import Workloads


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables as they are at ``generation``. Read only: the Cache is their one owner.

    ``generation`` counts what changed in the nodes' columns; labels of pods and workloads change
    without it.
    """

    nodes: NodeTable
    pods: PodTable
    counters: PodCounters
    workloads: Workloads
    nominator: Nominator
    generation: int

    @property
    def is_current(self) -> bool:
        """Whether nothing changed since the snapshot was taken."""
        return self.generation == self.nodes.log.generation
