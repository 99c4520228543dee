"""The scheduling queue: a synchronous state machine; the clock is passed in."""

from mooring.queue.event_diff import node_changes, pod_changes
from mooring.queue.in_flight_attempt import InFlightAttempt
from mooring.queue.queued_pod import QueuedPod, QueueName
from mooring.queue.queueing_hints import QueueingHints, profile_of
from mooring.queue.queues import FLUSH_INTERVAL_S, QueueOptions
from mooring.queue.scheduling_queue import SchedulingQueue

__all__ = [
    "FLUSH_INTERVAL_S",
    "InFlightAttempt",
    "QueueName",
    "QueueOptions",
    "QueuedPod",
    "QueueingHints",
    "SchedulingQueue",
    "node_changes",
    "pod_changes",
    "profile_of",
]
