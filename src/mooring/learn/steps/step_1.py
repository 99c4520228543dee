"""Step 1: every pod gets a random node. This is all that a scheduler must do."""

from __future__ import annotations

import asyncio
from typing import TypeGuard

from mooring import Reject, SchedulerError
from mooring.client import Client, Informer, ObjectChange
from mooring.clock import Clock, Rng
from mooring.learn import EventSink, failure_text
from mooring.objects import Pod, key


class Scheduler:
    """Binds pods in order of arrival to random nodes."""

    def __init__(
        self, client: Client, name: str, *, clock: Clock, rng: Rng, emit: EventSink
    ) -> None:
        self.client, self.name, self.clock, self.rng, self.emit = client, name, clock, rng, emit
        self.pending: asyncio.Queue[Pod] = asyncio.Queue()
        self.nodes = Informer(client, "Node", self.on_node, clock=clock, rng=rng)
        self.pods = Informer(client, "Pod", self.on_pod, clock=clock, rng=rng)

    def on_node(self, change: ObjectChange) -> None:
        """Does nothing: the informer has the current nodes."""

    def on_pod(self, change: ObjectChange) -> None:
        """Adds new pods that are pending and ours to the queue."""
        if change.old is None and self.waits_for_us(change.new):
            self.pending.put_nowait(change.new)
            self.emit("queued", change.new)

    def waits_for_us(self, pod: Pod | None) -> TypeGuard[Pod]:
        """Returns True for a pod that is ours, has no node and is not being deleted."""
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return False
        return not pod.spec.node_name and pod.spec.scheduler_name == self.name

    async def run(self) -> None:
        """Watches the cluster and schedules its pods, until cancelled."""
        async with asyncio.TaskGroup() as self.tasks:
            self.tasks.create_task(self.nodes.run())
            self.tasks.create_task(self.pods.run())
            await self.nodes.wait_until_synced()
            await self.schedule()

    async def schedule(self) -> None:
        """Takes one pod after another, in its current version."""
        while True:
            queued = await self.pending.get()
            pod = self.pods.objects.get(key(queued))
            if self.waits_for_us(pod) and pod.metadata.uid == queued.metadata.uid:
                try:
                    await self.schedule_one(pod)
                except SchedulerError as error:
                    self.try_later(pod, failure_text(error))

    async def schedule_one(self, pod: Pod) -> None:
        """Chooses a node for the pod, and binds it."""
        self.emit("popped", pod)
        node_name = self.choose(pod)
        if isinstance(node_name, Reject):
            self.try_later(pod, node_name.message)
        else:
            await self.client.bind(pod, node_name)
            self.emit("bound", pod, node_name)

    def choose(self, pod: Pod) -> str | Reject:  # noqa: ARG002 - for the next steps
        """Returns a random node."""
        names = list(self.nodes.objects)
        return self.rng.choice(names) if names else Reject("no nodes available to schedule pods")

    def try_later(self, pod: Pod, why: str) -> None:
        """Puts the pod into the queue again after a second."""
        self.emit("failed", pod, detail=why)
        asyncio.get_running_loop().call_later(1.0, self.pending.put_nowait, pod)
