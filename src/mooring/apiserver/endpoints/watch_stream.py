"""Watches as streams of lines: the only module below ``server`` that awaits.

Source: k8s.io/apiserver pkg/endpoints/handlers/{get,watch}.go; pkg/storage/cacher for bookmarks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.endpoints.rendering import Renderer
from mooring.apiserver.endpoints.request import requested_shape
from mooring.apiserver.endpoints.watch import Watch
from mooring.apiserver.storage.history import Dropped
from mooring.apiserver.storage.selection import selection_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from mooring.apiserver.endpoints.request import Request
    from mooring.apiserver.storage.store import Store
    from mooring.clock import Clock, Rng

#: Without ``timeoutSeconds`` a watch ends after a random one to two times this, as upstream.
WATCH_S_MIN = 1800.0
BOOKMARK_S = 60.0
#: Events that are sent at once have some megabyte at most, or are one.
BATCH_BYTES = 1 << 20
#: The last bookmark comes this long before the end of a watch.
LAST_BOOKMARK_S = 2.0


def stream(store: Store, request: Request, *, clock: Clock, rng: Rng) -> AsyncIterator[bytes]:
    """Returns the lines of a watch; the request is validated before the first one.

    Raises:
        ApiStatusError: 400, 406, 422, 504.
    """
    path, query = request.path, request.query
    shape = requested_shape(request.headers)
    options = query.list_options()
    selection = selection_of(
        path.resource,
        path.namespace,
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )
    renderer = Renderer(
        path.resource, shape or ("", "", ""), query.text("includeObject"), clock.wall_s()
    )
    watch = Watch(store, selection, options)
    timeout_s = float(options.timeout_s or 0) or WATCH_S_MIN * (1 + rng.random())
    return _lines(watch, renderer, timeout_s, wants_bookmarks=options.wants_bookmarks, clock=clock)


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields lines joined to some ``BATCH_BYTES`` each: a client that does not read keeps one."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


async def _lines(
    watch: Watch, renderer: Renderer, timeout_s: float, *, wants_bookmarks: bool, clock: Clock
) -> AsyncIterator[bytes]:
    if watch.problem is not None:
        error = {"type": "ERROR", "object": watch.problem.status()}
        yield msgspec.json.encode(error) + b"\n"
        return
    loop = asyncio.get_running_loop()
    has_news = asyncio.Event()
    watch.listen(has_news.set)
    end = loop.time() + timeout_s
    bookmark_at = _next_bookmark(loop.time(), end)
    try:
        while loop.time() < end:
            has_news.clear()
            try:
                events = watch.read()
            except Dropped:
                return  # too slow: the client starts a new watch from its last version
            renderer.now_s = clock.wall_s()  # ages in Tables are computed when they are sent
            for lines in _batches(map(renderer.render_event, events)):
                yield lines
            if watch.is_behind:
                await asyncio.sleep(0)  # a client that reads fast does not keep others waiting
            if events:
                continue
            if watch.is_ended and watch.is_idle:
                return
            if wants_bookmarks and loop.time() >= bookmark_at:
                yield renderer.render_event(watch.bookmark())
                bookmark_at = _next_bookmark(loop.time(), end)
                continue
            if not watch.is_idle:
                continue
            until = min(end, bookmark_at) if wants_bookmarks else end
            await _wait_for(has_news, until - loop.time())
    finally:
        watch.close()


def _next_bookmark(now: float, end: float) -> float:
    """Returns the time of the next bookmark: in a minute, or shortly before the end."""
    last = end - LAST_BOOKMARK_S
    return min(now + BOOKMARK_S, last) if now < last else end


async def _wait_for(has_news: asyncio.Event, seconds: float) -> None:
    """Waits for the event, at most so many seconds."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await has_news.wait()
    except TimeoutError:
        pass
