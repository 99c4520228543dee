"""What to ask the API server next, so that a replica stays equal to it: decisions without sockets.

::

            ┌───────────────── 410, or a watch that fails again and again ────────────┐
            ▼                                                                         │
    ┌──────────────────┐  end of the initial events                             ┌─────┴─────┐
    │ STREAM           ├───────────────────────────────────────────────────────►│ WATCH     │
    │ list by watching │                                                        │ from the  │
    └───────┬──────────┘                                                        │ last      │
            │ the server cannot, or it     ┌───────────────┐  last page         │ version   │
            └─ breaks three times ────────►│ LIST by pages ├───────────────────►│           │
                                           └───────────────┘                    └───────────┘

Whoever drives it asks for the next request (``ask``), says that it was accepted (``accepted``),
hands over what comes (``received``, ``listed``), and says how it ended (``ended``), which tells how
long to wait. A watch that merely breaks is taken up again where it broke; only a position that the
server has forgotten, or from which nothing can be read, costs a list.

Source: client-go's tools/cache/reflector.go. *Differs:* a watch that ends with an error is resumed
and not followed by a list; a list by pages is always the newest state, not one from some cache.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from mooring.client.informer.replica import OnChange, Replica
from mooring.client.informer.watch_events import EventReader, WatchEvent, identity
from mooring.client.retry import Backoff
from mooring.client.transport.transport import StreamBroken, StreamUnreadable
from mooring.clock import Clock, Rng
from mooring.errors import (
    ApiError,
    BadRequest,
    Gone,
    Invalid,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.codec.decode import DecodedList
from mooring.objects.kinds import Kind
from mooring.objects.meta import key

#: The server is asked to end a watch after a random time in between, so that clients spread.
WATCH_S_MIN: Final = 300
WATCH_S_MAX: Final = 600

#: The server sends a bookmark every minute: two of them missing, and the connection is dead.
WATCH_IDLE_S: Final = 150.0

#: Streams that break before the end of their initial events, before the list is read by pages.
STREAM_FAILURES_MAX: Final = 3

#: Watches in a row that fail without an event, before the position itself is doubted.
WATCH_FAILURES_MAX: Final = 3

#: A watch that ends sooner and brought nothing new is a failure: without a wait it were a storm.
SHORT_WATCH_S: Final = 1.0

PAGE_SIZE: Final = 500

_log = logging.getLogger(__name__)


class Mode(Enum):
    """What kind of request comes next."""

    STREAM = "stream"
    LIST = "list"
    WATCH = "watch"


class Ask(NamedTuple):
    """The next request.

    Attributes:
        mode: LIST is read by pages, the others are streams.
        query: Its parameters, selectors excepted.
        idle_s: How long a stream may be silent.
        page_size: Objects of a page; 0 for all of them at once.
    """

    mode: Mode
    query: tuple[tuple[str, str], ...] = ()
    idle_s: float = WATCH_IDLE_S
    page_size: int = PAGE_SIZE


class Listing:
    """A list that is not complete yet: nothing of it counts before its end."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        #: Key -> UID of those that are there but cannot be read.
        self.unreadable: dict[str, str] = {}

    def take_in(self, page: DecodedList) -> None:
        """Takes in a page of a list."""
        self.objects.update((key(item), item) for item in page.items)
        lost = map(identity, page.rejected)
        self.unreadable.update((who.key, who.uid) for who in lost)

    def apply(self, event: WatchEvent) -> None:
        """Takes in an initial event, or one that happened meanwhile."""
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
    """Keeps one replica equal to the API server, given somebody who carries its requests.

    Args:
        kind: Of the objects.
        on_change: Told of every difference.
        clock: To see how long requests took.
        rng: For jitter.

    Attributes:
        replica: The objects.
        has_synced: Whether a whole list was taken in; from then on the replica is only ever late.
        last_error: Why the last request failed; None as soon as one is accepted.
    """

    def __init__(self, kind: Kind, on_change: OnChange, *, clock: Clock, rng: Rng) -> None:
        self.replica = Replica(on_change)
        self.has_synced = False
        self.last_error: SchedulerError | None = None
        self._kind = kind
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng)
        self._reader = EventReader(kind)
        self._mode = Mode.STREAM
        self._asked = Mode.STREAM
        self._is_version_lost = False
        self._is_unpaged = False
        self._stream_failures = 0
        self._watch_failures = 0
        self._listing: Listing | None = None
        self._asked_version = ""
        self._asked_at_s = 0.0

    def ask(self) -> Ask:
        """The next request; from now on it is under way."""
        self._asked_at_s = self._clock.monotonic_s()
        self._asked_version = self.replica.version
        self._listing = None
        self._asked = self._mode
        if self._mode is Mode.LIST:
            return Ask(Mode.LIST, page_size=0 if self._is_unpaged else PAGE_SIZE)
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
        return Ask(self._mode, tuple(query))

    def accepted(self) -> None:
        """The server says yes to the request: nothing is wrong now."""
        self.last_error = None

    def received(self, lines: list[bytes]) -> Iterator[None]:
        """Takes in lines of a stream; others may run whenever the iterator yields.

        Raises:
            ApiError: the server ends the stream with an error: hand it to ``ended``.
            StreamBroken: likewise, for a line that makes no sense.
        """
        for line in lines:
            if not line:
                continue
            event = self._reader.read(line)
            if self._listing is None:
                self._apply(event)
            elif event.ends_list:
                listing, self._listing = self._listing, None
                yield from self.listed(listing, event.version)
            else:
                self._listing.apply(event)

    def listed(self, listing: Listing, version: str) -> Iterator[None]:
        """Takes in a whole list; others may run whenever the iterator yields."""
        yield from self.replica.replacing(listing.objects, listing.unreadable, version)
        self._mode = Mode.WATCH
        self._is_version_lost = False
        self._is_unpaged = False
        self._stream_failures = 0
        self.has_synced = True

    def ended(self, error: SchedulerError | None = None) -> float:
        """Says that the request is over, and why; returns the seconds to wait before the next one.

        Args:
            error: None if it came to its end.
        """
        lasted_s = self._clock.monotonic_s() - self._asked_at_s
        self._listing = None
        self.last_error = error
        if error is None and self._asked is Mode.LIST:
            return 0.0
        is_news = self.replica.version != self._asked_version
        if is_news:
            self._watch_failures = 0
        if isinstance(error, Gone) or _is_too_large(error):
            return self._on_lost_version(error)
        if self._mode is Mode.WATCH:
            return self._on_watch_end(error, is_short=not is_news and lasted_s < SHORT_WATCH_S)
        if self._mode is Mode.STREAM:
            return self._on_stream_end(error)
        # The list by pages failed too: begin again with the way that costs the server least.
        self._mode = Mode.STREAM
        self._stream_failures = 0
        return self._wait_s(error)

    def _apply(self, event: WatchEvent) -> None:
        self.replica.apply(event)
        if event.problem is not None:
            _log.warning(
                "an object cannot be read",
                extra={"kind": self._kind.name, "key": event.key, "problem": str(event.problem)},
            )

    def _on_lost_version(self, error: SchedulerError | None) -> float:
        """The server does not keep our version any more, or has not come to it yet."""
        if self._mode is Mode.WATCH:
            # A list that is at least as new as what we have: we never go back in time.
            self._mode = Mode.STREAM
            return self._wait_s(error) if _is_too_large(error) else 0.0
        was_lost, self._is_version_lost = self._is_version_lost, True
        if self._mode is Mode.LIST:
            # The pages took longer than the server keeps a moment.
            was_unpaged, self._is_unpaged = self._is_unpaged, True
            return self._wait_s(error) if was_unpaged else 0.0
        return self._wait_s(error) if was_lost else 0.0

    def _on_watch_end(self, error: SchedulerError | None, *, is_short: bool) -> float:
        if isinstance(error, StreamUnreadable):
            # It would be unreadable again; a list takes us past it.
            self._mode = Mode.STREAM
            return self._wait_s(error)
        if error is None or isinstance(error, StreamBroken):
            if not is_short:
                return 0.0
            _log.warning(
                "a watch ended at once, without any news",
                extra={"kind": self._kind.name, "version": self.replica.version},
            )
            return self._wait_s(error)
        is_doubtful = isinstance(error, ServerError) and not isinstance(error, TooManyRequests)
        self._watch_failures += is_doubtful
        if isinstance(error, BadRequest | Invalid) or self._watch_failures >= WATCH_FAILURES_MAX:
            self._watch_failures = 0
            self._mode = Mode.STREAM
        return self._wait_s(error)

    def _on_stream_end(self, error: SchedulerError | None) -> float:
        """Returns the initial events did not come to their end."""
        passes = (StreamBroken, Unreachable, ServerError, TooManyRequests)
        if not isinstance(error, passes):
            # Refused, or ended in peace without the mark: this server cannot do it.
            self._mode = Mode.LIST
            return 0.0
        self._stream_failures += 1
        if self._stream_failures >= STREAM_FAILURES_MAX:
            self._mode = Mode.LIST
        return self._wait_s(error)

    def _wait_s(self, error: SchedulerError | None) -> float:
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        return self._backoff.next_s(at_least_s=asked_s)


def _is_too_large(error: SchedulerError | None) -> bool:
    """Whether the server has not come to our version: it lags, or was restored from a backup."""
    return isinstance(error, ServerError) and "Too large resource version" in str(error)
