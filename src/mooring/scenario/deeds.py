"""Deeds at a time: objects are created, scaled and deleted, nodes drained and crashed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mooring.chance import Streams
from mooring.errors import NotFound
from mooring.objects.kinds import KINDS
from mooring.scenario.arrivals import Creator
from mooring.scenario.document import Deletion, Scale
from mooring.scenario.failures import selected
from mooring.scenario.node_life import NodeLife
from mooring.scenario.run_times import Draws
from mooring.scenario.scenario import DeedItem, NodeDeed, Template
from mooring.simulation.controllers.objects import WORKLOAD_KINDS

if TYPE_CHECKING:
    from mooring.simulation.engine.object_table import ObjectTable
    from mooring.simulation.engine.workload_controllers import WorkloadControllers


class Deeds:
    """Does what the items of a scenario say.

    Args:
        table: The objects.
        workloads: Scales and deletes workloads.
        creator: Creates objects.
        nodes: Drains, crashes and removes nodes.
        streams: Of the run.
    """

    def __init__(
        self,
        table: ObjectTable,
        workloads: WorkloadControllers,
        creator: Creator,
        nodes: NodeLife,
        streams: Streams,
    ) -> None:
        self._table = table
        self._workloads = workloads
        self._creator = creator
        self._nodes = nodes
        self._streams = streams

    def do(self, item: DeedItem) -> None:
        """Does what an item says."""
        deed = item.deed
        if isinstance(deed, Template):
            self._creator.create(deed, Draws(item.name, item.run_time, self._streams))
        elif isinstance(deed, Scale):
            self._workloads.scale(deed.kind, f"{deed.namespace}/{deed.name}", deed.replicas)
        elif isinstance(deed, Deletion):
            self._delete(deed)
        else:
            self._do_to_nodes(item.name, deed)

    def _do_to_nodes(self, name: str, deed: NodeDeed) -> None:
        rng = self._streams.stream(name, "duration")
        for node in selected(deed.nodes, self._table):
            if deed.what == "fail":
                self._nodes.crash(node, deed.duration.draw(rng))
            else:
                getattr(self._nodes, deed.what)(node)

    def _delete(self, deed: Deletion) -> None:
        if deed.kind == "Node":
            self._nodes.remove(deed.name)
        elif deed.kind in WORKLOAD_KINDS:
            self._workloads.delete(deed.kind, f"{deed.namespace}/{deed.name}")
        elif deed.name:
            is_in_namespace = KINDS[deed.kind].namespaced if deed.kind in KINDS else True
            name = f"{deed.namespace}/{deed.name}" if is_in_namespace else deed.name
            with suppress(NotFound):
                self._table.delete(deed.kind, name)
        else:
            for pod_key, pod in [*self._table.objects("Pod").items()]:
                labels = pod.metadata.labels.items()
                if pod.metadata.namespace == deed.namespace and (
                    deed.match_labels.items() <= labels
                ):
                    self._table.delete("Pod", pod_key)
