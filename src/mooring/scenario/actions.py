"""Actions at a time: objects are created, scaled and deleted, nodes drained and crashed."""

from __future__ import annotations

from collections.abc import Mapping
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

    Attributes:
        notes: Actions that changed nothing, as what they name is not there.

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
        self.notes: list[str] = []
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
            return
        if isinstance(action, Scale):
            name = f"{action.namespace}/{action.name}"
            is_done = self._workloads.scale(action.kind, name, action.replicas)
            target = f"{action.kind} {name!r} to scale"
        elif isinstance(action, Deletion):
            is_done = self._delete(action)
            target = f"{_text_of_deletion(action)} to delete"
        else:
            is_done = self._do_to_nodes(item.name, action)
            nodes = action.nodes
            which = repr(nodes.name) if nodes.name else f"with labels {_labels(nodes.match_labels)}"
            target = f"node {which} to {action.what}"
        if not is_done:
            self.notes.append(f"item {item.name!r}, at {item.at_s:g} s: no {target}")

    def _do_to_nodes(self, name: str, action: NodeAction) -> bool:
        rng = self._streams.stream(name, "duration")
        nodes = selected(action.nodes, self._table)
        for node in nodes:
            if action.what == "fail":
                self._nodes.crash(node, action.duration.draw(rng))
            else:
                getattr(self._nodes, action.what)(node)
        return bool(nodes)

    def _delete(self, action: Deletion) -> bool:
        """Deletes objects; returns whether there were any."""
        if action.kind == "Node":
            is_there = action.name in self._table.objects("Node")
            self._nodes.remove(action.name)
            return is_there
        if action.kind in WORKLOAD_KINDS:
            return self._workloads.delete(action.kind, f"{action.namespace}/{action.name}")
        if action.name:
            is_in_namespace = KINDS[action.kind].namespaced if action.kind in KINDS else True
            name = f"{action.namespace}/{action.name}" if is_in_namespace else action.name
            try:
                self._table.delete(action.kind, name)
            except NotFound:
                return False
            return True
        pods = [
            pod_key
            for pod_key, pod in self._table.objects("Pod").items()
            if pod.metadata.namespace == action.namespace
            and action.match_labels.items() <= pod.metadata.labels.items()
        ]
        for pod_key in pods:
            self._table.delete("Pod", pod_key)
        return bool(pods)


def _text_of_deletion(action: Deletion) -> str:
    if not action.name:
        return f"pod with labels {_labels(action.match_labels)} in {action.namespace!r}"
    name = action.name if action.kind == "Node" else f"{action.namespace}/{action.name}"
    return f"{action.kind} {name!r}"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())
