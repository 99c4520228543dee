"""The pods without a node at a virtual time, as far as results know them."""

from __future__ import annotations

from collections import defaultdict

from mooring.experiments.playback.cluster import ACTIVE, GATED, UNSCHEDULABLE, ResultCluster
from mooring.experiments.playback.tables import US
from mooring.ui.board import Counts, Queue, QueuedPodRow, Reason
from mooring.ui.queue_reader import QUEUE_ROWS_MAX, REASON_PODS_MAX


def result_queue(cluster: ResultCluster, position: int, counts: Counts) -> Queue:
    """Returns the pending pods: by priority and age, and the refused ones by message."""
    return Queue(
        counts=counts,
        active=_rows(cluster, position, cluster.waiting(position, ACTIVE)),
        backoff=[],
        gated=_rows(cluster, position, cluster.waiting(position, GATED)),
        permit=[],
        nominated=_rows(cluster, position, nominated(cluster, position)),
        reasons=_reasons(cluster, position),
    )


def nominated(cluster: ResultCluster, position: int) -> list[int]:
    """Returns the rows of pending pods whose last attempt evicts others."""
    return [
        row
        for row in cluster.waiting(position, UNSCHEDULABLE)
        if (latest := cluster.last_failure(position, row)) is not None and latest.node
    ]


def _rows(cluster: ResultCluster, position: int, rows: list[int]) -> list[QueuedPodRow]:
    pods, result = cluster.tables.pods, []
    for row in rows[:QUEUE_ROWS_MAX]:
        latest = cluster.last_failure(position, row)
        result.append(
            QueuedPodRow(
                pods.names[row],
                int(pods.priorities[row]),
                waits_s=(position - int(pods.submitted_us[row])) / US,
                plugins=latest.plugins if latest is not None else (),
                node=latest.node if latest is not None else "",
            )
        )
    return result


def _reasons(cluster: ResultCluster, position: int) -> list[Reason]:
    """Returns the unschedulable pods by message, the most frequent one first."""
    names = cluster.tables.pods.names
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for row in cluster.waiting(position, UNSCHEDULABLE):
        latest = cluster.last_failure(position, row)
        assert latest is not None, "a pod is unschedulable from its first failed attempt on"
        groups[latest.message, latest.plugins].append(names[row])
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        Reason(message, plugins, (), len(pods), pods[:REASON_PODS_MAX])
        for (message, plugins), pods in ordered[:QUEUE_ROWS_MAX]
    ]
