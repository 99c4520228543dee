"""Functions that follow a run of a scenario from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.objects.pod import Pod
    from mooring.scheduler.observer import Observer
    from mooring.simulation.controllers.objects import Workload


class RunHooks(NamedTuple):
    """Functions that are called during a run; None = nothing is called.

    Attributes:
        before_instant: Called with virtual seconds before the time moves on to them; what it raises
            ends the run.
        on_instant: Called with virtual seconds at the first write of an instant.
        observer: Called for everything that the scheduler does.
        on_change: Called for every write of an object, with its kind.
        on_running: Called with a pod when it begins to run, if that is not written.
        on_workload: Called with every workload that is stored or removed: old and new.
    """

    before_instant: Callable[[float], None] | None = None
    on_instant: Callable[[float], None] | None = None
    observer: Observer | None = None
    on_change: Callable[[str, ObjectChange], None] | None = None
    on_running: Callable[[Pod], None] | None = None
    on_workload: Callable[[Workload | None, Workload | None], None] | None = None
