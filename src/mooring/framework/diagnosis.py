"""Diagnosis of a pod that fits no node: the status of each node, and kube-scheduler's message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mooring.framework.status import Code, Status
from mooring.state.tables.nodes import NodeTable

#: The whole message when the cluster has no node.
NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """The outcome of an attempt in which no node was feasible (of ``node_count`` nodes).

    ``reasons`` counts each reason over the nodes that Filter plugins rejected; ``absent`` is the
    status of the ``absent_count`` other nodes, which PreFilter excluded. If PreFilter rejected the
    pod, its status is in ``pre_filter`` and applies to every node.

    Source: pkg/scheduler/framework/types.go (Diagnosis, FitError).
    """

    node_count: int
    reasons: Counter[str] = field(default_factory=Counter)
    #: Node name -> status, of the nodes that Filter plugins rejected; computed on demand.
    statuses: Mapping[str, Status] = field(default_factory=dict)
    #: Returns the rows of the nodes rejected with a code, if ``statuses`` is backed by columns.
    find_rows: Callable[[Code], npt.NDArray[np.intp]] | None = None
    absent: Status | None = None
    absent_count: int = 0
    pre_filter: Status | None = None
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)

    def note_plugin(self, status: Status) -> None:
        """Records the plugin that rejected the pod, so that its events can requeue the pod."""
        if not status.plugin:
            return
        if status.is_rejection:
            self.unschedulable_plugins.add(status.plugin)
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def rows_of(self, code: Code, nodes: NodeTable) -> npt.NDArray[np.intp]:
        """Returns the rows of the nodes rejected with this code, in visiting order from 0.

        If PreFilter rejected the pod, every node has its code.
        """
        if self.pre_filter is not None:
            rows = nodes.order.array()
            return rows if self.pre_filter.code is code else rows[:0]
        if self.find_rows is not None:
            return self.find_rows(code)
        statuses = self.statuses.items()
        all_rows = [nodes.live_row(name) for name, status in statuses if status.code is code]
        return np.array([row for row in all_rows if row >= 0], dtype=np.intp)

    def status_of(self, node_name: str) -> Status | None:
        """Returns the status with which this node was rejected; None if it was not."""
        return self.statuses.get(node_name, self.absent or self.pre_filter)

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        return "Unschedulable"

    @property
    def message(self) -> str:
        """The message of kube-scheduler's FitError: counts are sorted as strings."""
        if self.node_count == 0:
            return NO_NODES
        text = self.filter_message
        return f"{text} {self.post_filter_message}" if self.post_filter_message else text

    @property
    def filter_message(self) -> str:
        """The message up to PostFilter's part."""
        text = f"0/{self.node_count} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.message:
            return f"{text} {self.pre_filter.message}."
        counts = Counter(self.reasons)
        if self.pre_filter is not None:  # a rejection without reasons: counted for each node
            counts.update(dict.fromkeys(self.pre_filter.reasons, self.node_count))
        if self.absent is not None and self.absent_count:
            counts.update(dict.fromkeys(self.absent.reasons, self.absent_count))
        parts = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f"{text} {', '.join(parts)}." if parts else text
