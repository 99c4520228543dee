"""Subtle bugs that only two parts together show: scheduler and client, queue and cache, preemption
and writes.

They were planted after the models and the runs of single parts had been written, in parts that had
no bug planted at that place. How many are detected is in docs/concepts/faults.md.
"""

from __future__ import annotations

from typing import Final

from mooring.extenders.http_extender import HTTPExtender
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.schedule_one import Scheduler
from tests.faults.planted import PlantedBug

JOINT_BUGS: Final = [
    PlantedBug(
        "assigned_is_silent",
        "A pod that is bound requeues no pod that waits for company",
        EventHandlers,
        "_on_assigned",
        "self._queue.move(POD_ASSIGNED, None, new)",
        "pass",
    ),
    PlantedBug(
        "lost_binding_is_silent",
        "The resources of a lost binding requeue no pod",
        BindVerifier,
        "_requeue",
        "self._queue.move(POD_GONE, placed.info.pod, None, only=lambda other: other.uid != "
        "pod.uid)",
        "pass",
    ),
    PlantedBug(
        "lost_binding_of_namesake",
        "A lost binding queues a new pod of the same name once more",
        BindVerifier,
        "_requeue",
        "or newest.metadata.uid != pod.uid ",
        "",
    ),
    PlantedBug(
        "allowed_and_deleted",
        "A pod that is deleted after Permit has allowed it keeps its resources",
        EventHandlers,
        "_release_assumed",
        "if waiting is not None and waiting.status is None:",
        "if waiting is not None:",
    ),
    PlantedBug(
        "status_of_bound_pod",
        "What the status writer remembers of a pod that another scheduler has bound stays",
        Reporting,
        "failed_for_good",
        "self._writer.forget(pod.uid)",
        "pass",
    ),
    PlantedBug(
        "nomination_of_deleted",
        "A pod that is deleted during its attempt stays nominated",
        Scheduler,
        "_handle_scheduling_failure",
        "self._cache.nominator.remove(entry.uid)",
        "pass",
        "crowd",
    ),
    PlantedBug(
        "nomination_of_namesake",
        "A preemption clears the nomination of a new pod of the same name",
        PreemptionExecutor,
        "_clear_lower_priority_nominations",
        "live.metadata.uid == pod.uid and ",
        "",
        "crowd",
    ),
    PlantedBug(
        "conflict_is_eviction",
        "A deletion of a victim that is refused with Conflict counts as done",
        Evictor,
        "evict",
        "if isinstance(error, Conflict) and await self._exists(pod):",
        "if False:",
        "crowd",
    ),
    PlantedBug(
        "terminating_is_evicted",
        "A victim that is terminating already is deleted once more",
        PreemptionExecutor,
        "start",
        "if pod.metadata.deletion_timestamp is None",
        "if True",
        "crowd",
    ),
    PlantedBug(
        "bound_elsewhere_by_extender",
        "A pod that is on another node counts as bound by the extender",
        HTTPExtender,
        "_is_bound",
        "if bound_node and bound_node != node_name:",
        "if False:",
        "extender",
    ),
]
