"""Ten more subtle bugs of two parts, written before it was tried what detects them.

How many are detected is in docs/concepts/faults.md.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.client.leader_election import Elector
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.volume_binding.bind_volumes import BindProgress
from mooring.scheduler import bind_pod
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.schedule_one import Scheduler
from mooring.state.cache import Cache
from tests.faults.planted import PlantedBug

LATER_BUGS: Final = [
    PlantedBug(
        "first_conflict_is_final",
        "A binding that is refused with Conflict at the first try counts as failed unread",
        bind_pod,
        "bind_pod",
        " and not isinstance(error, Conflict)",
        "",
    ),
    PlantedBug(
        "nomination_of_popped",
        "A nomination that an attempt leaves as it is, is that of the version that was popped",
        Scheduler,
        "_handle_scheduling_failure",
        "pod.status.nominated_node_name if nominated is None",
        "entry.pod.status.nominated_node_name if nominated is None",
        "crowd",
    ),
    PlantedBug(
        "uncleared_is_success",
        "A preemption succeeds although a nomination could not be cleared",
        PreemptionExecutor,
        "_evict_victims",
        "return await self._evict(run, last) and is_evicted",
        "return await self._evict(run, last)",
        "crowd",
    ),
    PlantedBug(
        "buffered_last_version",
        "A deletion that is merged with a buffered change loses its last version",
        EventHandlers,
        "_buffer",
        "change._replace(old=before.old)",
        "ObjectChange(before.old, change.new)",
        "extender",
    ),
    PlantedBug(
        "tracked_anew_is_read",
        "A binding that is tracked anew while others are verified is verified at once",
        BindVerifier,
        "check_overdue",
        " and self._unconfirmed.get(uid) is binding",
        "",
    ),
    PlantedBug(
        "reference_without_uid",
        "A volume whose reference to the claim has lost its UID counts as bound",
        BindProgress,
        "_check_binding",
        " or not volume.spec.claim_ref.uid",
        "",
        "volume",
    ),
    PlantedBug(
        "confirmed_is_nominated",
        "A pod that is confirmed where it was assumed stays nominated",
        Cache,
        "put_pod",
        "self._assumed.pop(info.uid, None)\n            self.nominator.remove(info.uid)",
        "self._assumed.pop(info.uid, None)",
    ),
    PlantedBug(
        "settled_is_preempted",
        "A victim that Permit has allowed already counts as preempted",
        WaitingPod,
        "preempt",
        "return was_waiting",
        "return True",
        "crowd",
    ),
    PlantedBug(
        "count_of_first_write",
        "Events that repeat while the first one is being written are not written after it",
        Recorder,
        "_write",
        "Retry(0.0) if not was_created and series.event.series is not None else None",
        "None",
    ),
    PlantedBug(
        "leads_after_release",
        "A renewal that is answered after the release leads again",
        Elector,
        "release",
        "self._is_over = True",
        "pass",
        "lease",
    ),
]
