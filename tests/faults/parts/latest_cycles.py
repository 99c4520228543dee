"""Checks that each call of an attempt has the cycle of its last PreFilter.

After calls of extenders PreFilter runs once more if the cluster has changed meanwhile: what it
stores then is what Filter, Reserve and all later points read, with a current snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.framework import Cycle
from mooring.framework.node_view import NodeView
from mooring.framework.status import FilterStatuses


class LatestCycles:
    """A plugin that accepts all nodes.

    Args:
        report: Called with each problem.
    """

    name = "LatestCycles"

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        #: UID -> the cycle with which PreFilter was called last.
        self._latest: dict[str, Cycle] = {}

    def events(self) -> list[Any]:
        """Registers none."""
        return []

    def pre_filter(self, cycle: Cycle) -> None:
        """Notes the cycle."""
        self._check_snapshot(cycle, "PreFilter")
        self._latest[cycle.pod.uid] = cycle

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Accepts all nodes."""
        self._check(cycle, "Filter")
        self._check_snapshot(cycle, "Filter")
        return FilterStatuses.feasible(len(nodes.rows))

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        """Reserves nothing."""
        del node_name
        self._check(cycle, "Reserve")

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Has nothing to undo."""
        del node_name
        self._check(cycle, "Unreserve")

    def permit(self, cycle: Cycle, node_name: str) -> None:
        """Allows each pod."""
        del node_name
        self._check(cycle, "Permit")

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Forgets the cycle."""
        del node_name
        self._check(cycle, "PostBind")

    def _check(self, cycle: Cycle, point: str) -> None:
        if self._latest.get(cycle.pod.uid) is not cycle:
            self._report(f"{point} of {cycle.pod.key} has another cycle than the last PreFilter")

    def _check_snapshot(self, cycle: Cycle, point: str) -> None:
        if not cycle.snapshot.is_current:
            self._report(f"{point} of {cycle.pod.key} has an outdated snapshot")
