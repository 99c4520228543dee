"""Pods that come and go while schedulers fail over, and what the watch shows of them.

The cluster is nearly full all the time, so that two schedulers that write at once would overcommit
a node.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mooring.client import Client, Informer, ObjectChange
from mooring.clock import SystemClock, seeded_random
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.testing import make_node, make_pod
from tests.integration.schedulers import until

NODES: Final = 6
PODS_PER_NODE: Final = 10
#: Bound pods at a time: a few less than there is room for.
BOUND_MAX: Final = NODES * PODS_PER_NODE - 4
#: Pods that wait at a time: more than in any outage of a test.
WAITING_MAX: Final = 2000
#: Seconds between two creates.
INTERVAL_S: Final = 0.05
RETRY_S: Final = 0.1


class Load:
    """Creates pods all the time, deletes the oldest bound ones, and records every binding.

    Args:
        client: Of the administrator.
        waiting_max: While more pods are not bound, no more are created.

    Attributes:
        created: Names of pods, in order.
        nodes: UID -> the nodes that the pod was on, from the watch.
        overcommitted: What was observed of nodes with more pods than they can have.
        deletions_allowed: False while the history of the watch may have a gap: then a deletion
            could be reported after the binding that it made possible.
    """

    def __init__(self, client: Client, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self.created: list[str] = []
        self.nodes: dict[str, list[str]] = {}
        self.overcommitted: list[str] = []
        self.deletions_allowed = True
        self._names: dict[str, str] = {}
        self._client = client
        self._on_node: Counter[str] = Counter()
        self._bound: deque[str] = deque()
        self._is_stopping = False
        clock, rng = SystemClock(), seeded_random(5)
        self._informer = Informer(client, "Pod", self._on_change, clock=clock, rng=rng)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Creates the nodes, then pods during the block; at its end all pods must be bound."""
        for number in range(NODES):
            pods = {"pods": str(PODS_PER_NODE)}
            await self._client.create(make_node(f"node-{number}", allocatable=pods))
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._informer.run())
            changing = tasks.create_task(self._create())
            deleting = tasks.create_task(self._delete())
            yield
            self._is_stopping = True
            await changing
            await until(lambda: len(self.nodes) == len(self.created))
            deleting.cancel()
            watching.cancel()

    def assert_sound(self) -> None:
        """Checks that each pod was bound once, to one node, and that no node was overcommitted."""
        assert len(self.created) > NODES * PODS_PER_NODE, "the load was too small to prove anything"
        assert sorted(self._names.values()) == sorted(self.created), "pods were lost"
        assert {uid: nodes for uid, nodes in self.nodes.items() if len(nodes) != 1} == {}
        assert self.overcommitted == []

    def bound_count(self) -> int:
        """Returns how many pods have been bound so far."""
        return len(self.nodes)

    def is_full(self) -> bool:
        """Tells whether the watch shows a pod in every place of the cluster."""
        return self._on_node.total() == NODES * PODS_PER_NODE

    async def _create(self) -> None:
        numbers = itertools.count()
        while not self._is_stopping:
            if len(self.created) - len(self.nodes) < self._waiting_max:
                await self.create(f"pod-{next(numbers):05}")
            await asyncio.sleep(INTERVAL_S)

    async def create(self, name: str) -> None:
        """Creates a pod, however often the API server has to be asked."""
        while True:
            try:
                await self._client.create(make_pod(name, requests={"cpu": "1m"}))
            except AlreadyExists:
                pass  # the response of the last try was lost
            except SchedulerError:
                await asyncio.sleep(RETRY_S)
                continue
            self.created.append(name)
            return

    async def _delete(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S / 2)
            if len(self._bound) <= BOUND_MAX or not self.deletions_allowed:
                continue
            name = self._bound[0]
            try:
                await self._client.delete("Pod", name, "default", grace_period_s=0)
            except NotFound:
                pass
            except SchedulerError:
                continue
            self._bound.popleft()

    def _on_change(self, change: ObjectChange) -> None:
        pod = change.new or change.old
        node, uid = pod.spec.node_name, pod.metadata.uid
        if change.new is None:
            self._on_node[node] -= 1
            return
        before = change.old.spec.node_name if change.old is not None else ""
        if not node or node == before:
            return
        self._names[uid] = pod.metadata.name
        self.nodes.setdefault(uid, []).append(node)
        self._bound.append(pod.metadata.name)
        self._on_node[node] += 1
        if self._on_node[node] > PODS_PER_NODE:
            self.overcommitted.append(
                f"{node} has {self._on_node[node]} pods at {pod.metadata.name}"
            )
