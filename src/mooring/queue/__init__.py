"""Where pods wait until they are tried: a sync state machine without a clock of its own."""

from mooring.queue.event_diff import node_changes, pod_changes
from mooring.queue.in_flight_attempt import Flight
from mooring.queue.queued_pod import Place, QueuedPod
from mooring.queue.queueing_hints import Hints, profile_of
from mooring.queue.queues import QueueOptions
from mooring.queue.scheduling_queue import SchedulingQueue

__all__ = [
    "Flight",
    "Hints",
    "Place",
    "QueueOptions",
    "QueuedPod",
    "SchedulingQueue",
    "node_changes",
    "pod_changes",
    "profile_of",
]
