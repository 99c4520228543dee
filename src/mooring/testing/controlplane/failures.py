"""What can go wrong with a control plane; both are errors of the machine, not of the caller.

::

    SchedulerError
    ├── ControlPlaneUnavailable  it cannot be had here: no Go and no network, or the build failed
    └── ControlPlaneFailed       a part of it did not start, or ended by itself
"""

from __future__ import annotations

from mooring.errors import SchedulerError

__all__ = ["ControlPlaneFailed", "ControlPlaneUnavailable"]


class ControlPlaneUnavailable(SchedulerError):
    """There are no programs to start, and they cannot be built on this machine. One line."""


class ControlPlaneFailed(SchedulerError):
    """A part of the control plane did not do what it should; ends with the end of its log."""

    def __init__(self, problem: str, *, part: str, log_tail: str = "") -> None:
        self.part = part
        self.log_tail = log_tail
        super().__init__(f"{part}: {problem}" + (f"\n{log_tail}" if log_tail else ""))
