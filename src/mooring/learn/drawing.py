"""Draws nodes and pods as text: each node is a box, with the pods that are bound to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mooring.learn.event_log import Line

#: Columns of a box, and boxes of a row: 78 columns.
BOX: Final = 13
ROW: Final = 6

#: Event -> the state of a pod without a node.
_STATES: Final = {
    "queued": "in the queue",
    "active": "in the queue",
    "popped": "being scheduled",
    "unschedulable": "unschedulable",
    "failed": "not scheduled",
    "backoff": "in backoff",
    "waiting": "in Permit",
    "allowed": "allowed",
}

#: Events after which the picture is drawn again.
_DRAWN: Final = frozenset({"unschedulable", "backoff", "waiting", "bound"})


class Drawing:
    """Draws the cluster of a lesson after each event that changes it.

    Args:
        write: Called with each line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._cordoned: dict[str, bool] = {}
        self._node_of: dict[str, str] = {}
        self._states: dict[str, str] = {}

    def add_nodes(self, names: Sequence[str], *, cordoned: bool) -> None:
        """Adds nodes; they are drawn with the next event."""
        self._cordoned.update(dict.fromkeys(names, cordoned))

    def __call__(self, line: Line) -> None:
        """Notes an event, and draws the cluster if a pod has moved."""
        pod = line.pod.rpartition("/")[2]
        if line.what == "bound":
            self._node_of[pod] = line.node
            self._states.pop(pod, None)
        elif line.what in _STATES:
            at = f" for {line.node}" if line.what == "waiting" else ""
            self._states[pod] = f"{_STATES[line.what]}{at}"
        if line.what in _DRAWN:
            for text in self.lines():
                self._write(text)

    def lines(self) -> list[str]:
        """Returns the picture."""
        nodes = list(self._cordoned)
        lines: list[str] = []
        for start in range(0, len(nodes), ROW):
            lines += self._row(nodes[start : start + ROW])
        states = [f"{pod} {state}" for pod, state in self._states.items()]
        return [*lines, *([f"  {', '.join(states)}"] if states else []), ""]

    def _row(self, nodes: Sequence[str]) -> list[str]:
        pods = [[pod for pod, own in self._node_of.items() if own == node] for node in nodes]
        height = max(1, *map(len, pods))
        edges = [("x" if self._cordoned[node] else "-") * (BOX - 3) for node in nodes]
        titles = [
            f"+{node[: BOX - 4]}{edge[len(node[: BOX - 4]) :]}+ "
            for node, edge in zip(nodes, edges, strict=True)
        ]
        body = [
            "".join(
                f"|{(own[level] if level < len(own) else '')[: BOX - 3]:<{BOX - 3}}| "
                for own in pods
            )
            for level in range(height)
        ]
        bottom = "".join(f"+{edge}+ " for edge in edges)
        return [f"  {line}".rstrip() for line in ("".join(titles), *body, bottom)]
