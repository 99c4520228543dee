"""The nodes of a cluster as columns, and what has changed since the last tick.

The page draws thousands of nodes: it gets all columns once, then only the rows of the cache's
change log. The number of a row is that of the cache's node table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.objects.node import Node
from mooring.simulation.utilization import Amounts, ResourceNames, group_name
from mooring.state import Change
from mooring.state.tables.nodes import NodeTable, node_allocatable

#: The bits of ``NodeColumns.flags``.
UNSCHEDULABLE, NOT_READY, TAINTED = 1, 2, 4

#: Changes that move numbers only: requested resources, ports and images of a row.
_NUMBERS: Final = int(Change.USAGE | Change.PORTS | Change.IMAGES)
_ZONE: Final = "topology.kubernetes.io/zone"


class NodeColumns(msgspec.Struct, rename="camel"):
    """Some rows of the node table. All columns are as long as ``rows``.

    Attributes:
        rows: The row numbers.
        names: Node names; "" = the row has no node any more.
        groups: The names of the groups: machine type and resources.
        zones: The zones; "" = none.
        flags: ``UNSCHEDULABLE``, ``NOT_READY``, ``TAINTED``, added up.
        pods: Numbers of pods, assumed ones included.
        allowed_pods: The most pods.
        allocatable: Per resource of ``State.resources``: amounts in scheduler units.
        requested: Likewise.
    """

    rows: list[int]
    names: list[str]
    groups: list[str]
    zones: list[str]
    flags: list[int]
    pods: list[int]
    allowed_pods: list[int]
    allocatable: list[list[int]]
    requested: list[list[int]]


class UsageColumns(msgspec.Struct, rename="camel"):
    """The numbers of rows whose node is the same."""

    rows: list[int]
    pods: list[int]
    requested: list[list[int]]


class NodeChanges(msgspec.Struct, rename="camel", omit_defaults=True):
    """The changes since a generation.

    Attributes:
        generation: The generation now.
        is_complete: False = too much has changed: the columns must be read again.
        usage: Rows with other numbers.
        nodes: Rows whose node has changed, come or gone.
    """

    generation: int
    is_complete: bool = True
    usage: UsageColumns | None = None
    nodes: NodeColumns | None = None


class NodeReader:
    """Reads the columns of a node table, and remembers the groups of its nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._groups: dict[str, tuple[Node, str]] = {}

    def resources(self) -> list[str]:
        """Returns the names of the resources that some node has, in the order of the columns."""
        return [name for _, name in self._resources()]

    def columns(self, rows: Iterable[int] | None = None) -> NodeColumns:
        """Returns rows; None = all that have a node."""
        nodes = self._nodes
        read = nodes.order.array().tolist() if rows is None else list(rows)
        objects = [nodes.objects[row] for row in read]
        names = ResourceNames(self.resources())
        ids = [number for number, _ in self._resources()]
        return NodeColumns(
            rows=read,
            names=[node.metadata.name if node is not None else "" for node in objects],
            groups=[self._group(node, names) if node is not None else "" for node in objects],
            zones=[zone_of(node) for node in objects],
            flags=[flags_of(node) for node in objects],
            pods=nodes.pod_count[read].tolist(),
            allowed_pods=nodes.allowed_pods[read].tolist(),
            allocatable=[nodes.allocatable[number][read].tolist() for number in ids],
            requested=[nodes.requested[number][read].tolist() for number in ids],
        )

    def changes(self, generation: int, resources: list[str]) -> NodeChanges:
        """Returns what has changed since a generation, in columns of these resources."""
        log = self._nodes.log
        entries = log.since(generation)
        if entries is None or self.resources() != resources:
            return NodeChanges(log.generation, is_complete=False)
        kinds: dict[int, int] = {}
        for row, kind in zip(*(column.tolist() for column in entries), strict=True):
            kinds[row] = kinds.get(row, 0) | kind
        if len(kinds) > self._nodes.size // 2 > 100:
            return NodeChanges(log.generation, is_complete=False)
        moved = [row for row, kind in kinds.items() if not kind & ~_NUMBERS]
        changed = [row for row, kind in kinds.items() if kind & ~_NUMBERS]
        return NodeChanges(
            log.generation,
            usage=self._usage(moved) if moved else None,
            nodes=self.columns(changed) if changed else None,
        )

    def _usage(self, rows: list[int]) -> UsageColumns:
        nodes = self._nodes
        ids = [number for number, _ in self._resources()]
        return UsageColumns(
            rows,
            nodes.pod_count[rows].tolist(),
            [nodes.requested[number][rows].tolist() for number in ids],
        )

    def _resources(self) -> list[tuple[int, str]]:
        """Returns the ids and names of the resources that a node has, cpu and memory first."""
        nodes = self._nodes
        return [
            (number, name)
            for number, name in enumerate(nodes.resources.values())
            if name is not None and nodes.allocatable[number].any()
        ]

    def _group(self, node: Node, names: ResourceNames) -> str:
        cached = self._groups.get(node.metadata.name)
        if cached is not None and cached[0] is node:
            return cached[1]
        amounts: Amounts = node_allocatable(node)
        if len(self._groups) > 2 * self._nodes.size + 100:
            self._groups.clear()  # of nodes that are gone
        group = group_name(node, amounts, names=names)
        self._groups[node.metadata.name] = node, group
        return group


def zone_of(node: Node | None) -> str:
    """Returns the zone of a node; "" = none."""
    return "" if node is None else node.metadata.labels.get(_ZONE, "")


def flags_of(node: Node | None) -> int:
    """Returns the flags of a node, added up."""
    if node is None:
        return 0
    ready = [item.status for item in node.status.conditions if item.type == "Ready"]
    return (
        UNSCHEDULABLE * node.spec.unschedulable
        + NOT_READY * (ready not in ([], ["True"]))
        + TAINTED * bool(node.spec.taints)
    )
