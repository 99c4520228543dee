"""Errors of a device selector: one of its text, and one of its evaluation for a device."""

from __future__ import annotations

from mooring.errors import SchedulerError


class CompileError(SchedulerError):
    """A text that is not a valid selector.

    The message is kube-scheduler's: one problem for each ``ERROR:``, with line and column (both
    from 1), the line of the source and a caret below the column.
    """


class EvaluationError(SchedulerError):
    """A selector that failed for a device, in kube-scheduler's words.

    Attributes:
        cost: Cost units spent until the failure, or None where costs were not counted.
    """

    def __init__(self, message: str, cost: int | None = None) -> None:
        super().__init__(message)
        self.cost = cost
