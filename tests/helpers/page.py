"""A cluster in this process with its page, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from mooring.clock import SystemClock, seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import Seed
from mooring.scheduler.service import ServiceOptions
from mooring.ui.attempts import AttemptLog
from mooring.ui.cluster_copy import SchedulerSettings
from mooring.ui.guard import Guard
from mooring.ui.live_page import LivePage


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    """Returns a node with 8Gi of memory."""
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Returns a pod."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Page(NamedTuple):
    """A page, its cluster, and a session that has no cookie yet."""

    cluster: InMemoryCluster
    guard: Guard
    http: aiohttp.ClientSession

    @property
    def root(self) -> str:
        """The address without the token."""
        return self.guard.address.partition("/#")[0]

    async def open(self) -> None:
        """Opens the session."""
        async with self.http.post(
            f"{self.root}/session", json={"token": self.guard.token}
        ) as reply:
            assert reply.status == 204

    async def get(self, path: str) -> Any:
        """Returns a document."""
        async with self.http.get(f"{self.root}/api/v1/{path}") as reply:
            document = await reply.json()
            assert reply.status == 200, document
            return document

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Sends a command; returns status and document."""
        async with self.http.post(f"{self.root}/api/v1/{path}", json=body) as reply:
            return reply.status, await reply.json()


@asynccontextmanager
async def page_of(
    objects: Sequence[dict[str, Any]], *, tick_s: float = 0.02
) -> AsyncIterator[Page]:
    """Runs a cluster with these objects and serves its page."""
    clock, log = SystemClock(), AttemptLog(SystemClock())
    cluster = InMemoryCluster(
        clock=clock,
        rng=seeded_random(0),
        options=ServiceOptions(observer=log),
        with_controllers=True,
        instant_deletion=True,
    )
    pending = await cluster.seed([Seed(raw) for raw in objects])
    page = LivePage(
        cluster, clock, log, SchedulerSettings(), title="test", kubeconfig="export", tick_s=tick_s
    )
    # Cookies of an address, not of a name, are stored only by an "unsafe" jar.
    jar = aiohttp.CookieJar(unsafe=True)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        await cluster.service.wait_until_synced()
        await cluster.submit(pending)
        await cluster.settle()
        async with page.serve(), aiohttp.ClientSession(cookie_jar=jar) as http:
            yield Page(cluster, page.server.guard, http)
        cluster.service.stop()
        await running
