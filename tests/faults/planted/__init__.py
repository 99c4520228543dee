"""Bugs that are planted, and the runs that detect them.

One module for each part of the scheduler has bugs by the change of one line. ``whole_runs`` and the
modules beside it have those that need a function of their own, and ``device_tests`` those that
recorded calls of the real allocator, or unit tests, detect.
"""

from __future__ import annotations

from typing import Final

from tests.faults.planted import (
    access,
    attempts,
    bindings,
    cache,
    claims,
    contracts,
    devices,
    drawn,
    drawn_late_running,
    drawn_late_state,
    drawn_later,
    drawn_mixed,
    drawn_plugins,
    drawn_running,
    drawn_state,
    extenders,
    framework,
    informers,
    leases,
    outside_chance,
    outside_draws,
    outside_functions,
    outside_lifetimes,
    outside_running,
    outside_sequences,
    outside_state,
    plugins,
    preemptions,
    queue,
    requests,
    results,
    scheduling,
    volumes,
    writes,
)
from tests.faults.planted.bug import PlantedBug

#: Every bug by the change of one line.
ALL_BUGS: Final = (
    *access.BUGS,
    *attempts.BUGS,
    *bindings.BUGS,
    *cache.BUGS,
    *claims.BUGS,
    *contracts.BUGS,
    *devices.BUGS,
    *drawn.BUGS,
    *drawn_late_running.BUGS,
    *drawn_late_state.BUGS,
    *drawn_later.BUGS,
    *drawn_mixed.BUGS,
    *drawn_plugins.BUGS,
    *drawn_running.BUGS,
    *drawn_state.BUGS,
    *extenders.BUGS,
    *framework.BUGS,
    *informers.BUGS,
    *leases.BUGS,
    *outside_chance.BUGS,
    *outside_draws.BUGS,
    *outside_functions.BUGS,
    *outside_lifetimes.BUGS,
    *outside_running.BUGS,
    *outside_sequences.BUGS,
    *outside_state.BUGS,
    *plugins.BUGS,
    *preemptions.BUGS,
    *queue.BUGS,
    *requests.BUGS,
    *results.BUGS,
    *scheduling.BUGS,
    *volumes.BUGS,
    *writes.BUGS,
)

__all__ = ["ALL_BUGS", "PlantedBug"]
