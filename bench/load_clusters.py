"""The clusters of ``bench.load``: an API server, a scheduler, and what others need of them.

embedded: server and scheduler share the event loop, and requests are function calls. real: etcd and
kube-apiserver are processes of their own; scheduler, watchers and load share the event loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from mooring.apiserver.auth.authentication import ADMIN
from mooring.apiserver.resources import BY_PATH
from mooring.client import Client, InProcessTransport
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.client.transport.transport import Request, Transport
from mooring.clock import SystemClock, seeded_random
from mooring.config import default_configuration
from mooring.devcluster.cluster import InMemoryCluster
from mooring.scheduler.service import Service
from mooring.testing import controlplane

#: Pods in one page of a list.
PAGE: Final = 500
PODS: Final = "/api/v1/pods"
LIST_S: Final = 60.0


class Stored(NamedTuple):
    """What the server has of a pod."""

    version: str
    is_bound: bool


class LoadCluster(Protocol):
    """An API server with a scheduler.

    Attributes:
        client: Has all rights.
        service: The scheduler.
        poll_s: Seconds between two looks at all pods.
    """

    client: Client
    service: Service
    poll_s: float

    def transport(self) -> Transport:
        """Returns a new transport with all rights."""
        ...

    async def run(self) -> None:
        """Runs the scheduler until it is stopped."""
        ...

    async def stored(self) -> dict[str, Stored]:
        """Returns all pods, by namespace and name."""
        ...

    async def close(self) -> None:
        """Closes the connections of all transports."""
        ...


class EmbeddedCluster:
    """The embedded API server, on the event loop of the scheduler."""

    def __init__(self) -> None:
        clock, rng = SystemClock(), seeded_random(1)
        self._cluster = InMemoryCluster(clock=clock, rng=rng, instant_deletion=True)
        self.client = self._cluster.client
        self.service = self._cluster.service
        self.poll_s = 0.5

    def transport(self) -> Transport:
        """Returns a new transport with all rights."""
        return InProcessTransport(self._cluster.api.handle, headers=ADMIN.headers())

    async def run(self) -> None:
        """Runs the scheduler until it is stopped."""
        await self._cluster.run()

    async def stored(self) -> dict[str, Stored]:
        """Returns all pods, by namespace and name."""
        pods = self._cluster.api.store.collection(BY_PATH["", "v1", "pods"]).in_order()
        return dict(_stored(pod.object()) for pod in pods)

    async def close(self) -> None:
        """Does nothing: there are no connections."""


def _stored(pod: dict[str, Any]) -> tuple[str, Stored]:
    metadata = pod["metadata"]
    stored = Stored(metadata["resourceVersion"], bool(pod["spec"].get("nodeName")))
    return f"{metadata['namespace']}/{metadata['name']}", stored


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Continue(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    items: list[_Pod]
    metadata: _Continue


class RealCluster:
    """The real kube-apiserver, and mooring's scheduler in this process.

    Args:
        kubeconfig: The administrator's.
    """

    def __init__(self, kubeconfig: Path) -> None:
        clock, rng = SystemClock(), seeded_random(1)
        self._kubeconfig = kubeconfig
        self._transports: list[Transport] = []
        self.client = Client(self.transport(), rng=rng)
        self.service = Service(
            Client(self.transport(), rng=rng), default_configuration(), clock=clock, rng=rng
        )
        self.poll_s = 5.0

    def transport(self) -> Transport:
        """Returns a new transport with all rights."""
        access = find_access(str(self._kubeconfig), environment=os.environ)
        transport = connect(access, clock=SystemClock(), environment=os.environ)
        self._transports.append(transport)
        return transport

    async def run(self) -> None:
        """Runs the scheduler until it is stopped."""
        await self.service.run()

    async def stored(self) -> dict[str, Stored]:
        """Returns all pods, by namespace and name, from pages of one list."""
        stored: dict[str, Stored] = {}
        position = ""
        while True:
            query = [("limit", str(PAGE)), *([("continue", position)] if position else [])]
            request = Request("GET", PODS, deadline_s=LIST_S, query=query)
            response = await self.client.transport.request(request)
            if response.status != 200:
                raise RuntimeError(f"GET {PODS}: {response.status}")
            page = msgspec.json.decode(response.body, type=_Page)
            for pod in page.items:
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                stored[name] = Stored(pod.metadata.resource_version, bool(pod.spec.node_name))
            position = page.metadata.continue_
            if not position:
                return stored

    async def close(self) -> None:
        """Closes the connections of all transports."""
        for transport in self._transports:
            await transport.close()


@contextmanager
def load_cluster(server: str) -> Iterator[LoadCluster]:
    """Yields a cluster with an ``embedded`` or a ``real`` API server, which ends with the block."""
    if server == "embedded":
        yield EmbeddedCluster()
        return
    with controlplane.ControlPlane() as plane:
        yield RealCluster(plane.kubeconfig("admin"))
