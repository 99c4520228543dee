"""The scheduling queue of a recording, as far as its steps tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mooring.decision import GATED
from mooring.ui.board import Counts, Queue, QueuedPodRow, Reason
from mooring.ui.queue_reader import QUEUE_ROWS_MAX, REASON_PODS_MAX
from mooring.ui.recorded.cluster import ACTIVE, UNSCHEDULABLE, RecordedCluster


def recorded_queue(recorded: RecordedCluster, counts: Counts) -> Queue:
    """Returns the pods of the next steps in their order, and the others without a node."""
    coming = dict.fromkeys(step.pod_key for step in recorded.attempts.steps[recorded.position :])
    nominated = (info.key for info, _ in recorded.cluster.cache.nominator.pods())
    return Queue(
        counts=counts,
        active=_rows(recorded, (name for name in coming if recorded.state_of(name) == ACTIVE)),
        backoff=[],
        gated=_rows(recorded, (name for name in recorded.pods if recorded.state_of(name) == GATED)),
        permit=[],
        nominated=_rows(recorded, (name for name in nominated if name in recorded.pods)),
        reasons=_reasons(recorded),
    )


def _rows(recorded: RecordedCluster, names: Iterable[str]) -> list[QueuedPodRow]:
    rows: list[QueuedPodRow] = []
    for name in names:
        if len(rows) == QUEUE_ROWS_MAX:
            break
        pod, latest = recorded.pods[name], recorded.latest(name)
        node = recorded.cluster.cache.nominator.node_of(pod.metadata.uid)
        plugins = latest.plugins if latest is not None else ()
        rows.append(QueuedPodRow(name, pod.spec.priority or 0, plugins=plugins, node=node))
    return rows


def _reasons(recorded: RecordedCluster) -> list[Reason]:
    """Returns the unschedulable pods by message, the most frequent one first."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for name in recorded.pods:
        latest = recorded.latest(name)
        if latest is not None and recorded.state_of(name) == UNSCHEDULABLE:
            groups[latest.message, latest.plugins].append(name)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        Reason(message, plugins, (), len(names), names[:REASON_PODS_MAX])
        for (message, plugins), names in ordered[:QUEUE_ROWS_MAX]
    ]
