"""A plugin that never returns: the watchdog names it, and signals end the process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.clock import SystemClock, seeded_random
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.watchdog import Culprit, Watchdog

HANG_S = 0.3
SPIN_S_MAX = 30.0


class Loops:
    """A Reserve plugin that does not return before ``released`` is set."""

    name = "Loops"

    def __init__(self) -> None:
        self.released = threading.Event()

    def reserve(self, cycle: Any, node_name: str) -> None:
        self._spin()

    def unreserve(self, cycle: Any, node_name: str) -> None:
        """Gives nothing back."""

    def _spin(self) -> None:
        # A watchdog that finds nothing fails the test; it must not hang it.
        now_s = SystemClock.monotonic_s
        ends_s = now_s() + SPIN_S_MAX
        while not self.released.is_set() and now_s() < ends_s:
            pass
        self.released.set()

    def events(self) -> list[Any]:
        return []


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Restores the signal handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Case:
    """A scheduler with a plugin that loops."""

    def __init__(self) -> None:
        self.plugin = Loops()
        self.found: list[Culprit] = []
        self.codes: list[int] = []
        #: Called in the watchdog's thread when it has found the loop hanging.
        self.on_hang: Any = lambda: self.plugin.released.set()

    def _note(self, culprit: Culprit) -> None:
        # A busy machine may stop the loop elsewhere, too.
        if culprit.plugin:
            self.found.append(culprit)
            self.on_hang()

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.plugin.released.set()

    async def run(self) -> None:
        clock, rng = SystemClock(), seeded_random(0)
        api = ApiServer(clock, rng)
        client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
        await client.create(make_node("a"))
        await client.create(make_pod("web"))
        service = Service(
            client, clock=clock, rng=rng, options=ServiceOptions(plugins=[self.plugin])
        )
        plugins = [
            plugin for each in service.profiles.values() for plugin in each.profile.all_plugins()
        ]
        self.watchdog = Watchdog(
            lambda: plugins, clock=clock, hang_s=HANG_S, end=self._end, on_hang=self._note
        )
        async with asyncio.TaskGroup() as tasks:
            self.watchdog.handle_signals(service.stop)
            running = tasks.create_task(service.run())
            with self.watchdog.watch():
                while not self.plugin.released.is_set():  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(0)
                service.stop()
                await running


def test_the_plugin_its_method_and_the_pod_are_named(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    asyncio.run(case.run())
    culprit = case.found[0]
    assert (culprit.plugin, culprit.method, culprit.pod) == (
        "Loops",
        "reserve",
        "default/web",
    )
    assert "_spin" in culprit.stack
    lines = [each for each in caplog.records if each.getMessage() == "the event loop hangs"]
    line = next(each for each in lines if vars(each)["plugin"] != "none")
    assert line.levelno == logging.ERROR
    assert vars(line)["plugin"] == "Loops"
    assert vars(line)["seconds"] >= HANG_S


def test_a_signal_ends_a_process_that_hangs() -> None:
    case = Case()
    case.on_hang = lambda: os.kill(os.getpid(), signal.SIGTERM)
    asyncio.run(case.run())
    assert case.codes[0] == 1


def test_a_hanging_loop_is_unhealthy() -> None:
    case = Case()
    health: list[str | None] = []

    def look() -> None:
        health.append(case.watchdog.check_health())
        case.plugin.released.set()

    case.on_hang = look
    asyncio.run(case.run())
    assert health[0] is not None
    assert "has not run for" in health[0]


def test_the_first_signal_stops_in_peace_and_the_second_one_ends() -> None:
    codes: list[int] = []

    async def main() -> None:
        watchdog = Watchdog(list, clock=SystemClock(), end=codes.append)
        stopped = asyncio.Event()
        watchdog.handle_signals(stopped.set)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(5):
            await stopped.wait()
        assert codes == []
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert codes == [1]
