"""The counts of a scheduling queue that are exposed as metrics."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mooring.queue.queued_pod import QueueName


class QueueStatistics(NamedTuple):
    """Counts at one moment.

    Attributes:
        incoming: (queue, label of the event) -> the pods that it moved there, without moves between
            unschedulable and gated; these only grow.
        rejected: (plugin, profile) -> the pods in the queues that the plugin rejected; may be zero.
        in_flight: Event label -> recorded events, ``PodPopped`` -> pods in flight.
    """

    incoming: Counter[tuple[QueueName, str]]
    rejected: Counter[tuple[str, str]]
    in_flight: Counter[str]
