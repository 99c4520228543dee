"""Reads the scheduling queue for the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName, profile_of
from mooring.scheduler.service import Service
from mooring.ui.board import Counts, Queue, QueuedPodRow, Reason

#: Pods of one part of the queue, and reasons.
QUEUE_ROWS_MAX: Final = 200
REASON_PODS_MAX: Final = 20


class QueueReader:
    """Reads the queue of a scheduler."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def read(self, counts: Counts, now_s: float) -> Queue:
        """Returns the queue at a time; monotonic seconds."""
        parts: dict[QueueName, list[QueuedPod]] = defaultdict(list)
        for entry in self._service.queue.pods():
            parts[entry.queue_name].append(entry)
        active = [*parts[QueueName.IN_FLIGHT], *parts[QueueName.ACTIVE]]
        active.sort(key=lambda entry: (-entry.pod.priority, entry.timestamp_s))
        backoff = sorted(
            parts[QueueName.BACKOFF], key=lambda entry: entry.backoff_expiration_s or 0
        )
        return Queue(
            counts=counts,
            active=self._rows(active, now_s),
            backoff=self._rows(backoff, now_s),
            gated=self._rows(parts[QueueName.GATED], now_s),
            permit=list(self._waiting(now_s)),
            nominated=self._rows(filter(self._is_nominated, chain(*parts.values())), now_s),
            reasons=self._reasons(parts[QueueName.UNSCHEDULABLE]),
        )

    def _is_nominated(self, entry: QueuedPod) -> bool:
        return bool(self._service.cache.nominator.node_of(entry.uid))

    def _rows(self, entries: Iterable[QueuedPod], now_s: float) -> list[QueuedPodRow]:
        rows: list[QueuedPodRow] = []
        for entry in entries:
            if len(rows) == QUEUE_ROWS_MAX:
                break
            ends_s = entry.backoff_expiration_s
            gate = (entry.gating_plugin,) if entry.gating_plugin else ()
            is_backing_off = entry.queue_name is QueueName.BACKOFF and ends_s is not None
            row = QueuedPodRow(
                entry.pod.key,
                entry.pod.priority,
                attempts=entry.attempts,
                waits_s=round(now_s - entry.timestamp_s, 1),
                backoff_s=round(max(0.0, (ends_s or 0) - now_s), 1) if is_backing_off else None,
                plugins=tuple(sorted(entry.rejectors)) or gate,
                node=self._service.cache.nominator.node_of(entry.uid),
            )
            rows.append(row)
        return rows

    def _waiting(self, now_s: float) -> Iterator[QueuedPodRow]:
        for waiting in self._service.handle.waiting:
            remaining_s = waiting.remaining_s(now_s)
            yield QueuedPodRow(
                waiting.pod.key,
                waiting.pod.priority,
                backoff_s=round(min(remaining_s.values(), default=0.0), 1),
                plugins=tuple(remaining_s),
                node=waiting.node_name,
            )

    def _reasons(self, entries: Iterable[QueuedPod]) -> list[Reason]:
        groups: dict[tuple[str, tuple[str, ...]], list[QueuedPod]] = defaultdict(list)
        for entry in entries:
            message = _message(entry.pod.pod)
            groups[message, tuple(sorted(entry.rejectors))].append(entry)
        reasons = [
            Reason(
                message,
                plugins,
                self._events(members[0]),
                len(members),
                [entry.pod.key for entry in members[:REASON_PODS_MAX]],
            )
            for (message, plugins), members in groups.items()
        ]
        return sorted(reasons, key=lambda reason: -reason.count)[:QUEUE_ROWS_MAX]

    def _events(self, entry: QueuedPod) -> tuple[str, ...]:
        """Returns the labels of the events that requeue a pod."""
        framework = self._service.profiles.get(profile_of(entry.pod.pod))
        labels: set[str] = set()
        for plugin in framework.rejecting_plugins() if framework is not None else ():
            events = getattr(plugin, "events", None)
            if plugin.name in entry.rejectors and events is not None:
                labels |= {part.label for item in events() for part in item.event.parts()}
        return tuple(sorted(labels))


def _message(pod: Pod) -> str:
    """Returns the message of the pod's PodScheduled condition."""
    messages = [item.message for item in pod.status.conditions if item.type == "PodScheduled"]
    return messages[0] if messages else ""
