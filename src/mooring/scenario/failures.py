"""Nodes that crash again and again, alone or together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mooring.chance import Streams
from mooring.objects.node import Node
from mooring.scenario.node_life import NodeLife
from mooring.scenario.scenario import FailureProcess, NodeSelection
from mooring.simulation.engine.engine import PHASE_NODES, Engine

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.clock import Rng
    from mooring.simulation.engine.object_table import ObjectTable


class FailureActor:
    """Crashes nodes again and again, one process for each node or for nodes that fail together.

    Args:
        process: Its times.
        table: Has the nodes.
        nodes: Crashes them.
        streams: Of the run.
        engine: Calls back.
    """

    def __init__(
        self,
        process: FailureProcess,
        table: ObjectTable,
        nodes: NodeLife,
        streams: Streams,
        engine: Engine,
    ) -> None:
        self._process = process
        self._table = table
        self._nodes = nodes
        self._streams = streams
        self._engine = engine
        #: What fails together -> its stream.
        self._units: dict[str, Rng] = {}

    def start(self) -> None:
        """Waits for the first crashes, also of nodes that come later."""
        for name in selected(self._process.nodes, self._table):
            self._add(self._table.objects("Node")[name])
        self._table.listen(self._on_change)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind == "Node" and change.old is None and self._process.nodes.matches(change.new):
            self._add(change.new)

    def _add(self, node: Node) -> None:
        unit = self._unit_of(node)
        if unit not in self._units:
            self._units[unit] = self._streams.stream(self._process.name, unit)
            self._wait(unit, 0.0)

    def _unit_of(self, node: Node) -> str:
        if self._process.together:
            return node.metadata.labels.get(self._process.together, node.metadata.name)
        return node.metadata.name

    def _wait(self, unit: str, from_s: float) -> None:
        rng = self._units[unit]
        at_s = self._engine.now_s() + from_s + self._process.mtbf.draw(rng)
        crash = partial(self._crash, unit)
        self._engine.call_at(at_s, PHASE_NODES, crash, is_background=True)

    def _crash(self, unit: str) -> None:
        away_s = self._process.mttr.draw(self._units[unit])
        for name in selected(self._process.nodes, self._table):
            if self._unit_of(self._table.objects("Node")[name]) == unit:
                self._nodes.crash(name, away_s)
        self._wait(unit, away_s)


def selected(selection: NodeSelection, table: ObjectTable) -> list[str]:
    """Returns the names of the selected nodes."""
    nodes = table.objects("Node")
    if selection.name:
        return [selection.name] if selection.name in nodes else []
    return [name for name, node in nodes.items() if selection.matches(node)]
