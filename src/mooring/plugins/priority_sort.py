"""PrioritySort: sorts pods by priority, then by the time when they were queued."""

from __future__ import annotations

from mooring.framework.interface import QueuedPod


class PrioritySort:
    """Orders the active queue.

    Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go.
    """

    name = "PrioritySort"

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Returns True if ``a`` has a higher priority, or an equal one and was queued earlier."""
        if a.pod.priority != b.pod.priority:
            return a.pod.priority > b.pod.priority
        return a.timestamp_s < b.timestamp_s

    def sort_key(self, pod: QueuedPod) -> tuple[int, float]:
        """Returns a sort key with the order of ``less``."""
        return -pod.pod.priority, pod.timestamp_s
