"""The nodes of a run at a virtual time, as columns."""

from __future__ import annotations

from mooring.experiments.playback.cluster import ResultCluster
from mooring.ui.node_columns import NodeChanges, NodeColumns, UsageColumns, flags_of, zone_of


class ResultColumns:
    """Reads the columns of nodes.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: ResultCluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.tables.nodes
        nodes = [None if own is None else own.node for own in self._nodes.versions]
        self._zones = [zone_of(node) for node in nodes]
        self._flags = [flags_of(node) for node in nodes]

    def columns(self, position: int, rows: list[int] | None = None) -> NodeColumns:
        """Returns rows of nodes; None = all that are there now."""
        nodes = self._nodes
        read = self._cluster.node_rows(position) if rows is None else rows
        indexes = self._cluster.versions(position, read)
        versions = [nodes.versions[index] if index >= 0 else None for index in indexes]
        pods, requested = self._cluster.usage(position, read)
        names = zip(read, versions, strict=True)
        return NodeColumns(
            rows=read,
            names=["" if version is None else nodes.names[row] for row, version in names],
            groups=["" if version is None else version.group for version in versions],
            zones=[self._zones[index] if index >= 0 else "" for index in indexes],
            flags=[self._flags[index] if index >= 0 else 0 for index in indexes],
            pods=pods,
            allowed_pods=[0 if own is None else own.allowed_pods for own in versions],
            allocatable=[
                [0 if version is None else version.allocatable[number] for version in versions]
                for number in range(len(nodes.resources))
            ],
            requested=requested,
        )

    def changes(self, since: int, position: int) -> NodeChanges:
        """Returns what has changed since an earlier time."""
        rows, used = self._cluster.changed(since, position)
        return NodeChanges(
            position,
            usage=UsageColumns(used, *self._cluster.usage(position, used)) if used else None,
            nodes=self.columns(position, rows) if rows else None,
        )
