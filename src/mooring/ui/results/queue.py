"""The pods without a node at a virtual time, as far as results know them."""

from __future__ import annotations

from mooring.experiments.playback.cluster import ACTIVE, GATED, ResultCluster
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
        nominated=_rows(cluster, position, cluster.nominated(position)),
        reasons=_reasons(cluster, position),
    )


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
    names, reasons = cluster.tables.pods.names, cluster.attempts.reasons
    return [
        Reason(*reasons[reason], (), len(rows), [names[row] for row in rows[:REASON_PODS_MAX]])
        for reason, rows in cluster.reasons(position)[:QUEUE_ROWS_MAX]
    ]
