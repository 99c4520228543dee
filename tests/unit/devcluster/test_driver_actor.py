"""Simulated drivers on an API server: slices follow the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.devcluster.driver_actor import DriverActor
from mooring.simulation.device_file import (
    DeviceFile,
    DeviceModel,
    DriverDevices,
    NodeSelection,
    slices_of_node,
)
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually

FILE = DeviceFile(
    drivers=(
        DriverDevices(
            driver="gpu.test",
            nodes=NodeSelection(match_labels={"gpu": "yes"}),
            devices=(DeviceModel(model="A100", count=2),),
        ),
    )
)
GPU = {"gpu": "yes"}


@asynccontextmanager
async def drivers(*objects: Any) -> AsyncIterator[Client]:
    clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
    api = ApiServer(clock, rng)
    client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
    for obj in objects:
        await client.create(obj)
    running = asyncio.create_task(DriverActor(client, FILE, clock=clock, rng=rng).run())
    yield client
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def slice_names(client: Client) -> list[str]:
    await asyncio.sleep(1.0)
    return [part.metadata.name for part in (await client.list("ResourceSlice")).items]


@virtually
async def test_every_selected_node_gets_its_slices() -> None:
    async with drivers(make_node("a", labels=GPU), make_node("b")) as client:
        assert await slice_names(client) == ["a-gpu.test-0"]
        await client.create(make_node("c", labels=GPU))
        assert await slice_names(client) == ["a-gpu.test-0", "c-gpu.test-0"]


@virtually
async def test_a_deleted_node_loses_its_slices() -> None:
    async with drivers(make_node("a", labels=GPU)) as client:
        assert await slice_names(client) == ["a-gpu.test-0"]
        await client.delete("Node", "a")
        assert await slice_names(client) == []


@virtually
async def test_a_node_gets_slices_with_a_new_label() -> None:
    async with drivers(make_node("a")) as client:
        assert await slice_names(client) == []
        await client.patch("Node", "a", {"metadata": {"labels": GPU}})
        assert await slice_names(client) == ["a-gpu.test-0"]


@virtually
async def test_slices_that_exist_stay() -> None:
    node = make_node("a", labels=GPU)
    (part,) = slices_of_node(FILE, node)
    async with drivers(node, part) as client:
        before = await client.get("ResourceSlice", "a-gpu.test-0")
        await asyncio.sleep(1.0)
        assert await client.get("ResourceSlice", "a-gpu.test-0") == before
