"""Why no node takes a pod: which plugin refused which node, and the sentence that tells it."""

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
    """The outcome of an attempt that found no node (``NumAllNodes`` of them were there).

    ``reasons`` counts each reason over the nodes that were refused one by one; ``absent`` is the
    status of the ``absent_count`` other nodes, which PreFilter left out. If PreFilter refused the
    pod as a whole, ``pre_filter`` says why and stands for every node.

    Source: pkg/scheduler/framework/types.go (Diagnosis, FitError).
    """

    node_count: int
    reasons: Counter[str] = field(default_factory=Counter)
    #: Node name -> status, of the nodes refused one by one; built when first asked for.
    statuses: Mapping[str, Status] = field(default_factory=dict)
    #: Code -> the rows of the nodes refused with it, if that is known without asking each node.
    find_rows: Callable[[Code], npt.NDArray[np.intp]] | None = None
    absent: Status | None = None
    absent_count: int = 0
    pre_filter: Status | None = None
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)

    def note_plugin(self, status: Status) -> None:
        """Remembers which plugin refused, so that its events can wake the pod."""
        if not status.plugin:
            return
        if status.is_rejection:
            self.unschedulable_plugins.add(status.plugin)
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def rows_of(self, code: Code, nodes: NodeTable) -> npt.NDArray[np.intp]:
        """Returns the rows of the nodes that are out with this code, in visiting order from 0.

        If PreFilter refused the pod as a whole, its code is every node's.
        """
        if self.pre_filter is not None:
            rows = nodes.order.array()
            return rows if self.pre_filter.code is code else rows[:0]
        if self.find_rows is not None:
            return self.find_rows(code)
        named = [nodes.live_row(name) for name, each in self.statuses.items() if each.code is code]
        return np.array([row for row in named if row >= 0], dtype=np.intp)

    def status_of(self, node_name: str) -> Status | None:
        """Why this node is out; None if nothing is known against it."""
        return self.statuses.get(node_name, self.absent or self.pre_filter)

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        return "Unschedulable"

    @property
    def message(self) -> str:
        """kube-scheduler's FitError, to the letter: counts are sorted as strings."""
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
        if self.pre_filter is not None:  # a refusal without words: counted as if for each node
            counts.update(dict.fromkeys(self.pre_filter.reasons, self.node_count))
        if self.absent is not None and self.absent_count:
            counts.update(dict.fromkeys(self.absent.reasons, self.absent_count))
        parts = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f"{text} {', '.join(parts)}." if parts else text
