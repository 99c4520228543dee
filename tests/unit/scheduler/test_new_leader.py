"""A new leader that was cut off from the API server does not schedule by what it knew before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request, Stream
from mooring.clock import seeded_random
from mooring.config import default_configuration
from mooring.errors import Unreachable
from mooring.scheduler.informer_health import FRESH_S_MAX
from mooring.scheduler.leader_election import make_elector
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import HookTransport, virtually


class Silenced:
    """A stream that brings nothing from the moment its network is cut: its connection is dead."""

    def __init__(self, inner: Stream, network: CutNetwork) -> None:
        self._inner = inner
        self._network = network
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        async for lines in self._inner.batches():
            if self._network.was_cut(self):
                await asyncio.Event().wait()
            yield lines


class CutNetwork(HookTransport):
    """The network of one scheduler: cut for a time; the streams of before never bring anything."""

    def __init__(self, api: ApiServer) -> None:
        super().__init__(InProcessTransport(api.handle, headers=IDENTITIES["mooring"].headers()))
        self.is_cut = False
        #: Lists and watches of these paths are refused.
        self.refused = ""
        self.lists: list[str] = []
        self._silent: list[Stream] = []
        self._open: list[Stream] = []
        self.before.append(self._refuse)

    async def _refuse(self, request: Request) -> None:
        if self.is_cut or (self.refused and request.path.endswith(self.refused)):
            raise Unreachable("cut")

    def was_cut(self, stream: Stream) -> bool:
        return stream in self._silent

    def cut(self) -> None:
        self.is_cut = True
        self._silent += self._open

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        await self._refuse(request)
        if ("sendInitialEvents", "true") in request.query:
            self.lists.append(request.path)
        async with super().stream(request, idle_s=idle_s) as stream:
            silenced = Silenced(stream, self)
            self._open.append(silenced)
            yield silenced


class Lab:
    """A server with one node for one pod, a leader, and a standby whose network can be cut."""

    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.api = ApiServer(self.clock, seeded_random(9))
        transport = InProcessTransport(self.api.handle, headers=ADMIN.headers())
        self.client = Client(transport, rng=seeded_random(9))
        self.network = CutNetwork(self.api)
        self.leader = self._service(CutNetwork(self.api), 1)
        self.standby = self._service(self.network, 2)

    def _service(self, wire: CutNetwork, seed: int) -> Service:
        config, rng = default_configuration(), seeded_random(seed)
        elector = make_elector(wire, config, clock=self.clock, rng=rng)
        assert elector is not None
        client = Client(wire, rng=rng, fence=elector.fence)
        options = ServiceOptions(elector=elector)
        return Service(client, config, clock=self.clock, rng=rng, options=options)

    async def nodes_of_pods(self) -> dict[str, str]:
        pods = (await self.client.list("Pod", "default")).items
        return {pod.metadata.name: pod.spec.node_name for pod in pods}


@asynccontextmanager
async def running() -> AsyncIterator[Lab]:
    """Yields a lab whose leader leads, and whose standby has listed all kinds."""
    lab = Lab()
    await lab.client.create(make_node("only", allocatable={"pods": "1"}))
    async with asyncio.TaskGroup() as tasks:
        leader = tasks.create_task(lab.leader.run())
        await lab.leader.wait_until_synced()
        standby = tasks.create_task(lab.standby.run())
        await asyncio.sleep(5)
        assert lab.standby.has_listed
        yield lab
        leader.cancel()
        standby.cancel()


@virtually
async def test_pods_that_the_last_leader_bound_are_known_though_the_watches_were_dead() -> None:
    async with running() as lab:
        lab.network.cut()
        await asyncio.sleep(5)
        await lab.client.create(make_pod("first"))
        await asyncio.sleep(5)
        assert await lab.nodes_of_pods() == {"first": "only"}
        lab.leader.stop()
        await lab.client.create(make_pod("second"))
        await asyncio.sleep(5)
        lab.network.is_cut = False
        await lab.standby.wait_until_synced()
        await asyncio.sleep(5)
        assert await lab.nodes_of_pods() == {"first": "only", "second": ""}
        assert len(lab.standby.cache.pods) == 1


@virtually
async def test_nothing_is_listed_again_if_nothing_has_failed() -> None:
    async with running() as lab:
        lists = len(lab.network.lists)
        lab.leader.stop()
        await lab.standby.wait_until_synced()
        assert len(lab.network.lists) == lists


@virtually
async def test_a_kind_that_cannot_be_listed_is_not_waited_for_forever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with running() as lab:
        lab.network.cut()
        lab.network.refused = "/storageclasses"
        await asyncio.sleep(5)
        lab.leader.stop()
        lab.network.is_cut = False
        began_s = lab.clock.monotonic_s()
        await lab.standby.wait_until_synced()
        assert FRESH_S_MAX <= lab.clock.monotonic_s() - began_s < FRESH_S_MAX + 10
        (record,) = [record for record in caplog.records if "may be stale" in record.message]
        assert record.__dict__["kinds"] == ["StorageClass"]
