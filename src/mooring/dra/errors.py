"""Errors of the allocator. Their texts are upstream's: they become messages of pods."""

from __future__ import annotations

from mooring.errors import SchedulerError


class AllocationError(SchedulerError):
    """Devices cannot be allocated on any node: the scheduling attempt fails."""


class AllocationTimeout(AllocationError):
    """The search for devices on one node exceeded the deadline of the caller."""


class InvalidPools(SchedulerError):
    """Nothing can be allocated on this node, and one of its pools is invalid: try other nodes."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class SelectorFailed(SchedulerError):
    """A selector does not compile, or its evaluation for a device failed.

    The message begins with ``CEL compile error:`` or ``CEL runtime error:``.
    """
