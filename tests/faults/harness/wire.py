"""A transport with latency before and after each answer, which outlives a stopped process.

::

    process ── connect ──> sent ── before ──> server ── after ──> answer ──> process
       │                     └──── goes on while the process is stopped ───┘
       └── stopped here: at the deadline nothing is sent any more, as ``HttpTransport`` does
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mooring.client.transport.transport import Request, Response, Stream, Transport
from mooring.clock import Rng
from mooring.errors import OutcomeUnknown, SchedulerError, Unreachable
from tests.faults.harness.faults import now_s
from tests.faults.harness.freezable_loop import context_of

#: Seconds until a connection is free, until a request arrives, and until its answer does. The sum
#: of the first two is less than the margin between the renew deadline and the lease duration.
CONNECT_S: Final = (0.0, 0.0, 0.0, 0.0, 0.05, 1.0)
BEFORE_S: Final = (0.001, 0.001, 0.01, 0.05, 0.5, 2.0)
AFTER_S: Final = (0.001, 0.001, 0.01, 0.05, 0.5, 3.0)


class Wire:
    """Carries requests to another transport.

    Args:
        inner: The network and the server.
        rng: Draws latencies.
        tasks: Those of the wire, which belong to no process.
    """

    def __init__(self, inner: Transport, rng: Rng, tasks: asyncio.TaskGroup) -> None:
        self._inner = inner
        self._rng = rng
        self._tasks = tasks

    async def request(self, request: Request) -> Response:
        """Sends a request, unless its deadline passes before a connection is free.

        Raises:
            Unreachable: it was not sent.
            OutcomeUnknown: the answer is late.
        """
        what, rng = f"{request.method} {request.path}", self._rng
        due_s = now_s() + request.deadline_s
        await asyncio.sleep(rng.choice(CONNECT_S))
        if now_s() >= due_s:
            raise Unreachable(f"{what}: no connection")
        carried = self._tasks.create_task(self._carry(request), context=context_of(""))
        try:
            async with asyncio.timeout_at(due_s):
                result = await asyncio.shield(carried)
        except TimeoutError as error:
            raise OutcomeUnknown(f"{what}: no response") from error
        if isinstance(result, SchedulerError):
            raise result
        return result

    async def _carry(self, request: Request) -> Response | SchedulerError:
        await asyncio.sleep(self._rng.choice(BEFORE_S))
        try:
            result: Response | SchedulerError = await self._inner.request(request)
        except SchedulerError as error:
            result = error
        await asyncio.sleep(self._rng.choice(AFTER_S))
        return result

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Streams without latency."""
        async with self._inner.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        """Closes the other transport."""
        await self._inner.close()
