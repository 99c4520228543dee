"""The pods of a recording that wait, by the rejection of one node in their latest step."""

from __future__ import annotations

from typing import Final

from mooring.explain.node_rejections import (
    PODS_MAX,
    NodeRejections,
    PendingPod,
    node_rejections,
)
from mooring.ui.board_error import BoardError
from mooring.ui.recorded.cluster import ACTIVE, UNSCHEDULABLE, RecordedCluster

#: The states of pods that wait for a node.
WAITING: Final = frozenset({ACTIVE, UNSCHEDULABLE})


async def recorded_rejections(recorded: RecordedCluster, node: str) -> NodeRejections:
    """Returns the pods that wait, by the rejection of a node in their latest step.

    Raises:
        BoardError: there is no such node, or the file has changed.
    """
    if recorded.cluster.nodes.live_row(node) < 0:
        raise BoardError(f"there is no node {node}")
    waiting = [name for name in recorded.pods if recorded.state_of(name) in WAITING]
    waiting.sort(key=lambda name: (-(recorded.pods[name].spec.priority or 0), name))
    first = waiting[:PODS_MAX]
    # The position may change while steps are read: the pods and their steps are those of now.
    attempted = [
        PendingPod(name, recorded.state_of(name), record.number)
        for name in first
        if (record := recorded.latest(name)) is not None
    ]
    by_number = await recorded.attempts.rejections_on(node, [pod.attempt for pod in attempted])
    decided = [
        (pod, rejections) for pod in attempted if (rejections := by_number[pod.attempt]) is not None
    ]
    left_out = len(first) - len(decided)
    note = f"{left_out} of them have no recorded verdict on this node before this step."
    return node_rejections(
        node,
        decided,
        pending=len(waiting),
        looked_at=len(first),
        note=note if left_out else "",
    )
