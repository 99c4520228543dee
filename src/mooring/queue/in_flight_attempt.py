"""The attempt at a popped pod, as a context manager."""

from __future__ import annotations

from collections.abc import Callable

from mooring.queue.queued_pod import QueuedPod


class InFlightAttempt:
    """The attempt at a popped pod: events are recorded for it until the block ends.

    It ends itself and no other attempt: a pod that was requeued and popped again inside the block
    is in flight with a new number, and stays so.

    Example::

        with queue.in_flight(entry) as flight:
            ...                      # schedule; requeue the pod if no node fits
            flight.hand_over()       # the binding goes on, and calls done() itself
    """

    __slots__ = ("_done", "_has_ended", "_is_detached", "_number", "entry")

    def __init__(self, entry: QueuedPod, done: Callable[[QueuedPod, int], None]) -> None:
        self._done = done
        self._number = entry.attempt_number
        self._is_detached = self._has_ended = False
        self.entry = entry

    def detach(self) -> None:
        """Lets the attempt go on after the block; the binding cycle calls ``done``."""
        self._is_detached = True

    def done(self) -> None:
        """Ends the recording of events. A second call does nothing."""
        if not self._has_ended:
            self._has_ended = True
            self._done(self.entry, self._number)

    def __enter__(self) -> InFlightAttempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._is_detached or error is not None:
            self.done()
