"""Ten subtle bugs of living parts, written before the harness was extended by drawn mutants.

Each is of a sort that reviews miss: the second of two is forgotten, a wrong version or time is
taken, a limit is lost after an error.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.informer.reflector import Reflector
from mooring.client.leader_election import Elector
from mooring.queue.queued_pod import QueuedPod
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.removal import Removal
from mooring.scheduler.status_writer import StatusWriter
from tests.faults.planted import PlantedBug

SMALL_BUGS: Final = [
    PlantedBug(
        "announced_of_update",
        "The nomination before a binding is forgotten when a newer update leaves nominations",
        StatusWriter,
        "enqueue",
        "update.announced or before.announced",
        "update.announced",
    ),
    PlantedBug(
        "series_until_second",
        "A series of events ends six minutes after its second event, not after its last",
        Recorder,
        "_add_to_series",
        "    series.last_at_s = happened_at_s\n",
        "    if before is None:\n        series.last_at_s = happened_at_s\n",
    ),
    PlantedBug(
        "last_result_decides",
        "Of the evictions before the last one only the result of one counts",
        PreemptionExecutor,
        "_evict_victims",
        "if not all(results):",
        "if results and not results[-1]:",
    ),
    PlantedBug(
        "first_attempt_is_last",
        "The time until a pod is bound is counted from its last attempt, not from its first",
        BindingCycle,
        "_finish_binding",
        "first_s=entry.initial_attempt_s",
        "first_s=entry.attempt_started_s",
    ),
    PlantedBug(
        "acquired_at_renewal",
        "Each renewal of the lease changes the time since which it is held",
        Elector,
        "_held_lease",
        "acquire_time=before.acquire_time if is_ours else now",
        "acquire_time=now",
        "lease",
    ),
    PlantedBug(
        "list_is_a_report",
        "A list counts as a report of the watch: the wait after a second lost version is lost",
        Reflector,
        "ended",
        "has_reported = has_new_version and self._mode_in_flight is Mode.WATCH",
        "has_reported = has_new_version",
    ),
    PlantedBug(
        "lost_binding_in_old_version",
        "A pod that lost its binding is queued in the version that was bound",
        BindVerifier,
        "_requeue",
        "self._queue.add(PodInfo(newest))",
        "self._queue.add(pod)",
    ),
    PlantedBug(
        "pause_without_limit",
        "The pause of scheduling doubles without a limit while the server cannot be reached",
        BindingTasks,
        "record_unreachable",
        "min(2 * self._pause_s or PAUSE_S, PAUSE_S_MAX)",
        "2 * self._pause_s or PAUSE_S",
    ),
    PlantedBug(
        "conflict_is_certain",
        "After a conflict the removal of a user goes on with the version that was outdated",
        Removal,
        "_note_failure",
        "isinstance(error, (OutcomeUnknown, Conflict))",
        "isinstance(error, OutcomeUnknown)",
        "device",
    ),
    PlantedBug(
        "eviction_backoff_is_first",
        "The backoff after a failed eviction does not grow with the attempts of the pod",
        QueuedPod,
        "start_error_backoff",
        "max(self.consecutive_errors, self.unschedulable_count, 1)",
        "max(self.consecutive_errors, 1)",
    ),
]
