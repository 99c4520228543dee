"""Actions at a time: objects are created, scaled and deleted, nodes drained and crashed."""

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
from mooring.scenario.scenario import ActionItem, NodeAction, Template
from mooring.simulation.controllers.objects import WORKLOAD_KINDS

if TYPE_CHECKING:
    from mooring.simulation.engine.object_table import ObjectTable
    from mooring.simulation.engine.workload_controllers import WorkloadControllers


class Actions:
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

    def do(self, item: ActionItem) -> None:
        """Does what an item says."""
        action = item.action
        if isinstance(action, Template):
            self._creator.create(action, Draws(item.name, item.run_time, self._streams))
        elif isinstance(action, Scale):
            self._workloads.scale(action.kind, f"{action.namespace}/{action.name}", action.replicas)
        elif isinstance(action, Deletion):
            self._delete(action)
        else:
            self._do_to_nodes(item.name, action)

    def _do_to_nodes(self, name: str, action: NodeAction) -> None:
        rng = self._streams.stream(name, "duration")
        for node in selected(action.nodes, self._table):
            if action.what == "fail":
                self._nodes.crash(node, action.duration.draw(rng))
            else:
                getattr(self._nodes, action.what)(node)

    def _delete(self, action: Deletion) -> None:
        if action.kind == "Node":
            self._nodes.remove(action.name)
        elif action.kind in WORKLOAD_KINDS:
            self._workloads.delete(action.kind, f"{action.namespace}/{action.name}")
        elif action.name:
            is_in_namespace = KINDS[action.kind].namespaced if action.kind in KINDS else True
            name = f"{action.namespace}/{action.name}" if is_in_namespace else action.name
            with suppress(NotFound):
                self._table.delete(action.kind, name)
        else:
            for pod_key, pod in [*self._table.objects("Pod").items()]:
                labels = pod.metadata.labels.items()
                if pod.metadata.namespace == action.namespace and (
                    action.match_labels.items() <= labels
                ):
                    self._table.delete("Pod", pod_key)
