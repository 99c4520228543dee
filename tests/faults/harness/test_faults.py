"""Each fault of the network, with a server that only counts requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import fields
from typing import Any

import pytest

from mooring.client import InProcessTransport, Request
from mooring.client.transport.transport import StreamBroken
from mooring.clock import seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.helpers.virtual_loop import run_virtually

BINDING = "/api/v1/namespaces/default/pods/p/binding"
LINES = [b'{"type":"ADDED","n":%d}' % number for number in range(5)]


class Server:
    """Answers every request, and records its time."""

    def __init__(self) -> None:
        self.received_at_s: list[float] = []

    async def handle(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        self.received_at_s.append(asyncio.get_running_loop().time())
        return 200, {}, self.lines() if dict(query).get("watch") else b"done"

    async def lines(self) -> AsyncIterator[bytes]:
        for line in LINES:
            yield line + b"\n"
            await asyncio.sleep(1)
        await asyncio.sleep(1000)


class Net:
    """A client's end of the network, and the server's."""

    def __init__(self, seed: int = 1) -> None:
        self.fired: list[str] = []
        self.server = Server()
        self.network = FaultyNetwork(
            seeded_random(seed), lambda fired: self.fired.append(fired.name)
        )
        self.transport = FaultyTransport(self.network, InProcessTransport(self.server.handle))

    async def post(self, path: str = BINDING, deadline_s: float = 10.0) -> Any:
        return await self.transport.request(Request("POST", path, deadline_s=deadline_s))

    async def watch(self, *, idle_s: float = 150.0, seconds: float = 20.0) -> list[bytes]:
        query = [("watch", "1"), ("resourceVersion", "5")]
        request = Request("GET", "/api/v1/pods", deadline_s=30.0, query=query)
        received: list[bytes] = []
        try:
            async with asyncio.timeout(seconds):
                await self._read(request, idle_s, received)
        except TimeoutError:
            received.append(b"(no end)")
        except StreamBroken as broken:
            received.append(b"(broken: %b)" % str(broken).encode())
        return received

    async def _read(self, request: Request, idle_s: float, received: list[bytes]) -> None:
        async with (
            self.transport.stream(request, idle_s=idle_s) as stream,
            aclosing(stream.batches()) as batches,
        ):
            if stream.status != 200:
                received.append(b"%d" % stream.status)
                return
            async for lines in batches:
                received += [line for line in lines if line]


def run(work: Callable[[Net], Awaitable[None]], *, seed: int = 1) -> Net:
    async def all_of_it() -> Net:
        net = Net(seed)
        async with asyncio.TaskGroup() as tasks:
            net.network.open(tasks)
            await work(net)
        return net

    return run_virtually(all_of_it())


def outcome(name: str, seed: int) -> tuple[str, int]:
    """Returns a client's result of a binding with one fault, and how often it was applied."""
    results: list[str] = []

    async def work(net: Net) -> None:
        net.network.plan(name, BINDING)
        try:
            results.append(str((await net.post()).status))
        except (Unreachable, OutcomeUnknown) as error:
            results.append(type(error).__name__)

    net = run(work, seed=seed)
    assert net.fired == [name]
    return results[0], len(net.server.received_at_s)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unreachable", {("Unreachable", 0)}),
        ("too_many", {("429", 0)}),
        ("lost", {("OutcomeUnknown", 1)}),
        ("conflict", {("409", 0), ("409", 1)}),
        # A request that arrives after its client timed out is applied.
        ("slow", {("200", 1), ("OutcomeUnknown", 1)}),
    ],
)
def test_the_result_of_each_fault(name: str, expected: set[tuple[str, int]]) -> None:
    assert {outcome(name, seed) for seed in range(30)} == expected


def test_a_server_error_may_have_been_applied_or_not() -> None:
    results = {outcome("server_error", seed) for seed in range(60)}

    codes = {code for code, _ in results}
    assert codes == {"500", "502", "503", "504"}
    assert {count for _, count in results} == {0, 1}


def test_without_faults_every_request_succeeds() -> None:
    async def work(net: Net) -> None:
        assert (await net.post()).body == b"done"
        assert await net.watch(seconds=10) == [*LINES, b"(no end)"]

    assert run(work).fired == []


def test_a_late_request_arrives_after_its_client_timed_out() -> None:
    async def work(net: Net) -> None:
        net.network.faults = Faults(slow=1.0)
        for _ in range(40):
            try:
                await net.post(deadline_s=1.0)
            except OutcomeUnknown:
                net.network.heal()
                break
        timed_out_at_s = asyncio.get_running_loop().time()
        assert net.network.is_in_transit(BINDING)
        assert net.network.late_count == 1
        await asyncio.sleep(130)
        assert net.server.received_at_s[-1] > timed_out_at_s
        assert net.network.late_count == 0

    run(work, seed=5)


def test_a_restart_breaks_connections_and_refuses_new_ones() -> None:
    async def work(net: Net) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(net.watch(seconds=100))
            await asyncio.sleep(2.5)
            net.network.restart(30.0)
            with pytest.raises(Unreachable):
                await net.post()
            with pytest.raises(Unreachable):
                await net.watch()
        assert watching.result() == LINES[:3]
        await asyncio.sleep(30)
        assert (await net.post()).status == 200

    run(work)


def test_a_watch_breaks_at_any_byte() -> None:
    ends: set[bytes] = set()
    for seed in range(40):

        async def work(net: Net) -> None:
            net.network.plan("cut", "watch")
            ends.add([b"(nothing)", *await net.watch()][-1])

        run(work, seed=seed)

    # In the middle of a line, after a whole one, before the first byte.
    assert b"(broken: the stream ended in the middle of a line)" in ends
    assert {LINES[0], b"(nothing)"} & ends


def test_a_silent_watch_ends_by_its_idle_limit_or_when_the_network_heals() -> None:
    async def idle(net: Net) -> None:
        net.network.plan("silent", "watch")
        assert await net.watch(seconds=1000) == [b"(broken: no data for 150 s)"]

    async def healed(net: Net) -> None:
        net.network.plan("silent", "watch")
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(net.watch(seconds=1000))
            await asyncio.sleep(5)
            net.network.heal()
            await asyncio.sleep(0.1)
            assert watching.done()
            assert watching.result() == []

    run(idle)
    run(healed)


def test_a_410_comes_at_connect_or_as_an_event() -> None:
    async def work(net: Net) -> None:
        net.network.plan("expired", "watch")
        assert await net.watch() == [b"410"]
        query = Request("GET", "/api/v1/pods", deadline_s=30.0, query=[("watch", "1")])
        net.network.plan("expired", "watch")
        async with (
            net.transport.stream(query, idle_s=150.0) as stream,
            aclosing(stream.batches()) as batches,
        ):
            lines = [line async for batch in batches for line in batch if line]
        assert len(lines) == 1
        assert b'"ERROR"' in lines[0]
        assert b'"code":410' in lines[0]

    run(work)


def test_old_lines_are_repeated_before_new_ones() -> None:
    async def work(net: Net) -> None:
        net.network.faults = Faults(repeated=1.0)
        lines = [line for line in await net.watch() if line != b"(no end)"]
        assert len(lines) > len(LINES)
        assert list(dict.fromkeys(lines)) == LINES

    run(work)


def test_a_retry_before_its_retry_after_is_recorded() -> None:
    async def work(net: Net) -> None:
        net.network.plan("too_many", BINDING)
        retry_after_s = int((await net.post()).headers["retry-after"])
        assert 1 <= retry_after_s <= 120
        await asyncio.sleep(retry_after_s - 0.5)
        await net.post("/api/v1/other")
        assert net.network.requests.early == []
        await net.post()
        assert len(net.network.requests.early) == 1

    run(work)


def test_a_swarm_draws_about_half_of_the_faults_each_at_its_own_rate() -> None:
    drawn = [Faults.drawn(seeded_random(seed)) for seed in range(200)]

    for field in fields(Faults):
        rates = [getattr(faults, field.name) for faults in drawn]
        assert 60 < sum(rate > 0 for rate in rates) < 140, field.name
        assert len(set(rates)) > 50
    assert Faults.drawn(seeded_random(1)) == Faults.drawn(seeded_random(1))


def test_the_end_of_the_faults_is_recorded() -> None:
    async def work(net: Net) -> None:
        net.network.restart(42.0)
        net.network.heal()
        assert net.network.healed_at_s == 42.0
        assert net.network.faults == Faults()

    run(work)
