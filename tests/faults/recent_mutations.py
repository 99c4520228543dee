"""Bugs of what no oracle compared before: writes to the cache, nominations, limits of volumes.

Each is detected by the oracle that was written for it.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.plugins.node_volume_limits import plugin as volume_limits
from mooring.scheduler.binding_cycle import BindingCycle
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.schedule_one import Scheduler
from mooring.state.cache import Reservation
from tests.faults.planted import PlantedBug

RECENT_BUGS: Final = [
    PlantedBug(
        "released_in_place",
        "A reservation that ends removes its pod from the columns, and does not call forget",
        Reservation,
        "__exit__",
        "self._cache.forget(self.info.uid)",
        "self._cache._remove_from_node(self.info.uid)",
    ),
    PlantedBug(
        "annotated_in_place",
        "The selected node is written into the annotations that the cache has as well",
        Scheduler,
        "_prepare_binding_cycle",
        "self._reporting.placed(pod)",
        "pod.metadata.annotations['selected'] = node_name; self._reporting.placed(pod)",
    ),
    PlantedBug(
        "failing_pod_keeps_node",
        "A pod whose binding fails keeps the nomination that was written before the binding",
        BindingCycle,
        "_handle_binding_failure",
        "reason, announced=announced)",
        "reason, announced=announced, nominated=None)",
    ),
    PlantedBug(
        "victims_without_nomination",
        "A pod whose victims are evicted is not nominated to their node",
        Scheduler,
        "_handle_no_fit",
        "nominated=post_filter_result.node_name",
        "nominated=''",
        "crowd",
    ),
    PlantedBug(
        "last_driver_is_limited",
        "Of several drivers of a pod's volumes the limit of the last one alone counts",
        volume_limits,
        "_exceeds",
        "is_over_driver if is_over is None else is_over | is_over_driver",
        "is_over_driver",
    ),
    PlantedBug(
        "created_and_written_again",
        "An event without a series is written a second time as soon as it has been created",
        Recorder,
        "_write",
        "not was_created and series.event.series",
        "not was_created or series.event.series",
    ),
    PlantedBug(
        "leaked_cancellation_ends_task",
        "A plugin that leaks the cancellation of its own work ends the task of the binding",
        BindingCycle,
        "run",
        "if task is None or task.cancelling():",
        "if task is not None or task.cancelling():",
    ),
    PlantedBug(
        "lookups_are_not_shown",
        "The metric of cached results stays 0",
        SchedulerMetrics,
        "_refresh_frameworks",
        "lookups.set(count, profile, result)",
        "pass",
    ),
]
