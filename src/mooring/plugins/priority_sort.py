"""PrioritySort: important pods first, then those that have waited longer."""

from __future__ import annotations

from mooring.framework.interface import QueuedPod


class PrioritySort:
    """Orders the active queue.

    Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go.
    """

    name = "PrioritySort"

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Higher priority first; of equals the one that entered the queue earlier."""
        if a.pod.priority != b.pod.priority:
            return a.pod.priority > b.pod.priority
        return a.timestamp_s < b.timestamp_s

    def sort_key(self, pod: QueuedPod) -> tuple[int, float]:
        """``less`` as a key."""
        return -pod.pod.priority, pod.timestamp_s
