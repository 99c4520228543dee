"""Large calls of an extender with threads: the event loop serves probes and informers meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from mooring.clock import VirtualClock
from mooring.extender_server.plugin_extender import Extender
from mooring.framework import NodeInfo, Status, per_node
from mooring.objects.codec.decode import to_builtins
from mooring.serial_executor import LARGE_BYTES
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod


class Records:
    """Notes the thread that evaluates each node; waits there until a test lets it go on."""

    name = "Records"

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.reached = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def _note(self) -> None:
        self.threads.append(threading.get_ident())
        self.reached.set()
        self.may_go_on.wait()

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        self._note()
        return None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        self._note()
        return 50


POD = to_builtins(make_pod("web"))
NODES = {"items": [to_builtins(make_node(name)) for name in "ab"]}


def body_of(size_bytes: int, **arguments: Any) -> bytes:
    """Returns the JSON of a call, with blanks up to a size."""
    return msgspec.json.encode({"Pod": POD, **arguments}).ljust(size_bytes)


def extender_of(plugin: Records, cluster: Cache | None = None) -> Extender:
    extender = Extender([plugin], clock=VirtualClock(), cluster=cluster)
    extender.allow_threads()
    return extender


def cluster() -> Cache:
    cache = Cache()
    for name in "ab":
        cache.put_node(make_node(name))
    return cache


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_large_call_is_evaluated_in_a_thread(verb: str) -> None:
    plugin = Records()
    extender = extender_of(plugin)

    async def main() -> tuple[bytes, bytes]:
        large = await extender.answer(verb, body_of(LARGE_BYTES + 1, Nodes=NODES))
        assert threading.get_ident() not in plugin.threads
        plugin.threads.clear()
        small = await extender.answer(verb, body_of(0, Nodes=NODES))
        assert set(plugin.threads) == {threading.get_ident()}
        return large, small

    large, small = asyncio.run(main())
    assert large == small


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_the_cache_of_a_cluster_is_read_on_the_event_loop(verb: str) -> None:
    plugin = Records()
    extender = extender_of(plugin, cluster())
    body = body_of(LARGE_BYTES + 1, NodeNames=["a", "b"])

    async def main() -> None:
        await extender.answer(verb, body)
        assert set(plugin.threads) == {threading.get_ident()}

    asyncio.run(main())


def test_victims_of_a_large_call_are_read_on_the_event_loop() -> None:
    plugin = Records()
    extender = extender_of(plugin, cluster())
    body = body_of(LARGE_BYTES + 1, NodeNameToMetaVictims={"a": {"Pods": []}})

    async def main() -> Any:
        answer = await extender.answer("preempt", body)
        assert set(plugin.threads) == {threading.get_ident()}
        return msgspec.json.decode(answer)

    assert list(asyncio.run(main())["NodeNameToMetaVictims"]) == ["a"]


def test_calls_are_answered_one_after_the_other() -> None:
    plugin = Records()
    extender = extender_of(plugin)

    async def main() -> None:
        plugin.may_go_on.clear()
        large = asyncio.ensure_future(
            extender.answer("filter", body_of(LARGE_BYTES + 1, Nodes=NODES))
        )
        await asyncio.get_running_loop().run_in_executor(None, plugin.reached.wait)
        small = asyncio.ensure_future(extender.answer("filter", body_of(0, Nodes=NODES)))
        await asyncio.sleep(0)
        assert not large.done()
        assert not small.done()
        plugin.may_go_on.set()
        assert await large == await small

    asyncio.run(main())


def test_errors_of_a_thread_are_those_of_the_event_loop() -> None:
    extender = extender_of(Records())

    async def main() -> tuple[bytes, bytes]:
        large = await extender.answer("filter", b"{" + b" " * LARGE_BYTES)
        return large, await extender.answer("filter", b"{ ")

    large, small = asyncio.run(main())
    assert msgspec.json.decode(large)["Error"]
    assert msgspec.json.decode(small)["Error"]
