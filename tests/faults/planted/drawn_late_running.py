"""Later bugs at lines of the running parts that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.extenders.http import HttpExtenderTransport
from mooring.framework.runtime import with_extenders
from mooring.scheduler import bind_pod, preemption
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.scheduler.with_extenders import ExtenderScheduler
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "drain_waits_for_permit",
        "A pod that waits in Permit delays the end of the scheduler",
        BindingCycle,
        "_bind",
        "with self._bindings.waiting_in_permit():",
        "with self._bindings.outside_request():",
        runs="cycle",
        seed=3,
    ),
    PlantedBug(
        "other_tasks_are_idle_bindings",
        "The wait of a task that is no binding counts as that of a binding",
        BindingTasks,
        "waiting_for_object",
        "is_binding = asyncio.current_task() in self._running",
        "is_binding = asyncio.current_task() is not None",
        runs="slots",
        seed=0,
    ),
    PlantedBug(
        "terminating_during_calls",
        "A pod whose deletion begins during the calls of extenders is placed",
        ExtenderScheduler,
        "_is_deleted_or_bound",
        "return live.metadata.deletion_timestamp is not None and self._should_skip(PodInfo(live))",
        "return self._should_skip(entry.pod)",
        runs="cycle",
        seed=22,
    ),
    PlantedBug(
        "refused_after_no_answer",
        "A refusal after a try without an answer fails at once, without a read of the pod",
        bind_pod,
        "bind_pod",
        "if arrives_until_s < started_at_s and not isinstance(error, Conflict):",
        "if not isinstance(error, Conflict):",
        runs="binding",
        seed=1,
    ),
    PlantedBug(
        "conflicts_hide_a_reservation",
        "After five conflicts a claim is not read, though a write had no answer",
        Reservation,
        "write_until_known",
        "stored = await self._stored() if arrives_until_s > -math.inf else None",
        "stored = None",
        runs="reservation",
        seed=0,
    ),
    PlantedBug(
        "timeouts_are_sent",
        "A call that timed out before it was sent counts as one that may have an effect",
        HttpExtenderTransport,
        "__call__",
        "raise NoResponse(message, is_sent=is_sent) from error",
        "raise NoResponse(message) from error",
        runs="calls",
        seed=10,
    ),
    PlantedBug(
        "filters_with_the_first_states",
        "After the calls of extenders the node is filtered with the states from before them",
        with_extenders,
        "still_fits",
        "filtering.run_filters(framework, later,",
        "filtering.run_filters(framework, cycle,",
        runs="cycle",
        seed=41,
    ),
    PlantedBug(
        "uncleared_nomination_spares",
        "The last victim stays if a nomination could not be cleared",
        PreemptionExecutor,
        "_evict_victims",
        "return await self._evict(run, last) and is_evicted",
        "return is_evicted and await self._evict(run, last)",
        runs="preemption",
        seed=0,
    ),
    PlantedBug(
        "waits_for_cancelled_victims",
        "A preemptor waits for the deletion of a victim whose binding was cancelled",
        preemption,
        "_is_settled",
        "return _is_terminating(live, uid) or (live is not None and not live.spec.node_name)",
        "return _is_terminating(live, uid)",
        runs="preemption",
        seed=0,
    ),
    PlantedBug(
        "next_check_after_the_answer",
        "A binding is checked again half a minute after the answer, not after it was due",
        BindVerifier,
        "_check",
        "check_at_s = binding.check_at_s + CONFIRM_TIMEOUT_S",
        "check_at_s = self._clock.monotonic_s() + CONFIRM_TIMEOUT_S",
        runs="verify",
        seed=0,
    ),
    PlantedBug(
        "placed_pod_is_queued",
        "A pod that lost its binding is queued though the informer has it on a node",
        BindVerifier,
        "_requeue",
        "if newest is None or newest.metadata.uid != pod.uid or newest.spec.node_name:",
        "if newest is None or newest.metadata.uid != pod.uid:",
        runs="verify",
        seed=3,
    ),
]
