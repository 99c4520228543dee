"""One attempt at a pod that was popped, as a block."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from mooring.queue.queued_pod import QueuedPod


class InFlightAttempt:
    """A popped pod's attempt: events are kept for it until the block ends, or it is handed over.

    It ends itself and no other: a pod that was parked and popped again inside the block is in
    flight anew, and stays so.

    Example::

        with queue.in_flight(entry) as flight:
            ...                      # decide; park the pod if no node takes it
            flight.hand_over()       # the binding goes on, and calls done() itself
    """

    __slots__ = ("_done", "_is_detached", "_number", "entry")

    def __init__(self, entry: QueuedPod, done: Callable[[QueuedPod, int], None]) -> None:
        self._done = done
        self._number = entry.attempt_number
        self._is_detached = False
        self.entry = entry

    def detach(self) -> None:
        """The attempt goes on after the block: whoever takes it over calls ``done``."""
        self._is_detached = True

    def done(self) -> None:
        """No more events are needed. May be called again."""
        self._done(self.entry, self._number)

    def __enter__(self) -> InFlightAttempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_detached or error is not None:
            self.done()
