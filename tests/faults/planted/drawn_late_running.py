"""Later bugs at lines of the running parts that a seed drew."""

from __future__ import annotations

from typing import Final

from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.binding_tasks import BindingTasks
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
]
