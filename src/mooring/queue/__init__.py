"""Where pods wait until they are tried: a sync state machine without a clock of its own."""

from mooring.queue.changes import node_changes, pod_changes
from mooring.queue.flight import Flight
from mooring.queue.hints import Hints, profile_of
from mooring.queue.places import QueueOptions
from mooring.queue.queued_pod import Place, QueuedPod
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
