"""Many tasks that read and write a few objects through one client; its server refuses most of them.

::

    tasks ──> Client ──> ScriptedServer: 2xx, 429 and 503 with Retry-After, other errors, no answer

Three rules, each with a model of its own: no request for an object is sent before the end of the
wait that the server has asked for last (F5); a write is sent again only if the server says that it
did nothing; and the result of a call is that of its last answer. No request outlives its lease.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mooring.client import Client, Request
from mooring.client.transport.transport import Response, Stream
from mooring.clock import Rng, seeded_random
from mooring.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tests.faults.parts.retries import retry_problems
from tests.helpers.virtual_loop import run_virtually

#: Calls of one run, and the objects that they are about.
CALLS: Final = 60
PATHS: Final = 3
#: The client remembers the waits of so many objects.
REMEMBERED: Final = 1_000
PORTION: Final = 20
ROUNDING_S: Final = 1e-6
#: A read is repeated after these.
READ_AGAIN: Final = (429, 500, 502, 503, 504)

_TYPES: Final = {
    400: BadRequest,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


@dataclass
class Call:
    """A call of the client, and the answers to its requests."""

    is_read: bool
    tries_max: int
    answers: list[tuple[int, float]] = field(default_factory=list)
    is_fenced: bool = False


class ScriptedServer:
    """A transport whose answers are drawn.

    Attributes:
        calls: Header of a call -> the call.
        lease_until_s: Until then writes may take.
        problems: Violations of the rules.
    """

    def __init__(self, rng: Rng) -> None:
        self.calls: dict[str, Call] = {}
        self.lease_until_s = 1e9
        self.problems: list[str] = []
        self._rng = rng
        self._now_s = asyncio.get_running_loop().time
        #: Of each object the end of the wait; the one that was refused last comes last.
        self._not_before_s: dict[tuple[str, str], float] = {}
        self._refusing = rng.choice((0.3, 0.6, 0.9))

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Checks a request, and draws its answer."""
        call, now_s = self.calls[dict(request.query)["call"]], self._now_s()
        key = request.method, request.path
        early_s = self._not_before_s.get(key, 0.0) - now_s
        if early_s > ROUNDING_S:
            self.problems.append(f"{key} is sent {early_s:.2f} s too early")
        if not call.is_read and now_s + request.deadline_s > self.lease_until_s + ROUNDING_S:
            self.problems.append(f"{key} may outlive its lease")
        if call.answers and not self._may_repeat(call):
            self.problems.append(f"{key} is sent again after {call.answers}")
        await asyncio.sleep(self._rng.choice((0.0, 0.01, 1.0, 5.0)))
        code, wait_s = self._draw()
        call.answers.append((code, wait_s))
        if code == 0:
            raise OutcomeUnknown(f"{request.path}: no response")
        if code == 1:
            raise Unreachable(f"{request.path}: connection refused")
        is_creation = request.method == "POST" and not request.path.endswith("/binding")
        if wait_s and not is_creation:
            self._note(key, wait_s)
        is_in_body = wait_s > 0 and self._rng.random() < 0.3
        return _response(code, wait_s, is_in_body=is_in_body)

    def note_other(self, request: Request, wait_s: float) -> None:
        """Records the refusal of one of them."""
        self._note((request.method, request.path), wait_s)

    def _note(self, key: tuple[str, str], wait_s: float) -> None:
        self._not_before_s.pop(key, None)
        self._not_before_s[key] = self._now_s() + wait_s
        # What the client may forget is not compared; it forgets the oldest.
        while len(self._not_before_s) > REMEMBERED:
            del self._not_before_s[next(iter(self._not_before_s))]

    def _may_repeat(self, call: Call) -> bool:
        code, wait_s = call.answers[-1]
        if call.is_read:
            return code in (0, 1, *READ_AGAIN) and len(call.answers) < call.tries_max
        return code in (429, 503) and wait_s > 0 and len(call.answers) < call.tries_max

    def _draw(self) -> tuple[int, float]:
        """Returns a status, 0 for no answer, 1 for no connection; and a Retry-After."""
        rng = self._rng
        if rng.random() > self._refusing:
            return rng.choice((200, 201)), 0.0
        code = rng.choice((0, 1, 429, 429, 429, 503, 503, 500, 502, 504, 400, 403, 404, 409, 422))
        has_wait = code == 429 or (code == 503 and rng.random() < 0.7)
        return code, float(rng.choice((1, 2, 3, 8, 20))) if has_wait else 0.0

    def check(self, call: Call, result: SchedulerError | None) -> None:
        """Compares the result of a call with its last answer."""
        if isinstance(result, LeaseLost):
            if call.is_read or self.lease_until_s > self._now_s() + ROUNDING_S:
                self.problems.append("a call ended as if the lease was lost")
            return
        code, _ = call.answers[-1]
        if 200 <= code < 300:
            is_right = result is None
        elif code == 1 or (code == 0 and call.is_read):
            is_right = isinstance(result, Unreachable)
        elif code == 0 or (code >= 500 and not call.is_read):
            is_right = isinstance(result, OutcomeUnknown)
        else:
            kind = ServerError if code >= 500 else _TYPES[code]
            is_right = isinstance(result, kind) and not isinstance(result, AlreadyExists)
            is_right = is_right and isinstance(result, ApiError) and result.status == code
        if not is_right:
            self.problems.append(f"a call with {call.answers} ended with {result!r}")
        if self._may_repeat(call):
            self.problems.append(f"a call gave up after {call.answers}")


def _response(code: int, wait_s: float, *, is_in_body: bool) -> Response:
    """Returns an answer; the wait is in a header, or in the body alone."""
    headers = {"content-type": "application/json"}
    status: dict[str, Any] = {"kind": "Status", "code": code, "message": f"injected: {code}"}
    if is_in_body:
        status["details"] = {"retryAfterSeconds": int(wait_s)}
    elif wait_s:
        headers["retry-after"] = str(int(wait_s))
    return Response(code, headers, msgspec.json.encode(status))


class ClientRun:
    """One run."""

    def __init__(self, seed: int) -> None:
        self._rng = seeded_random(seed)
        self._server = ScriptedServer(seeded_random(seed + 1_000_000))
        self._client = Client(self._server, rng=self._rng, fence=self._fence)
        self._lasts_s = self._rng.choice((20.0, 120.0))

    async def run(self) -> list[str]:
        """Makes all calls at random moments; returns the problems."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(CALLS):
                tasks.create_task(self._call(str(number)))
            if self._rng.random() < 0.3:
                tasks.create_task(self._refuse_others())
            tasks.create_task(self._lose_lease())
        return self._server.problems

    def _fence(self) -> float:
        left_s = self._server.lease_until_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise LeaseLost("injected")
        return left_s

    async def _lose_lease(self) -> None:
        """Gives and takes the lease, in some runs."""
        if self._rng.random() < 0.5:
            return
        for _ in range(4):
            await asyncio.sleep(self._rng.random() * self._lasts_s / 4)
            now_s = asyncio.get_running_loop().time()
            self._server.lease_until_s = now_s + self._rng.choice((0.0, 3.0, 15.0))
        self._server.lease_until_s = 1e9

    async def _refuse_others(self) -> None:
        """Refuses requests for other objects, more than the client remembers, in portions."""
        waits: Any = self._client._waits
        for number in range(2 * REMEMBERED):
            if number % PORTION == 0:
                await asyncio.sleep(self._lasts_s * PORTION / (2 * REMEMBERED))
            request = Request("GET", f"/others/{number}", 1.0)
            waits.note(request, TooManyRequests("injected", status=429, retry_after_s=300.0))
            self._server.note_other(request, 300.0)

    async def _call(self, number: str) -> None:
        rng, query = self._rng, [("call", number)]
        await asyncio.sleep(rng.random() * self._lasts_s)
        path = f"/pods/{rng.randrange(PATHS)}"
        method = rng.choice(("GET", "POST", "BIND", "PATCH", "DELETE"))
        tries = rng.choice((1, 2, 10))
        call = self._server.calls[number] = Call(method == "GET", tries)
        result: SchedulerError | None = None
        try:
            if method == "GET":
                request = Request("GET", path, deadline_s=30.0, query=query)
                await self._client.read(request, tries=tries)
            else:
                path = f"{path}/binding" if method == "BIND" else path
                verb = "POST" if method == "BIND" else method
                await self._client.write(verb, path, b"{}", query=query, tries=tries)
        except SchedulerError as error:
            result = error
        self._server.check(call, result)


def run_client(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a rule is violated.
    """

    async def run() -> list[str]:
        return await ClientRun(seed).run()

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    problems += retry_problems(seeded_random(seed + 3_000_000))
    assert not problems, problems[0]
