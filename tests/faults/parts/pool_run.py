"""Requests through a pool of connections, over a network that does what networks do.

What must hold is written down from the side of the servers and of the callers: each request is sent
at most once, and gets its own answer by its deadline; connections are limited, but for those whose
request is slow; the one that was used last is used again; none is opened, and no request waits,
while one is idle; idle ones are closed after 90 s, and broken ones at once.
"""

from __future__ import annotations

import asyncio
import math
import random
from types import SimpleNamespace
from typing import Any, Final

import httptools

from mooring.client.transport.http1_pool import Http1Pool, _Connection
from mooring.client.transport.transport import AnswerTooLong, Request, Response
from mooring.clock import seeded_random
from mooring.errors import Unreachable
from tests.faults.parts.pool_checks import AGENT, CONNECT_S_MAX, EPSILON_S, Caller, PoolChecks
from tests.faults.parts.pool_network import BROKEN
from tests.faults.parts.turn_checks import turn_problems
from tests.helpers.virtual_loop import LimitedLoop

REQUESTS: Final = 150
#: In such seeds, modulo nine, an answer may be exactly as long as it may be.
EXACT: Final = 4
#: Headers that come twice, with names in any case, and what a caller reads.
REPEATED: Final = (("Via", "one"), ("x-odd", "1"), ("VIA", "two, three"), ("X-ODD", ""))
JOINED: Final = {"via": "one, two, three", "x-odd": "1, ", "absent": None}
#: In such seeds, modulo five, headers come twice, and requests meet the end of idle connections.
MEETS_ENDS: Final = 2
LENGTHS: Final = (12, 30, 400, 5000)
#: In such seeds, modulo three, heads have no end; this is the longest one.
HEADS_EVERY: Final = 3
HEAD_BYTES_MAX: Final = 1 << 20


class Refused(Exception):
    """Raised by the callback before a request."""


class PoolRun(PoolChecks):
    """One run."""

    def __init__(
        self,
        rng: random.Random,
        loop: LimitedLoop,
        *,
        limits: tuple[int, ...] = (1_000, 100_000, 100_000, 100_000),
        meets_ends: bool = False,
    ) -> None:
        super().__init__(rng, loop)
        self._limits = limits
        #: Requests that are sent at the moment at which the server ends an idle connection.
        self._at_ends: list[asyncio.Task[None]] = []
        if meets_ends:
            self._network.on_disturb = self._call_at_end
            self._network.headers = "".join(f"{name}: {text}\r\n" for name, text in REPEATED)
        self._pool = Http1Pool(
            "http://server.example:8080/root/",
            tls=None,
            server_name=None,
            limit=self._limit,
            user_agent=AGENT,
            extra_headers=[("x-user", "zoé")],
            look_up=self._look_up if self._hosts else None,
        )

    async def run(self) -> None:
        """Sends the requests, and closes the pool."""
        rng = self._rng
        await self._send_breaks()
        busy_s = rng.choice((0.05, 0.5, 4.0))
        retire_at = rng.randrange(REQUESTS) if rng.random() < 0.25 else -1
        tasks = []
        for number in range(REQUESTS):
            await asyncio.sleep(rng.choice((0.0, 0.0, rng.uniform(0.0, busy_s))))
            if rng.random() < 0.02:
                await asyncio.sleep(rng.choice((50.0, 89.0, 130.0)))
            if number == retire_at:
                await asyncio.sleep(rng.choice((0.0, 1.0, 20.0)))
                self._is_retired = True
                self._pool.retire()
            tasks.append(asyncio.create_task(self._call(number)))
            if rng.random() < 0.1:
                self._loop.call_later(rng.choice((0.0, 0.3, 3.0)), tasks[-1].cancel)
        if rng.random() < 0.7:
            await asyncio.wait(tasks)
            await asyncio.sleep(rng.choice((0.0, 50.0, 200.0)))
        tasks += self._at_ends
        self._is_closed = True
        await self._pool.close()
        if not all(link.is_closing() for link in self._network.open_links()):
            self._add("connections are open when the pool is closed")
        await self._call(REQUESTS)
        await asyncio.wait(tasks, timeout=CONNECT_S_MAX + EPSILON_S)
        if waiting := [number for number, it in self._callers.items() if not it.is_done]:
            self._add(f"requests {waiting} go on when the pool is closed")

    async def _send_breaks(self) -> None:
        """Sends requests with characters that would end a line: nothing may be written."""
        for character in "\r\n\0":
            text = f"a{character}b"
            for method, path, headers in (
                (text, "/r", {}),
                ("GET", f"/{text}", {}),
                ("GET", "/r", {"x-odd": text}),
                ("GET", "/r", {text: "a", "x-odd": "1"}),
            ):
                request = Request(method, path, deadline_s=0.0)
                try:
                    await self._pool.request(
                        request, headers, _refuse, due_s=self._loop.time() + 1.0
                    )
                except ValueError:
                    continue
                except Refused:
                    self._add(f"{method} {path!r} {headers!r} would be sent")

    # -- callers ----------------------------------------------------------------------------------

    def _call_at_end(self) -> None:
        """Sends a request, before or after it is known that a connection has ended."""
        if not self._is_closed:
            self._note_disturbed()
            number = REQUESTS + 1 + len(self._at_ends)
            self._at_ends.append(asyncio.create_task(self._call(number)))

    async def _call(self, number: int) -> None:
        rng, now_s = self._rng, self._loop.time()
        bytes_max = rng.choice(self._limits)
        caller = Caller(number, now_s + rng.choice((0.5, 3.0, 15.0, 60.0)), bytes_max)
        self._callers[number] = self._by_task[asyncio.current_task()] = caller
        refuses = rng.random() < 0.03

        def is_sent() -> None:
            if caller.sent_s is not None:
                self._add(f"request {number} is announced twice")
            caller.sent_s = self._loop.time()
            if refuses:
                self._last_refused_s = self._loop.time()
                raise Refused
            self._in_flight[number] = caller

        method = rng.choice(("GET", "POST"))
        body = f"body {number}".encode() if method == "POST" else b""
        query = (("a", "b c"),) if number % 3 else ()
        request = Request(
            method, f"/r/{number}", query=query, body=body, bytes_max=bytes_max, deadline_s=0.0
        )
        headers = {"accept": "application/json"} if number % 2 else {"x-odd": "1"}
        result: Response | BaseException
        try:
            result = await self._pool.request(request, headers, is_sent, due_s=caller.due_s)
        except asyncio.CancelledError:
            self._check_end(caller)
            raise
        except BaseException as error:  # noqa: BLE001 - what it is, is checked
            result = error
        self._check_end(caller)
        if isinstance(result, Refused) != (refuses and caller.sent_s is not None):
            self._add(f"request {number} ends with {result!r}, its caller refuses: {refuses}")
        elif isinstance(result, Response):
            caller.is_answered = True
            self._check_response(caller, result)
        elif not isinstance(result, Refused):
            self._check_error(caller, result)

    def _check_end(self, caller: Caller) -> None:
        caller.is_done, caller.is_connecting = True, False
        if self._loop.time() >= caller.due_s - EPSILON_S or caller.sent_s is None:
            self._note_disturbed()
        self._in_flight.pop(caller.number, None)
        if self._loop.time() > caller.due_s + EPSILON_S:
            self._add(f"request {caller.number} ends after its deadline")
        if caller.is_received and caller.sent_s is None:
            self._add(f"request {caller.number} was sent without notice")

    def _check_response(self, caller: Caller, response: Response) -> None:
        script = self._network.scripts.get(caller.number)
        if script is None or script.kind in BROKEN:
            self._add(f"request {caller.number} gets an answer that was not given")
        elif (response.status, response.body) != (script.status, script.body):
            self._add(f"request {caller.number} gets {response.status} {response.body[:20]!r}")
        elif len(script.body) > caller.bytes_max:
            self._add(f"request {caller.number} gets more than {caller.bytes_max} bytes")
        elif script.headers and script.kind != "empty":
            real = {name: response.headers.get(name) for name in JOINED}
            if real != JOINED:
                self._add(f"request {caller.number} gets the headers {real}")

    def _check_error(self, caller: Caller, error: BaseException) -> None:
        number, now_s = caller.number, self._loop.time()
        script = self._network.scripts.get(number)
        failure = self._network.failures.get(asyncio.current_task())
        is_fine = False
        if self._is_closed:
            is_fine = isinstance(error, Unreachable | ConnectionResetError)
            if caller.sent_s is None:
                is_fine = isinstance(error, Unreachable | TimeoutError | OSError)
        if isinstance(error, AnswerTooLong):
            is_fine = script is not None and len(script.body) > caller.bytes_max
        elif isinstance(error, TimeoutError):
            is_fine = is_fine or now_s >= caller.due_s - EPSILON_S or failure == "slow"
        elif isinstance(error, httptools.HttpParserError):
            is_fine = script is not None and script.kind == "garbage"
        elif isinstance(error, ConnectionRefusedError):
            is_fine = failure == "refused" and caller.tries == max(1, len(self._hosts))
        elif isinstance(error, ConnectionResetError):
            link = caller.link
            is_cut = script is not None and script.kind in ("cut", "reset", "torn")
            is_delivered = number in self._network.delivered
            is_over = link is not None and not link.is_usable and not is_delivered
            is_fine = is_fine or is_cut or is_over
        if not is_fine:
            self._add(f"request {number} ends with {error!r}: {script}, {failure}")

    def _disturb_waiting(self) -> None:
        """Cancels a request, in one of forty cases, at the moment at which its turn may come."""
        waiting = [it for it in self._waiting() if it.task is not None]
        if waiting and self._rng.random() < 0.025:
            task = self._rng.choice(waiting[:3]).task
            assert task is not None
            self._loop.call_soon(task.cancel)


async def _check_heads(rng: random.Random) -> list[str]:
    """Checks that heads without an end are given up, also of many interim responses."""
    connection = _Connection(lambda _: None)
    transport: Any = SimpleNamespace(
        write=lambda _: None, abort=lambda: None, is_closing=lambda: False
    )
    connection.connection_made(transport)
    exchange = asyncio.create_task(connection.exchange(b"GET", 1_000, math.inf))
    await asyncio.sleep(1.0)  # until it is sent
    line = b"link: " + b"x" * rng.choice((100, 5_000, 30_000)) + b"\r\n"
    interim = b"HTTP/1.1 103 Early\r\n" + line + b"\r\n"
    endless = b"HTTP/1.1 200 OK\r\n" + line * 2
    sent, is_interim = 0, rng.random() < 0.7
    while connection._response is not None and sent < 2 * HEAD_BYTES_MAX:
        piece = interim if is_interim else endless if not sent else line
        sent += len(piece)
        connection.data_received(piece)
    await asyncio.wait({exchange}, timeout=1.0)
    error = exchange.exception() if exchange.done() else None
    if not isinstance(error, AnswerTooLong) or not 0 < sent - HEAD_BYTES_MAX <= len(endless):
        return [f"{sent} bytes of heads, interim is {is_interim}, end with {error!r}"]
    return []


def _refuse() -> None:
    raise Refused


def run_pool(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: something does not hold.
    """
    rng = seeded_random(seed)
    loop = LimitedLoop(rng)
    more: dict[str, Any] = {"limits": LENGTHS} if seed % 9 == EXACT else {}
    run = PoolRun(rng, loop, meets_ends=seed % 5 == MEETS_ENDS, **more)
    before_move = loop._before_move

    def look(when_s: float) -> None:
        assert before_move is not None
        before_move(when_s)
        if when_s - loop.time() > EPSILON_S:
            run.look()

    loop._before_move = look
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run.run())
        if seed % HEADS_EVERY == 0:
            run.problems += runner.run(_check_heads(seeded_random(seed + 1)))
        run.problems += runner.run(turn_problems(random.Random(f"{seed} turns")))
    assert not run.problems, "\n".join(run.problems[:5])
