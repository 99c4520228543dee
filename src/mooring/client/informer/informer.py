"""An informer: all objects of one kind, kept equal to the API server for as long as it runs.

It carries the requests of a ``Reflector`` over the client's transport and waits where that says so.
Everything that can be decided is decided there; here is only what waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn

from mooring.client.informer.reflector import Ask, Listing, Mode, Reflector
from mooring.client.informer.replica import OnChange, Statistics
from mooring.client.rest.client import Client
from mooring.client.rest.paths import path_of
from mooring.client.rest.reading import non_empty
from mooring.client.rest.responses import error_of
from mooring.client.transport.transport import JSON, Pool, Request, Response, StreamBroken, read_all
from mooring.clock import Clock, Rng
from mooring.errors import ApiError, ConfigError, SchedulerError, Unreachable
from mooring.objects.kinds import Kind, kind_named

#: The head of a watch comes at once, unless the server waits for its own cache.
CONNECT_S_MAX: Final = 30.0

_log = logging.getLogger(__name__)


class Informer:
    """All objects of a kind, and news of every change.

    ``on_change`` is called in the loop and must be quick. Before ``has_synced`` it has been told
    only parts of the first list.

    Example::

        informer = Informer(client, "Node", on_node_change, clock=clock, rng=rng)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_until_synced()

    Args:
        client: Its transport is used for lists and watches.
        kind: Or its name.
        on_change: Told of every difference, in the order of the server.
        clock: To see how long requests took.
        rng: For jitter.
        namespace: Only objects in it; all namespaces by default.
        label_selector: Only objects whose labels match.
        field_selector: Only objects whose fields match.
        sleep: Waits between requests; tests give one that moves their clock.
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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.kind = kind_named(kind) if isinstance(kind, str) else kind
        self._client = client
        self._reflector = Reflector(self.kind, on_change, clock=clock, rng=rng)
        self._namespace = namespace
        self._path = path_of(self.kind, namespace)
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._sleep = sleep
        self._synced = asyncio.Event()

    @property
    def objects(self) -> Mapping[str, Any]:
        """Key ("namespace/name" or "name") -> object; to read only."""
        return self._reflector.replica.objects

    @property
    def version(self) -> str:
        """The resourceVersion up to which everything is known."""
        return self._reflector.replica.version

    @property
    def has_synced(self) -> bool:
        """Whether the first list was handed over as a whole."""
        return self._synced.is_set()

    @property
    def last_error(self) -> SchedulerError | None:
        """Why the last request failed; None while all is well."""
        return self._reflector.last_error

    def statistics(self) -> Statistics:
        """Counts of what happened since the start."""
        return self._reflector.replica.statistics

    async def wait_until_synced(self) -> None:
        """Returns when the first list was handed over; never, if the server refuses it."""
        await self._synced.wait()

    async def run(self) -> NoReturn:
        """Follows the server until cancelled; it may be away for any time.

        An exception of ``on_change`` ends it: what was not taken in would be missing for ever.
        """
        while True:
            ask = self._reflector.ask()
            error: SchedulerError | None = None
            try:
                if ask.mode is Mode.LIST:
                    await self._list(ask)
                else:
                    await self._stream(ask)
            except (ApiError, Unreachable, StreamBroken) as failure:
                error = failure
                _log.info(
                    "a request of an informer failed",
                    extra={"kind": self.kind.name, "mode": ask.mode.value, "error": str(failure)},
                )
            wait_s = self._reflector.ended(error)
            # A stream may break in the batch that ends its list.
            self._note_sync()
            # Even without a wait the loop gets its turn.
            await self._sleep(wait_s)

    async def _stream(self, ask: Ask) -> None:
        """Carries a watch until it ends.

        Raises:
            ApiError: refused, or ended by the server with an error.
            Unreachable: there was no connection.
            StreamBroken: it was lost.
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
                answer = Response(stream.status, stream.headers, await read_all(stream))
                raise error_of(answer, f"watch {self._path}")
            self._reflector.accepted()
            async with aclosing(stream.batches()) as batches:
                async for lines in batches:
                    await self._take_in(lines)

    async def _take_in(self, lines: list[bytes]) -> None:
        for _ in self._reflector.received(lines):
            await asyncio.sleep(0)
        self._note_sync()
        # A stream that always has something to read would never let go of the loop.
        await asyncio.sleep(0)

    async def _list(self, ask: Ask) -> None:
        """Reads a list by pages and takes it in.

        Raises:
            ApiError: refused; Gone if the pages took too long.
            Unreachable: there was no connection.
        """
        listing, version = Listing(), ""
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
                listing.take_in(page)
                version = page.resource_version
        except ConfigError as error:
            raise StreamBroken(f"list {self._path}: {error}") from error
        for _ in self._reflector.listed(listing, version):
            await asyncio.sleep(0)

    def _note_sync(self) -> None:
        if self._reflector.has_synced:
            self._synced.set()
