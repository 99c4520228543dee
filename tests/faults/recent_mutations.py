"""Bugs of what no oracle compared before: limits of volumes, repeated writes, leaked cancellations.

Each is detected by the oracle that was written for it.
"""

from __future__ import annotations

from typing import Final

from mooring.client.event_recorder import Recorder
from mooring.plugins.node_volume_limits import plugin as volume_limits
from mooring.scheduler.binding_cycle import BindingCycle
from tests.faults.planted import PlantedBug

RECENT_BUGS: Final = [
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
]
