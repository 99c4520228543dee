"""Ten more subtle bugs that two parts show together, written before it was tried what detects them.

How many are detected is in docs/concepts/faults.md.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.scheduler import binding_cycle
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.preemption import PreemptionExecutor
from tests.faults.planted import PlantedBug

FRESH_BUGS: Final = [
    PlantedBug(
        "announced_is_forgotten",
        "A nomination that was written before a failed binding is not cleared",
        BindingCycle,
        "_handle_binding_failure",
        "binding_ctx.node_name if binding_ctx.is_announced else None",
        "None",
    ),
    PlantedBug(
        "gated_is_nominated",
        "A pod that is gated when it is created counts as nominated",
        EventHandlers,
        "_on_pending",
        "if named and self._queue.queue_of(info.uid) is not QueueName.GATED:",
        "if named:",
    ),
    PlantedBug(
        "older_preemption_ends_newer",
        "The end of a preemption ends a newer one of the same pod",
        PreemptionExecutor,
        "_supervise",
        "if self._running.get(uid) is run:",
        "if uid in self._running:",
        "crowd",
    ),
    PlantedBug(
        "restored_is_silent",
        "A bound pod that is pending after a restore requeues no pod",
        EventHandlers,
        "_on_lost_binding",
        "self._queue.move(POD_GONE, placed.info.pod, None)",
        "pass",
    ),
    PlantedBug(
        "forgotten_is_verified",
        "A binding that was given up during its verification is given up again",
        BindVerifier,
        "_check",
        " or not self._cache.is_assumed(uid)",
        "",
    ),
    PlantedBug(
        "preempted_goes_on",
        "A pod that is preempted at the end of PreBind is bound",
        PodsInPreBind,
        "run",
        "    if pod.cancel_message:\n        raise SchedulerError(pod.cancel_message)\n    return",
        "    return",
        "crowd",
    ),
    PlantedBug(
        "nominated_in_memory",
        "The deletion of a pod whose nomination is not written yet requeues no pod",
        EventHandlers,
        "_on_pod_deleted",
        "self._cache.nominator.node_of(uid) or ",
        "",
        "crowd",
    ),
    PlantedBug(
        "activated_twice",
        "Pods that were activated after Permit are activated once more after the binding",
        binding_cycle,
        "activate_pods",
        "cycle.pods_to_activate.clear()",
        "pass",
    ),
    PlantedBug(
        "busy_series_ends",
        "A series of events ends while it is being written",
        Recorder,
        "_finish",
        "series.event.metadata.name in self._writes",
        "False",
    ),
    PlantedBug(
        "lost_lease_is_failure",
        "A lost lease counts as a failed eviction",
        PreemptionExecutor,
        "_evict",
        "except LeaseLost:",
        "except ZeroDivisionError:",
        "lease",
    ),
]
