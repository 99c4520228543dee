"""HTTP front end of the embedded API server with a handler of the test."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from mooring.apiserver.auth.authentication import Tokens
from mooring.apiserver.http_server.http import HttpServer, serve
from mooring.apiserver.server import ApiServer
from mooring.clock import Clock, SystemClock, seeded_random
from tests.helpers.event_loops import run_on_loop

DEADLINE_S = 20.0
PODS = "/api/v1/pods"

Call = tuple[str, str, list[tuple[str, str]], Mapping[str, str], bytes]


class Handler:
    """Returns prepared responses, and records the requests."""

    def __init__(self, answer: Callable[[], Any] = lambda: b"{}") -> None:
        self.calls: list[Call] = []
        self.clock: Clock = SystemClock()
        self.tokens = Tokens()
        self.authorizer = ApiServer(SystemClock(), seeded_random(0)).authorizer
        self.ticked = asyncio.Event()
        self._answer = answer

    async def handle(self, *call: Any) -> Any:
        self.calls.append(call)
        return 200, {"content-type": "application/json"}, self._answer()

    def tick(self) -> None:
        self.ticked.set()

    def allow_threads(self) -> None:
        """Does nothing: no answer takes long."""


@asynccontextmanager
async def client(
    server: HttpServer, token: str | None = "admin"
) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=server.authority.decode())
    headers = {} if token is None else {"Authorization": f"Bearer {server.token(token)}"}
    async with aiohttp.ClientSession(
        server.url,
        headers=headers,
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=DEADLINE_S),
    ) as session:
        yield session


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    run_on_loop(bounded())


def opened(handler: Handler, **options: Any) -> Any:
    return serve(handler, **options)


async def status_of(answer: Awaitable[aiohttp.ClientResponse]) -> tuple[int, Any]:
    response = await answer
    async with response:
        return response.status, json.loads(await response.read())
