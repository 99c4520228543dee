"""The handle of plugins without a cluster, and coroutines that wait for ever."""

from __future__ import annotations

import gc
from collections.abc import Awaitable
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import PluginError
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node, make_pod


def handle(cache: Cache | None = None) -> tuple[OfflineHandle, VirtualClock]:
    clock = VirtualClock()
    return OfflineHandle(cache or cluster(), clock, seeded_random(7)), clock


class Never:
    """Something that is awaited and never comes."""

    def __await__(self) -> Any:
        yield self


def test_the_snapshot_is_the_present_one() -> None:
    cache = cluster(make_node("a"))
    given, _ = handle(cache)

    before = given.snapshot
    cache.put_node(make_node("b"))

    assert not before.is_current
    assert given.snapshot.is_current
    assert len(given.snapshot.nodes) == 2


def test_time_and_chance_are_those_of_the_run() -> None:
    given, clock = handle()
    twin = seeded_random(7)

    clock.advance(2.5)

    assert given.monotonic_s() == 2.5
    assert [given.random() for _ in range(4)] == [twin.random() for _ in range(4)]


def test_binding_always_works() -> None:
    given, clock = handle()

    run_to_end(given.bind(PodInfo(make_pod()), "a"))

    assert clock.monotonic_s() == 0.0


@pytest.mark.parametrize("deadline_s", [0.0, 0.5, 600.0])
def test_waiting_lasts_until_the_deadline_on_the_virtual_clock(deadline_s: float) -> None:
    given, clock = handle()

    with pytest.raises(PluginError) as caught:
        run_to_end(given.until("Pod", "default/p", lambda pod: True, deadline_s))

    assert caught.value.problem == (f"timed out after {deadline_s:g} s waiting for Pod default/p")
    assert clock.monotonic_s() == deadline_s


# ---------------------------------------------------------------- coroutines


async def nested(value: Any, *awaited: Awaitable[Any]) -> Any:
    for each in awaited:
        await each
    if isinstance(value, Exception):
        raise value
    return value


def test_a_coroutine_that_never_waits_is_run_to_its_end() -> None:
    assert run_to_end(nested(3)) == 3
    assert run_to_end(nested(4, nested(1), nested(2))) == 4


def test_what_it_raises_comes_through() -> None:
    with pytest.raises(LookupError, match="inside"):
        run_to_end(nested(LookupError("inside")))


def test_one_that_waits_is_closed_and_told_so() -> None:
    closed = []

    async def waits() -> None:
        try:
            await Never()
        finally:
            closed.append("closed")

    with pytest.raises(PluginError, match="awaited something other than handle"):
        run_to_end(waits())

    assert closed == ["closed"]
    gc.collect()  # and nothing is left that would warn that it was never awaited
