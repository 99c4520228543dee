"""Errors of a control plane. Their causes are on the machine, not in the caller.

::

    SchedulerError
    ├── ControlPlaneUnavailable  cannot be built here: no Go and no network, or a failed build
    └── ControlPlaneFailed       a part did not start, or exited
"""

from __future__ import annotations

from mooring.errors import SchedulerError

__all__ = ["ControlPlaneFailed", "ControlPlaneUnavailable"]


class ControlPlaneUnavailable(SchedulerError):
    """The programs are missing and cannot be built on this machine. The message is one line."""


class ControlPlaneFailed(SchedulerError):
    """A part of the control plane failed; the message includes the tail of its log."""

    def __init__(self, problem: str, *, part: str, log_tail: str = "") -> None:
        self.part = part
        self.log_tail = log_tail
        super().__init__(f"{part}: {problem}" + (f"\n{log_tail}" if log_tail else ""))
