"""Requests and streams through the limit of requests, the metrics, and a server in the process.

The model knows when each request was made, its bucket, how late the process woke up, and what the
server does. From these follow when the request arrives, with which deadline, its result or its
error, the lines of a stream, and each series of ``rest_client_*``. The buckets of the model are no
buckets: each has the time at which its next request is due (the generic cell rate algorithm).

Source: client-go's util/flowcontrol and tools/metrics.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from mooring.client.transport.idle_timer import IdleTimer
from mooring.client.transport.metered import MeteredTransport
from mooring.client.transport.rate_limit import limited
from mooring.client.transport.transport import (
    ChunkedStream,
    InProcessTransport,
    Pool,
    Request,
    read_all,
)
from mooring.clock import Rng, seeded_random
from mooring.errors import SchedulerError, Unreachable
from mooring.metrics.registry import Metrics
from mooring.virtual_loop import LoopClock
from tests.faults.parts.virtual_runs import check_run

REQUESTS: Final = 60
STREAMS: Final = 12
ROUNDING_S: Final = 1e-6
HOST: Final = "10.0.0.1:6443"
SERVERS: Final = (f"https://{HOST}", f"https://user:secret@{HOST}", f"https://{HOST}/prefix")
PATHS: Final = (
    ("/api/v1/pods", "others"),
    ("/api/v1/namespaces/shop/pods/a/binding", "others"),
    ("/apis/events.k8s.io/v1/namespaces/shop/events", "events"),
    ("/api/v1/namespaces/shop/events/a", "events"),
    ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a", "lease"),
)
BODY_MAX: Final = 40
LINE_MAX: Final = 9


class Limit(NamedTuple):
    """The numbers of a limit."""

    qps: float
    burst: int


class Plan(NamedTuple):
    """A request, and what the server does with it.

    Attributes:
        request: Its body is its number, so that it is recognized.
        bucket: Whose turn it takes.
        status: Of the answer; 0 = there is no connection.
        after_s: The time until the answer.
        content: The body of the answer.
        is_chunked: The body comes in pieces.
    """

    request: Request
    bucket: str
    status: int
    after_s: float
    content: bytes
    is_chunked: bool


class Away(Unreachable):
    """The server's own error."""


class StreamChecks:
    """Compares the lines of streams, the texts of errors, and idle timers."""

    problems: list[str]
    _rng: Rng
    _clock: LoopClock

    async def _check_lines(self) -> None:
        """Compares the lines of a stream with those of its whole text."""
        rng = self._rng
        status, idle_s = rng.choice((200, 200, 410)), rng.choice((None, 5.0))
        chunks = [
            (rng.choice((0.0, 1.0, 4.9, 5.1 if rng.random() < 0.2 else 0.0)), _text(rng))
            for _ in range(rng.randrange(8))
        ]
        stream = ChunkedStream(
            status, {"a": "b"}, _timed(chunks), idle_s=idle_s, line_bytes_max=LINE_MAX
        )
        real: list[Any] = [dict(stream.headers)]
        try:
            async for batch in stream.batches():
                real += [batch]
        except SchedulerError as error:
            real.append((type(error).__name__, str(error)))
        expected = [{"a": "b"}, *_batches(status, idle_s, chunks)]
        if real != expected:
            self.problems.append(f"{chunks} {idle_s} is {real}, not {expected}")

    async def _check_text(self) -> None:
        """Compares the text of an error, which is read only until it is long enough."""
        rng, read = self._rng, list[bytes]()
        chunks = [_text(rng) for _ in range(rng.randrange(1, 12))]
        bytes_max = rng.choice((0, 3, 10, 30))

        async def source() -> AsyncIterator[bytes]:
            for chunk in chunks:
                read.append(chunk)
                yield chunk

        stream = ChunkedStream(500, {}, source(), idle_s=None)
        real = await read_all(stream, bytes_max=bytes_max)
        # Lines that are complete count, without their ends.
        needed, begun, size = 0, b"", 0
        for chunk in chunks:
            needed += 1
            *lines, begun = (begun + chunk).split(b"\n")
            size += sum(map(len, lines))
            if lines and size > bytes_max:
                break
        expected = b"".join(chunks).removesuffix(b"\n")[:bytes_max]
        if real != expected or len(read) != needed:
            self.problems.append(f"of {chunks} {real!r} is read, {len(read)}, not {needed}")

    async def _check_idle(self) -> None:
        """Compares when a timer of idle streams fires: once a wait has lasted so long."""
        rng, fired = self._rng, []
        idle_s = rng.choice((1.0, 3.0))
        began_s = self._clock.monotonic_s()
        timer = IdleTimer(lambda: fired.append(self._clock.monotonic_s() - began_s), idle_s)
        now_s, since_s, due_s = 0.0, 0.0, math.inf
        waits = True
        for _ in range(rng.randrange(1, 8)):
            step_s = rng.choice((0.3, 0.9, 1.1, 2.9, 3.1))
            if waits and now_s + step_s > since_s + idle_s:
                due_s = min(due_s, since_s + idle_s)
            await asyncio.sleep(step_s)
            now_s += step_s
            if due_s < math.inf:
                break
            waits = rng.random() < 0.5
            if waits:
                timer.begin()
                since_s = now_s
            else:
                timer.end()
        timer.cancel()
        await asyncio.sleep(10.0)
        # While the reader uses data, the timer is set anew: it is up to one more interval late.
        latest_s = due_s + idle_s
        is_right = not fired if due_s == math.inf else len(fired) <= 1
        if not is_right or any(not due_s - ROUNDING_S <= at_s <= latest_s for at_s in fired):
            self.problems.append(f"an idle stream ends at {fired}, not {due_s}")
        if due_s < math.inf and not fired and now_s > latest_s:
            self.problems.append(f"an idle stream does not end at {due_s}")


class LayersRun(StreamChecks):
    """One run.

    Attributes:
        problems: Differences.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._clock = clock = LoopClock(asyncio.get_running_loop())
        self._limit = Limit(rng.choice((0.5, 2.0, 5.0)), rng.choice((0, 1, 2, 10)))
        self._metrics = Metrics(clock=clock)
        inner = InProcessTransport(
            self._serve, headers={"authorization": "Bearer a"}, is_cooperative=rng.random() < 0.5
        )
        metered = MeteredTransport(inner, self._metrics.client, server=rng.choice(SERVERS))
        self._is_limited = rng.random() < 0.8
        limit = self._limit if self._is_limited else None
        self._transport = limited(metered, limit, clock=clock, sleep=self._sleep)
        if not self._is_limited and self._transport is not metered:
            self.problems.append("a transport without a limit is another one")
        self._due_s = dict.fromkeys(("lease", "events", "others"), 0.0)
        self._plans: dict[bytes, Plan] = {}
        #: Body of a request -> when it arrived, and with which headers.
        self._arrived: dict[bytes, tuple[float, dict[str, str]]] = {}
        self._late_s = 0.0
        self._expected: Counter[tuple[str, str, str]] = Counter()
        self._sums: dict[tuple[str, str], float] = {}

    async def _sleep(self, seconds: float) -> None:
        is_rounding = seconds < ROUNDING_S
        self._late_s = 0.0 if is_rounding else self._rng.choice((0.0, 0.0, 0.0, 0.5, 4.0))
        await asyncio.sleep(seconds + self._late_s)

    # -- the server -------------------------------------------------------------------------------

    async def _serve(
        self, method: str, path: str, query: Any, headers: Any, body: bytes
    ) -> tuple[int, dict[str, str], Any]:
        name = headers["x-number"].encode()
        plan = self._plans[name]
        request = plan.request
        real = method, path, tuple(query), body
        if real != (request.method, request.path, tuple(request.query), request.body):
            self.problems.append(f"the server gets {real}, not {request}")
        self._arrived[name] = self._clock.monotonic_s(), dict(headers)
        if not plan.status:
            raise Away("no connection")
        await asyncio.sleep(plan.after_s)
        answer: Any = _pieces(plan.content) if plan.is_chunked else plan.content
        headers = {"Content-Type": "a/b", "X-Number": name.decode(), "X-TEXT": "Mixed Case"}
        return plan.status, headers, answer

    # -- requests ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sends requests and streams, and compares the metrics at last."""
        rng = self._rng
        for number in range(REQUESTS):
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.1, 1.0, 6.0)) * rng.uniform(0.8, 1.2))
            plan = self._drawn(str(number).encode())
            await (self._stream(plan) if rng.random() < 0.25 else self._request(plan))
        for _ in range(STREAMS):
            await self._check_lines()
            await self._check_text()
            await self._check_idle()
        self._check_metrics()
        await self._transport.close()
        try:
            await self._transport.request(self._drawn(b"last").request)
        except Unreachable as error:
            if "closed" not in str(error) and "no token" not in str(error):
                self.problems.append(f"a closed transport: {error}")
        else:
            self.problems.append("a closed transport sends a request")

    def _drawn(self, name: bytes) -> Plan:
        rng = self._rng
        path, bucket = rng.choice(PATHS)
        method = rng.choice(("GET", "POST", "PUT", "PATCH", "DELETE"))
        request = Request(
            method,
            path,
            deadline_s=rng.choice((0.5, 3.0, 10.0)) * rng.uniform(1.0, 1.1),
            query=rng.choice(((), (("limit", "500"),))),
            body=b"" if method == "GET" else b"x" * rng.randrange(3000),
            headers={"x-number": name.decode(), "accept": "a/b"},
            pool=Pool.LEASE if bucket == "lease" else rng.choice((Pool.READ, Pool.WRITE)),
            bytes_max=BODY_MAX,
        )
        size = rng.choice((0, 5, BODY_MAX, BODY_MAX + 1))
        after_s = rng.choice((0.0, 0.0, 0.2, 2.0, 8.0)) * rng.uniform(0.9, 1.0)
        status = rng.choice((200, 200, 201, 404, 500, 0))
        plan = Plan(request, bucket, status, after_s, b"y" * size, rng.random() < 0.3)
        self._plans[name] = plan
        return plan

    def _turn(self, plan: Plan) -> float:
        """Takes a turn in the bucket of a request; returns the wait."""
        if not self._is_limited:
            return 0.0
        now_s = self._clock.monotonic_s()
        step_s = 1 / self._limit.qps
        due_s = max(self._due_s[plan.bucket], now_s)
        self._due_s[plan.bucket] = due_s + step_s
        wait_s = due_s - now_s - (max(self._limit.burst, 1) - 1) * step_s
        return wait_s if wait_s > ROUNDING_S else 0.0

    async def _request(self, plan: Plan) -> None:
        request, began_s = plan.request, self._clock.monotonic_s()
        wait_s, self._late_s = self._turn(plan), 0.0
        try:
            answer: Any = await self._transport.request(request)
            real: Any = answer.status, dict(answer.headers), answer.body
        except SchedulerError as error:
            real = type(error).__name__, str(error)
        lasted_s = self._clock.monotonic_s() - began_s
        sent_s, left_s = self._sent(plan, wait_s)
        what = f"{request.method} {request.path}"
        number = request.headers["x-number"]
        arrival = self._arrived.get(number.encode())
        if left_s <= 0:
            due_s = sent_s
            text = f"{what}: no token of the rate limit in {request.deadline_s:g} s"
            expected: Any = "Unreachable", text
            if arrival is not None:
                self.problems.append(f"{what} is sent without a token")
        else:
            expected, due_s = self._answer(plan, left_s)
            code = "<error>" if isinstance(expected[0], str) else str(expected[0])
            self._count(plan, code, due_s, has_answer=code != "<error>")
            due_s += sent_s
            self._check_arrival(arrival, began_s + sent_s, number)
        if real != expected or abs(lasted_s - due_s) > ROUNDING_S:
            self.problems.append(
                f"{what} ends with {real} after {lasted_s:.6f} s, not {expected} {due_s:.6f}"
            )

    def _sent(self, plan: Plan, wait_s: float) -> tuple[float, float]:
        """Returns when a request is sent, and what is left of its deadline."""
        if not wait_s:
            return 0.0, plan.request.deadline_s
        slept_s = min(wait_s, plan.request.deadline_s) + self._late_s
        return slept_s, plan.request.deadline_s - max(wait_s, slept_s)

    def _answer(self, plan: Plan, left_s: float) -> tuple[Any, float]:
        """Returns the result of a request that is sent, and the time until then."""
        what = f"{plan.request.method} {plan.request.path}"
        if not plan.status:
            return ("Away", "no connection"), 0.0
        if plan.after_s >= left_s:
            return ("OutcomeUnknown", f"{what}: no response in {left_s:g} s"), left_s
        if len(plan.content) > BODY_MAX:
            return ("AnswerTooLong", f"{what}: more than {BODY_MAX} bytes"), plan.after_s
        headers = {"content-type": "a/b", "x-number": plan.request.headers["x-number"]}
        headers["x-text"] = "Mixed Case"
        return (plan.status, headers, plan.content), plan.after_s

    def _check_arrival(
        self, arrival: tuple[float, dict[str, str]] | None, at_s: float, number: str
    ) -> None:
        headers = {"authorization": "Bearer a", "accept": "a/b", "x-number": number}
        if arrival is None or abs(arrival[0] - at_s) > ROUNDING_S or arrival[1] != headers:
            self.problems.append(f"a request arrives {arrival}, not {at_s, headers}")

    def _count(self, plan: Plan, code: str, seconds: float, *, has_answer: bool) -> None:
        method = plan.request.method
        self._expected["rest_client_requests_total", method, code] += 1
        sizes = {
            "rest_client_request_duration_seconds": seconds,
            "rest_client_request_size_bytes": float(len(plan.request.body)),
        }
        if has_answer:
            sizes["rest_client_response_size_bytes"] = float(len(plan.content))
        for name, value in sizes.items():
            self._expected[f"{name}_count", method, ""] += 1
            at = f"{name}_sum", method
            self._sums[at] = self._sums.get(at, 0.0) + value

    # -- streams ----------------------------------------------------------------------------------

    async def _stream(self, plan: Plan) -> None:
        request, began_s = plan.request._replace(method="GET", body=b""), self._clock.monotonic_s()
        number = request.headers["x-number"]
        self._plans[number.encode()] = plan = plan._replace(request=request)
        wait_s, self._late_s = self._turn(plan), 0.0
        code, error = "<error>", ""
        try:
            async with self._transport.stream(request, idle_s=60.0) as stream:
                code = str(stream.status)
                body = await read_all(stream)
                if stream.headers.get("x-number") != number:
                    self.problems.append("a stream has the headers of another one")
        except SchedulerError as failure:
            error = str(failure)
        lasted_s = self._clock.monotonic_s() - began_s
        sent_s, left_s = self._sent(plan, wait_s)
        due_s, expected = sent_s + min(plan.after_s, left_s), str(plan.status)
        if left_s <= 0:
            due_s, expected = sent_s, "<error>"
        elif not plan.status or plan.after_s >= left_s:
            expected, due_s = "<error>", due_s if plan.status else sent_s
        if left_s > 0:
            self._expected["rest_client_requests_total", "GET", expected] += 1
            self._check_arrival(self._arrived.get(number.encode()), began_s + sent_s, number)
        if code != expected or abs(lasted_s - due_s) > ROUNDING_S:
            self.problems.append(f"a stream {code} after {lasted_s:.6f} s, not {expected} {due_s}")
        is_cut = code == "200" and plan.content
        if is_cut and "middle of a line" not in error:
            self.problems.append("a stream that ends within a line is complete")
        if code not in ("200", "<error>") and (error or body != plan.content):
            self.problems.append(f"the text of an error is not read: {error}")

    def _check_metrics(self) -> None:
        real: Counter[tuple[str, str, str]] = Counter()
        sums: dict[tuple[str, str], float] = {}
        for family in self._metrics.collect():
            for name, labels, value, *_ in family.samples:
                if not name.startswith("rest_client_re") or not value:
                    continue
                if labels.get("host") != HOST:
                    self.problems.append(f"{name} of the host {labels.get('host')}")
                method = labels.get("method") or labels.get("verb") or ""
                if name.endswith("_sum"):
                    sums[name, method] = value
                elif not name.endswith(("_bucket", "_created")):
                    real[name, method, labels.get("code", "")] += int(value)
        sums_differ = any(
            abs(sums.get(at, 0.0) - self._sums.get(at, 0.0)) > ROUNDING_S
            for at in sums.keys() | self._sums.keys()
        )
        if real != self._expected or sums_differ:
            wrong = [(at, real[at], n) for at, n in self._expected.items() if real[at] != n]
            more = real - self._expected
            self.problems.append(f"metrics differ: {wrong} {more} {sums} {self._sums}")


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 7):
        yield content[start : start + 7]


async def _timed(chunks: list[tuple[float, bytes]]) -> AsyncIterator[bytes]:
    for after_s, chunk in chunks:
        await asyncio.sleep(after_s)
        yield chunk


def _text(rng: Rng) -> bytes:
    return bytes(rng.choice(b"abcdefg\n\n") for _ in range(rng.randrange(1, 14)))


def _batches(
    status: int, idle_s: float | None, chunks: list[tuple[float, bytes]]
) -> list[list[bytes] | tuple[str, str]]:
    """Returns the batches of a stream, and its error, by its text so far."""
    result: list[list[bytes] | tuple[str, str]] = []
    begun = b""
    for after_s, chunk in chunks:
        if idle_s is not None and after_s > idle_s:
            return [*result, ("StreamBroken", f"no data for {idle_s:g} s")]
        begun += chunk
        lines = begun.split(b"\n")
        if len(lines[0]) > LINE_MAX:
            error = f"a line is longer than {LINE_MAX} bytes"
            return [*result, ("StreamUnreadable", error)]
        if len(lines) > 1:
            result.append(lines[:-1])
        begun = lines[-1]
    if begun and status == 200:
        return [*result, ("StreamBroken", "the stream ended in the middle of a line")]
    return [*result, [begun]] if begun else result


def run_layers(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a request, a stream or a metric differs from the model.
    """
    check_run(LayersRun, seed)
