"""A plain model of the requests of an informer: which one is next, and after which wait.

It follows the diagram in the docstring of ``reflector.py`` and client-go's
``tools/cache/reflector.go``, and shares no code with the reflector. The version of the replica
is given: how objects change is compared elsewhere.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from mooring.client.transport.transport import StreamBroken, StreamUnreadable
from mooring.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

FIRST_WAIT_S: Final = 0.8
LONGEST_WAIT_S: Final = 30.0
QUIET_S: Final = 120.0
FAILURES: Final = 3
SHORT_S: Final = 1.0

NO_WAIT: Final = (0.0, 0.0)


class ExpectedRequest(NamedTuple):
    """The next request: "stream", "list" or "watch", its version, and whether it has pages."""

    mode: str
    version: str = ""
    is_paged: bool = True


class ModelReflector:
    """The state of one informer.

    Attributes:
        last_error: As of the reflector, like the following ones.
        has_synced: See above.
        fresh_at_s: See above.
        is_following: See above.
    """

    def __init__(self) -> None:
        self.last_error: SchedulerError | None = None
        self.has_synced = False
        self.fresh_at_s = -math.inf
        self.is_following = False
        #: What the next request is, what the one in flight was, and what it is by now.
        self.mode = self.sent = self.phase = "stream"
        self._names_version = self._is_paged = True
        self._broken_streams = self._failed_watches = 0
        #: Whether a list is due only to find out if the server is older; and whether it is known
        #: not to be.
        self._doubts = self._is_sure = False
        self._has_just_lost = False
        self._started_at_s = 0.0
        self._started_from = ""
        self._wait_s = FIRST_WAIT_S
        self._waited_at_s = -math.inf

    def ask(self, now_s: float, version: str) -> ExpectedRequest:
        """Returns the request that is sent now."""
        self._started_at_s, self._started_from = now_s, version
        self.sent = self.phase = self.mode
        self._is_sure = False
        if self.mode == "list":
            return ExpectedRequest("list", is_paged=self._is_paged)
        return ExpectedRequest(self.mode, version if self._names_version else "")

    def accepted(self) -> None:
        """Records that the request was accepted."""
        self.last_error = None
        self.is_following = self.sent == "watch"

    def heard(self) -> None:
        """Records a part of a list: a server that is older than us has none at our version."""
        if self._doubts and self._names_version:
            self._is_sure = True

    def listed(self) -> None:
        """Records a complete list; its stream is a watch from now on."""
        self._doubts = self._is_sure = False
        self.mode = self.phase = "watch"
        self._names_version = self._is_paged = self.has_synced = True
        self._broken_streams = 0
        self.fresh_at_s = self._started_at_s
        self.is_following = self.sent == "stream"

    def relist(self) -> None:
        """Records that the next request has to list the newest state."""
        self.mode = "stream"
        self._names_version = self.is_following = False
        self._doubts = self._is_sure = False

    def ended(
        self, now_s: float, version: str, error: SchedulerError | None
    ) -> tuple[float, float]:
        """Returns the shortest and the longest wait after the end of a request."""
        self.last_error, self.is_following = error, False
        if self.sent == "list" and error is None:
            return NO_WAIT
        is_new = version != self._started_from
        is_long = now_s - self._started_at_s >= SHORT_S
        if is_new:
            self._failed_watches = 0
        if is_long or (is_new and self.sent == "watch"):
            self._has_just_lost = False
        is_future = isinstance(error, ServerError) and "Too large resource version" in str(error)
        if isinstance(error, Gone) or is_future:
            waits = self._loses_version(is_future=is_future)
        elif self.phase == "watch":
            waits = self._watch_ends(error, is_good=is_new or is_long)
        elif self.phase == "stream":
            waits = self._stream_ends(error)
        else:
            self.mode, self._broken_streams, waits = "stream", 0, True
        return self._backoff(now_s, error) if waits else NO_WAIT

    def _loses_version(self, *, is_future: bool) -> bool:
        if self.phase == "watch":
            self.mode = "stream"
            waits, self._has_just_lost = self._has_just_lost or is_future, True
            return waits
        if self.phase == "list":
            waits = not self._is_paged
            self._is_paged = self._names_version = False
            return waits
        waits, self._names_version, self._is_sure = not self._names_version, False, False
        return waits

    def _watch_ends(self, error: SchedulerError | None, *, is_good: bool) -> bool:
        if isinstance(error, StreamUnreadable):
            self.mode = "stream"
            return True
        if error is None or isinstance(error, StreamBroken):
            return not is_good
        if isinstance(error, ServerError):
            self._failed_watches += 1
        refusals = BadRequest | Unauthorized | Forbidden | Invalid | Unreachable
        if isinstance(error, refusals) or self._failed_watches == FAILURES:
            self.mode, self._failed_watches = "stream", 0
            self._doubts = isinstance(error, Unauthorized | Forbidden | Unreachable)
        return True

    def _stream_ends(self, error: SchedulerError | None) -> bool:
        if not isinstance(error, StreamBroken | Unreachable | ServerError | TooManyRequests):
            self.mode = "list"
            return False
        if self._is_sure:
            self.mode, self._doubts = "watch", False
            return True
        self._broken_streams += 1
        if self._broken_streams >= FAILURES:
            self.mode = "list"
        return True

    def _backoff(self, now_s: float, error: SchedulerError | None) -> tuple[float, float]:
        if now_s - self._waited_at_s > QUIET_S:
            self._wait_s = FIRST_WAIT_S
        self._waited_at_s, least_s = now_s, self._wait_s
        self._wait_s = min(2 * least_s, LONGEST_WAIT_S)
        requested_s = (isinstance(error, ApiError) and error.retry_after_s) or 0.0
        return max(least_s, requested_s), max(2 * least_s, requested_s)
