"""The state machine that keeps a replica equal to the API server. It does no I/O.

::

            ┌──────── 410, or a watch that is refused, or that fails repeatedly ──────┐
            ▼                                                                         │
    ┌──────────────────┐  end of the initial events                             ┌─────┴─────┐
    │ STREAM           ├───────────────────────────────────────────────────────►│ WATCH     │
    │ list by watching │                                                        │ from the  │
    └───────┬──────────┘                                                        │ last      │
            │ unsupported, or it           ┌───────────────┐  last page         │ version   │
            └─ breaks three times ────────►│ LIST by pages ├───────────────────►│           │
                                           └───────────────┘                    └───────────┘

Its driver calls ``ask`` for the next request, ``accepted`` when the server accepted it,
``received`` or ``listed`` with the data, and ``ended`` at its end, which returns the seconds to
wait. A broken watch is resumed from the last resourceVersion; a resourceVersion that the server no
longer has, or an unreadable stream, requires a new list. A server that was away, or that knows no
rights, may have been set back to a backup: it is listed until a part of the list says that it is
not older.

Source: client-go's tools/cache/reflector.go. *Differs:* a watch that the server fails to open is
resumed the first times, and not followed by a list; a list by pages is always the newest state, not
from the watch cache. A refused connection is followed by a list as well: client-go would go on from
a version that a restored server does not have.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from mooring.client.informer.replica import OnChange, Replica, is_position
from mooring.client.informer.watch_events import EventReader, WatchEvent, identity
from mooring.client.retry import Backoff
from mooring.client.transport.transport import StreamBroken, StreamUnreadable
from mooring.clock import Clock, Rng
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
from mooring.objects.codec.decode import DecodedList
from mooring.objects.kinds import Kind
from mooring.objects.meta import key

#: The server ends a watch after a random time in this range, which spreads reconnecting clients.
WATCH_S_MIN: Final = 300
WATCH_S_MAX: Final = 600

#: The server sends a bookmark every minute: if two are missing, the connection is dead.
WATCH_IDLE_S: Final = 150.0

#: Streams that may break before the end of their initial events, before listing by pages.
STREAM_FAILURES_MAX: Final = 3

#: Consecutive watches that may fail without an event, before a new list.
WATCH_FAILURES_MAX: Final = 3

#: A watch that ends sooner and without an event is a failure: retries at once would be a storm.
SHORT_WATCH_S: Final = 1.0

PAGE_SIZE: Final = 500

#: The problem of a list that no watch can continue; with its resourceVersion.
NO_VERSION: Final = "no watch can start from its resourceVersion '{}'"

_log = logging.getLogger(__name__)


class Mode(Enum):
    """The kind of a request."""

    STREAM = "stream"
    LIST = "list"
    WATCH = "watch"


class NextRequest(NamedTuple):
    """The next request.

    Attributes:
        mode: LIST is read by pages, the others are streams.
        query: Its parameters, without selectors.
        idle_s: Idle timeout of a stream.
        page_size: Objects per page; 0 for all at once.
    """

    mode: Mode
    query: tuple[tuple[str, str], ...] = ()
    idle_s: float = WATCH_IDLE_S
    page_size: int = PAGE_SIZE


class Listing:
    """An incomplete list; it is applied when it is complete."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        #: Key -> UID of objects that cannot be decoded.
        self.unreadable: dict[str, str] = {}

    def add_page(self, page: DecodedList) -> None:
        """Adds a page of a list."""
        self.objects.update((key(item), item) for item in page.items)
        identities = map(identity, page.rejected)
        self.unreadable.update((rejected.key, rejected.uid) for rejected in identities)

    def apply(self, event: WatchEvent) -> None:
        """Applies an initial event, or a change that happened meanwhile."""
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
        self.objects.pop(event.key, None)
        self.unreadable.pop(event.key, None)
        if event.type == "DELETED":
            return
        if event.obj is None:
            self.unreadable[event.key] = event.uid
        else:
            self.objects[event.key] = event.obj


class Reflector:
    """Keeps one replica equal to the API server; its driver sends the requests.

    Args:
        kind: The kind of the objects.
        on_change: Called with every change.
        clock: Measures the duration of requests.
        rng: For jitter.

    Attributes:
        replica: The objects.
        has_synced: True after the first complete list; from then on the replica can only be stale.
        last_error: The error of the last request; None once a request is accepted.
        fresh_at_s: The replica has all changes until then; monotonic seconds.
        is_following: Whether a watch is open that continues the replica.
    """

    def __init__(self, kind: Kind, on_change: OnChange, *, clock: Clock, rng: Rng) -> None:
        self.replica = Replica(on_change)
        self.has_synced = False
        self.last_error: SchedulerError | None = None
        self.fresh_at_s = -math.inf
        self.is_following = False
        self._kind = kind
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng)
        self._reader = EventReader(kind)
        self._mode = Mode.STREAM
        self._mode_in_flight = Mode.STREAM
        self._is_version_lost = False
        self._is_unpaged = False
        self._stream_failures = 0
        self._watch_failures = 0
        #: The list is to find out whether the server was set back to a backup. A part of the list
        #: in flight that is at least as new as ours says that it was not: should the rest be lost,
        #: the watch may be resumed.
        self._is_in_doubt = self._may_resume = False
        #: A watch lost its version, and none has reported anything since.
        self._is_lost_again = False
        self._listing: Listing | None = None
        self._start_version = ""
        self._started_at_s = 0.0

    def ask(self) -> NextRequest:
        """Returns the next request, which counts as started."""
        self._started_at_s = self._clock.monotonic_s()
        self._start_version = self.replica.version
        self._listing = None
        self._may_resume = False
        self._mode_in_flight = self._mode
        if self._mode is Mode.LIST:
            return NextRequest(Mode.LIST, page_size=0 if self._is_unpaged else PAGE_SIZE)
        seconds = self._rng.uniform(WATCH_S_MIN, WATCH_S_MAX)
        query = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(seconds))),
        ]
        if self._mode is Mode.STREAM:
            self._listing = Listing()
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if self.replica.version and not self._is_version_lost:
            query.append(("resourceVersion", self.replica.version))
        return NextRequest(self._mode, tuple(query))

    def accepted(self) -> None:
        """Records that the request was accepted (2xx)."""
        self.last_error = None
        self.is_following = self._mode_in_flight is Mode.WATCH

    def relist(self) -> None:
        """Makes the next request a list of the newest state, whatever the one in flight did."""
        self._mode = Mode.STREAM
        # With a version, the list could come from a server that is behind.
        self._is_version_lost = True
        self._is_in_doubt = self._may_resume = False
        self.is_following = False

    def received(self, lines: list[bytes]) -> Iterator[None]:
        """Applies lines of a stream; the driver may let other tasks run at every yield.

        Raises:
            ApiError: the server ended the stream with an error: pass it to ``ended``.
            StreamBroken: a line is invalid: pass it to ``ended``.
        """
        has_news = False
        for line in lines:
            if not line:
                continue
            event = self._reader.read(line)
            if self._listing is None:
                self._apply(event)
                has_news = True
            elif event.ends_list:
                if not is_position(event.version):
                    raise StreamUnreadable(NO_VERSION.format(event.version))
                listing, self._listing = self._listing, None
                yield from self.listed(listing, event.version)
            else:
                self._may_resume = self._is_in_doubt and not self._is_version_lost
                self._listing.apply(event)
        if has_news:
            self.fresh_at_s = self._clock.monotonic_s()

    def listed(self, listing: Listing, version: str) -> Iterator[None]:
        """Applies a complete list; the driver may let other tasks run at every yield."""
        yield from self.replica.replacing(listing.objects, listing.unreadable, version)
        self._mode = Mode.WATCH
        self._is_version_lost = False
        self._is_in_doubt = False
        self._is_unpaged = False
        self._stream_failures = 0
        self.has_synced = True
        self.fresh_at_s = self._started_at_s
        # A stream goes on behind its list.
        self.is_following = self._mode_in_flight is Mode.STREAM

    def ended(self, error: SchedulerError | None = None) -> float:
        """Records the end of the request; returns the seconds to wait before the next one.

        Args:
            error: The reason; None for a normal end.
        """
        lasted_s = self._clock.monotonic_s() - self._started_at_s
        self._listing = None
        self.last_error = error
        self.is_following = False
        if error is None and self._mode_in_flight is Mode.LIST:
            return 0.0
        has_new_version = self.replica.version != self._start_version
        if has_new_version:
            self._watch_failures = 0
        has_reported = has_new_version and self._mode_in_flight is Mode.WATCH
        if has_reported or lasted_s >= SHORT_WATCH_S:
            self._is_lost_again = False
        if isinstance(error, Gone) or _is_too_large(error):
            return self._on_lost_version(error)
        if self._mode is Mode.WATCH:
            return self._on_watch_end(
                error, is_short=not has_new_version and lasted_s < SHORT_WATCH_S
            )
        if self._mode is Mode.STREAM:
            return self._on_stream_end(error)
        # The list by pages failed too: start again with the mode that is cheapest for the server.
        self._mode = Mode.STREAM
        self._stream_failures = 0
        return self._wait_s(error)

    def _apply(self, event: WatchEvent) -> None:
        self.replica.apply(event)
        if event.problem is not None:
            _log.warning(
                "cannot decode object",
                extra={"kind": self._kind.name, "key": event.key, "problem": str(event.problem)},
            )

    def _on_lost_version(self, error: SchedulerError | None) -> float:
        """Handles a server that no longer has our resourceVersion, or does not have it yet."""
        if self._mode is Mode.WATCH:
            # The list must be at least as new as the replica, which never goes back in time.
            self._mode = Mode.STREAM
            # Lists are expensive: those of a server that loses each version at once have waits.
            is_again, self._is_lost_again = self._is_lost_again, True
            return self._wait_s(error) if is_again or _is_too_large(error) else 0.0
        was_lost, self._is_version_lost = self._is_version_lost, True
        if self._mode is Mode.LIST:
            # Reading the pages took longer than the server keeps a resourceVersion.
            was_unpaged, self._is_unpaged = self._is_unpaged, True
            return self._wait_s(error) if was_unpaged else 0.0
        return self._wait_s(error) if was_lost else 0.0

    def _on_watch_end(self, error: SchedulerError | None, *, is_short: bool) -> float:
        if isinstance(error, StreamUnreadable):
            # It would be unreadable again; a list skips it.
            self._mode = Mode.STREAM
            return self._wait_s(error)
        if error is None or isinstance(error, StreamBroken):
            if not is_short:
                return 0.0
            _log.warning(
                "watch ended at once without an event",
                extra={"kind": self._kind.name, "version": self.replica.version},
            )
            return self._wait_s(error)
        is_doubtful = isinstance(error, ServerError) and not isinstance(error, TooManyRequests)
        self._watch_failures += is_doubtful
        # A server that was away may have been set back to a backup. It accepts a watch from a
        # version of the future, and would be silent until it is there again.
        self._is_in_doubt = isinstance(error, Unreachable | Forbidden | Unauthorized)
        is_refused = isinstance(error, BadRequest | Invalid)
        if self._is_in_doubt or is_refused or self._watch_failures >= WATCH_FAILURES_MAX:
            self._watch_failures = 0
            self._mode = Mode.STREAM
        return self._wait_s(error)

    def _on_stream_end(self, error: SchedulerError | None) -> float:
        """Handles a stream that ended before the end of its initial events."""
        transient = (StreamBroken, Unreachable, ServerError, TooManyRequests)
        if not isinstance(error, transient):
            # Refused, or ended without the bookmark: the server does not support it.
            self._mode = Mode.LIST
            return 0.0
        if self._may_resume:
            self._is_in_doubt, self._mode = False, Mode.WATCH
            return self._wait_s(error)
        self._stream_failures += 1
        if self._stream_failures >= STREAM_FAILURES_MAX:
            self._mode = Mode.LIST
        return self._wait_s(error)

    def _wait_s(self, error: SchedulerError | None) -> float:
        requested_s = error.retry_after_s if isinstance(error, ApiError) else None
        return self._backoff.next_s(at_least_s=requested_s)


def _is_too_large(error: SchedulerError | None) -> bool:
    """Returns whether the server is older than our version: it lags, or was restored."""
    return isinstance(error, ServerError) and "Too large resource version" in str(error)
