"""Watches as streams of lines: the only place of the server's core that waits.

Source: k8s.io/apiserver pkg/endpoints/handlers/{get,watch}.go; pkg/storage/cacher for bookmarks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.endpoints.rendering import Renderer
from mooring.apiserver.endpoints.request import wanted_shape
from mooring.apiserver.endpoints.watch import Watch
from mooring.apiserver.storage.history import Dropped
from mooring.apiserver.storage.selection import selection_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.apiserver.endpoints.request import Request
    from mooring.apiserver.storage.store import Store
    from mooring.clock import Clock, Rng

#: A watch that does not say ends after once to twice this, as kube-apiserver's.
WATCH_S_MIN = 1800.0
BOOKMARK_S = 60.0
#: The last bookmark comes this long before the end of a watch.
LAST_BOOKMARK_S = 2.0


def stream(store: Store, request: Request, *, clock: Clock, rng: Rng) -> AsyncIterator[bytes]:
    """Returns the lines of a watch; what is wrong with the request is found before the first.

    Raises:
        Refused: 400, 406, 422, 504.
    """
    place, query = request.place, request.query
    shape = wanted_shape(request.headers)
    options = query.list_options()
    selection = selection_of(
        place.resource,
        place.namespace,
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )
    renderer = Renderer(
        place.resource, shape or ("", "", ""), query.text("includeObject"), clock.wall_s()
    )
    watch = Watch(store, selection, options)
    timeout_s = float(options.timeout_s or 0) or WATCH_S_MIN * (1 + rng.random())
    return _lines(watch, renderer, timeout_s, wants_bookmarks=options.wants_bookmarks, clock=clock)


async def _lines(
    watch: Watch, renderer: Renderer, timeout_s: float, *, wants_bookmarks: bool, clock: Clock
) -> AsyncIterator[bytes]:
    if watch.problem is not None:
        error = {"type": "ERROR", "object": watch.problem.status()}
        yield msgspec.json.encode(error) + b"\n"
        return
    loop = asyncio.get_running_loop()
    awake = asyncio.Event()
    watch.listen(awake.set)
    end = loop.time() + timeout_s
    bookmark_at = _next_bookmark(loop.time(), end)
    try:
        while loop.time() < end:
            awake.clear()
            try:
                events = watch.read()
            except Dropped:
                return  # too slow: the client watches anew from where it is
            if events:
                renderer.now_s = clock.wall_s()  # ages in Tables are those of the moment
                yield b"".join(map(renderer.event, events))
                continue
            if wants_bookmarks and loop.time() >= bookmark_at:
                yield renderer.event(watch.bookmark())
                bookmark_at = _next_bookmark(loop.time(), end)
                continue
            if not watch.is_idle:
                continue
            until = min(end, bookmark_at) if wants_bookmarks else end
            await _wait_for(awake, until - loop.time())
    finally:
        watch.close()


def _next_bookmark(now: float, end: float) -> float:
    """Returns a minute from now, or shortly before the end if that comes first."""
    last = end - LAST_BOOKMARK_S
    return min(now + BOOKMARK_S, last) if now < last else end


async def _wait_for(awake: asyncio.Event, seconds: float) -> None:
    """Waits for news, but not longer than so many seconds."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await awake.wait()
    except TimeoutError:
        pass
