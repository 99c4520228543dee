"""An informer: the objects of one kind, synchronized with the API server while it runs.

It sends the requests of a ``Reflector`` over the client's transport. The reflector makes all
decisions; this module only does the I/O and the waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn

from mooring.client.informer.reflector import NO_VERSION, Listing, Mode, NextRequest, Reflector
from mooring.client.informer.replica import OnChange, Statistics, is_position
from mooring.client.rest.client import Client
from mooring.client.rest.paths import path_of
from mooring.client.rest.reading import non_empty
from mooring.client.rest.responses import error_of
from mooring.client.transport.transport import JSON, Pool, Request, Response, StreamBroken, read_all
from mooring.clock import Clock, Rng
from mooring.errors import ApiError, ConfigError, NotFound, SchedulerError, Unreachable
from mooring.objects.kinds import Kind, kind_named

#: The response head of a watch arrives at once, unless the server waits for its own cache.
CONNECT_S_MAX: Final = 30.0

_log = logging.getLogger(__name__)


class Informer:
    """All objects of a kind, with a callback for every change.

    ``on_change`` is called in the event loop and must be fast. Before ``has_synced`` it has been
    called with only a part of the first list.

    Example::

        informer = Informer(client, "Node", on_node_change, clock=clock, rng=rng)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_until_synced()

    Args:
        client: Its transport is used for lists and watches.
        kind: The kind, or its name.
        on_change: Called with every change, in the server's order.
        clock: Measures the duration of requests.
        rng: For jitter.
        namespace: Only objects in it; all namespaces by default.
        label_selector: Only objects whose labels match.
        field_selector: Only objects whose fields match.
        is_optional: Whether an API server without this kind counts as one without such objects.
        sleep: Waits between requests; tests pass one that advances their clock.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind | str,
        on_change: OnChange,
        *,
        clock: Clock,
        rng: Rng,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        is_optional: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.kind = kind_named(kind) if isinstance(kind, str) else kind
        self._client = client
        self._reflector = Reflector(self.kind, on_change, clock=clock, rng=rng)
        self._namespace = namespace
        self._path = path_of(self.kind, namespace)
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._is_optional = is_optional
        self._sleep = sleep
        self._synced = asyncio.Event()
        self._clock = clock
        #: Interrupts the request, or the wait for it; None before the first.
        self._turn: asyncio.Timeout | None = None
        self._progress = asyncio.Event()
        #: When the next request is sent after one that has ended; monotonic seconds.
        self.next_try_at_s = 0.0

    @property
    def objects(self) -> Mapping[str, Any]:
        """Key ("namespace/name" or "name") -> object; read-only."""
        return self._reflector.replica.objects

    @property
    def version(self) -> str:
        """The resourceVersion of the replica."""
        return self._reflector.replica.version

    @property
    def has_synced(self) -> bool:
        """True after the first list was passed to ``on_change`` completely."""
        return self._synced.is_set()

    @property
    def last_error(self) -> SchedulerError | None:
        """The error of the last request; None if it was accepted, or the kind may be missing."""
        error = self._reflector.last_error
        return None if self._is_missing(error) else error

    def _is_missing(self, error: SchedulerError | None) -> bool:
        """Returns whether the API server does not have the kind, which is allowed."""
        return self._is_optional and isinstance(error, NotFound)

    def statistics(self) -> Statistics:
        """Returns counts of events since the start."""
        return self._reflector.replica.statistics

    async def wait_until_synced(self) -> None:
        """Waits until the first list was passed on; forever, if the server refuses it."""
        await self._synced.wait()

    async def wait_until_fresh(self, since_s: float) -> None:
        """Waits until the objects are those of the server at ``since_s``, or later.

        If no watch is open, or it has brought nothing since then, they are listed at once: a
        connection may be dead without a sign of it. A kind that the server does not have is fresh.

        Args:
            since_s: Monotonic seconds; not in the future.
        """
        reflector, asked_at_s = self._reflector, self._clock.monotonic_s()
        is_fresh = reflector.is_following and reflector.fresh_at_s >= since_s
        if is_fresh or self._is_missing(reflector.last_error):
            return
        if self._turn is not None and not self._turn.expired():
            self._turn.reschedule(asyncio.get_running_loop().time())
        while reflector.fresh_at_s < asked_at_s and not self._is_missing(reflector.last_error):
            self._progress.clear()
            await self._progress.wait()

    async def run(self) -> NoReturn:
        """Follows the server until cancelled; the server may be unavailable for any time.

        An exception of ``on_change`` ends it: a lost change would never be repeated.
        """
        while True:
            self._turn = turn = asyncio.timeout(None)
            try:
                async with turn:
                    await self._request_and_wait()
            except TimeoutError:
                if not turn.expired():
                    raise
                self._reflector.relist()

    async def _request_and_wait(self) -> None:
        """Sends one request, reads its response to the end, and waits for the time of the next."""
        ask = self._reflector.ask()
        error: SchedulerError | None = None
        try:
            if ask.mode is Mode.LIST:
                await self._list(ask)
            else:
                await self._stream(ask)
        except (ApiError, Unreachable, StreamBroken) as failure:
            error = failure
            _log.debug(
                "informer request failed",
                extra={"kind": self.kind.name, "mode": ask.mode.value, "error": str(failure)},
            )
        wait_s = self._reflector.ended(error)
        # A stream may break in the batch that ends its list.
        self._note_progress()
        if self._is_missing(error):
            self._synced.set()  # there are no objects of this kind
        self.next_try_at_s = self._clock.monotonic_s() + wait_s
        # Also with a wait of 0, other tasks can run.
        await self._sleep(wait_s)

    async def _stream(self, ask: NextRequest) -> None:
        """Runs a watch until it ends.

        Raises:
            ApiError: refused, or ended by the server with an error.
            Unreachable: no connection.
            StreamBroken: the connection was lost.
        """
        selectors = {"labelSelector": self._label_selector, "fieldSelector": self._field_selector}
        request = Request(
            "GET",
            self._path,
            deadline_s=CONNECT_S_MAX,
            query=[*non_empty(**selectors), *ask.query],
            headers={"accept": JSON},
            pool=Pool.WATCH,
        )
        async with self._client.transport.stream(request, idle_s=ask.idle_s) as stream:
            if stream.status != 200:
                response = Response(stream.status, stream.headers, await read_all(stream))
                raise error_of(response, f"watch {self._path}")
            self._reflector.accepted()
            async with aclosing(stream.batches()) as batches:
                async for lines in batches:
                    await self._apply_lines(lines)

    async def _apply_lines(self, lines: list[bytes]) -> None:
        for _ in self._reflector.received(lines):
            await asyncio.sleep(0)
        self._note_progress()
        # A stream that always has data would never let other tasks run.
        await asyncio.sleep(0)

    async def _list(self, ask: NextRequest) -> None:
        """Reads a list by pages and applies it.

        Raises:
            ApiError: refused; Gone if the pages took too long.
            Unreachable: no connection.
            StreamBroken: it is no list, or has no resourceVersion.
        """
        listing, version = Listing(), None
        pages = self._client.pages(
            self.kind,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            page_size=ask.page_size,
            tries=1,
        )
        try:
            async for page in pages:
                self._reflector.accepted()
                listing.add_page(page)
                # As in client-go: changes after the first page are reported by the watch.
                version = page.resource_version if version is None else version
        except ConfigError as error:
            raise StreamBroken(f"list {self._path}: {error}") from error
        if version is None or not is_position(version):
            raise StreamBroken(f"list {self._path}: {NO_VERSION.format(version)}")
        for _ in self._reflector.listed(listing, version):
            await asyncio.sleep(0)

    def _note_progress(self) -> None:
        """Wakes those that wait for the first list, or for fresh objects."""
        self._progress.set()
        if self._reflector.has_synced:
            self._synced.set()
