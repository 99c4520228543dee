"""Bugs that no test detected when they were planted; each has a unit test since.

They were found by the change of one expression at a time in the packages that run live. Which
seeds detect them as well: ``python -m tests.faults.hunts``.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.reflector import Listing, Reflector
from mooring.client.leader_election import Elector
from mooring.client.rest.requested_waits import RequestedWaits
from mooring.queue import quarantine
from mooring.queue.backoff_queue import BackoffQueue
from mooring.queue.heap import PodHeap
from mooring.queue.queued_pod import QueuedPod
from mooring.queue.queues import PodQueues
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.scheduler.bind_verification import BindVerifier
from mooring.state.columns.labels import LabelColumns
from mooring.state.nominator import Nominator
from tests.faults.planted import PlantedBug

_QUEUE: Final = [
    PlantedBug(
        "stays_in_old_queue",
        "A pod that is activated stays in the queue that it was in, too",
        PodQueues,
        "move_to_active",
        "    self._leave(entry)\n",
        "    pass\n",
    ),
    PlantedBug(
        "stale_entries_without_order",
        "After stale entries are dropped the heap is in no order",
        PodHeap,
        "_compact",
        "heapq.heapify(self._items)",
        "self._items.reverse()",
    ),
    PlantedBug(
        "removals_are_kept",
        "A removal never drops stale entries of the heap",
        PodHeap,
        "remove",
        "    self._compact()\n",
        "    pass\n",
    ),
    PlantedBug(
        "backoff_from_attempt",
        "The backoff after a failed eviction counts from the end of the attempt",
        QueuedPod,
        "start_error_backoff",
        "self.timestamp_s = now_s",
        "pass",
        "crowd",
    ),
    PlantedBug(
        "backoff_does_not_grow",
        "The backoff after a failed eviction does not grow with the attempts",
        QueuedPod,
        "start_error_backoff",
        "max(self.consecutive_errors, self.unschedulable_count, 1)",
        "1",
        "crowd",
    ),
    PlantedBug(
        "first_of_list_activated",
        "Of several pods that a plugin activates one that is quarantined ends the list",
        SchedulingQueue,
        "activate",
        "continue",
        "break",
    ),
    PlantedBug(
        "flush_is_no_event",
        "A pod in flight is not requeued by the flush of the pods that wait for too long",
        SchedulingQueue,
        "_flush_unschedulable_leftover",
        "self._in_flight.record(event, None, None)",
        "pass",
    ),
    PlantedBug(
        "quarantined_popped_early",
        "A quarantined pod is tried as soon as no other pod is active",
        BackoffQueue,
        "pop_early",
        "return self._refused.pop()",
        "return self._refused.pop() or self._quarantined.pop()",
    ),
    PlantedBug(
        "quarantine_outlives_attempt",
        "A pod that was quarantined once is quarantined after each refusal",
        PodQueues,
        "pop",
        "entry.quarantine_s = 0.0",
        "pass",
    ),
    PlantedBug(
        "annotations_are_no_edit",
        "A change of annotations does not end a quarantine",
        quarantine,
        "is_edited",
        "or before.annotations != after.annotations",
        "",
    ),
]

_STATE: Final = [
    PlantedBug(
        "first_label_column",
        "The labels of a changed node are updated in the first column only",
        LabelColumns,
        "put",
        "in self._columns.items():",
        "in list(self._columns.items())[:1]:",
    ),
    PlantedBug(
        "first_nomination_by_name",
        "A nomination is removed by name only if it is the first one of a node",
        Nominator,
        "remove_by_key",
        "for info in list(pods.values()):",
        "for info in list(pods.values())[:1]:",
    ),
]

_SCHEDULER: Final = [
    PlantedBug(
        "late_answer_decides",
        "A pod that is bound while the verification reads it is scheduled again",
        BindVerifier,
        "_check",
        "if self._unconfirmed.get(uid) is not binding or not self._cache.is_assumed(uid):",
        "if False:",
    ),
    PlantedBug(
        "verification_ignores_retry_after",
        "The verification of a binding reads again at once, though the server asked to wait",
        BindVerifier,
        "_check",
        "self._clock.monotonic_s() + requested_wait_s(error)",
        "self._clock.monotonic_s()",
    ),
    PlantedBug(
        "bound_pod_read_every_time",
        "A pod that is bound, but not reported, is read at each verification",
        BindVerifier,
        "_check",
        "self._unconfirmed[uid] = binding._replace(check_at_s=check_at_s)\n        return\n    del",
        "return\n    del",
    ),
]

_CLIENT: Final = [
    PlantedBug(
        "unpaged_for_ever",
        "After one list without pages every later one has none",
        Reflector,
        "listed",
        "self._is_unpaged = False",
        "pass",
    ),
    PlantedBug(
        "unreachable_is_doubtful",
        "Three watches that do not reach the server are followed by a list",
        Reflector,
        "_on_watch_end",
        "isinstance(error, ServerError) and not isinstance(error, TooManyRequests)",
        "not isinstance(error, TooManyRequests)",
    ),
    PlantedBug(
        "old_stream_failures_count",
        "Streams that broke before the last list count for the next one",
        Reflector,
        "listed",
        "self._stream_failures = 0",
        "pass",
    ),
    PlantedBug(
        "readable_again_is_unreadable",
        "An unreadable object that is deleted during a list is kept",
        Listing,
        "apply",
        "    self.unreadable.pop(event.key, None)\n",
        "    pass\n",
    ),
    PlantedBug(
        "empty_line_ends_batch",
        "An empty line of a watch ends its batch",
        Reflector,
        "received",
        "continue",
        "break",
    ),
    PlantedBug(
        "lost_lease_is_renewed",
        "A lease that was lost can be renewed afterwards",
        Elector,
        "keep",
        "self._is_over = True",
        "pass",
        "pause",
    ),
    PlantedBug(
        "takeover_after_a_period",
        "A candidate does not try when the lease expires, but a period later",
        Elector,
        "_wait_s",
        "min(wait_s, left_s + EXPIRY_JITTER_S * share) if left_s > 0 else wait_s",
        "wait_s",
        "lease",
    ),
    PlantedBug(
        "refused_again_is_oldest",
        "An object that is refused again is forgotten as if it had not been",
        RequestedWaits,
        "note",
        "self._waits.pop(key, None)",
        "pass",
    ),
    PlantedBug(
        "active_series_keeps_others",
        "A series of events that goes on keeps the others from ending",
        Recorder,
        "_finish",
        "continue",
        "break",
    ),
]

UNNOTICED_BUGS: Final = [*_QUEUE, *_STATE, *_SCHEDULER, *_CLIENT]
