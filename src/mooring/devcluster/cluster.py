"""A whole cluster in one process: an embedded API server, its scheduler, and who works beside it.

``mooring start`` and the lessons of ``mooring learn`` run one on the machine's clock, tests on a
virtual one. What goes over the network elsewhere is a function call here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.devcluster.kubelets import Kubelets
from mooring.devcluster.seeding import Created, Seed, Seeder, in_order
from mooring.devcluster.volume_actor import VolumeActor
from mooring.event_loop import TICK_S as SERVER_TICK_S
from mooring.queue import QueueName
from mooring.scheduler.service import Service, ServiceOptions

if TYPE_CHECKING:
    from mooring.clock import Clock, Rng
    from mooring.config import KubeSchedulerConfiguration

#: Pods created between two turns of the scheduler.
BATCH: Final = 25
#: How often it is looked whether all is settled.
LOOK_S: Final = 0.02
#: A pod whose attempts ended with so many errors in a row is not expected to get a node.
ERRORS_MAX: Final = 3

Sleep = Callable[[float], Awaitable[None]]


class World:
    """An API server and a scheduler that works there.

    Attributes:
        api: The API server.
        client: An administrator's.
        service: The scheduler.
        seeder: Creates objects.

    Args:
        config: The scheduler's; defaults if None.
        clock: For everything.
        rng: For everything.
        options: The scheduler's.
        with_kubelets: Whether bound pods become Running.
        with_volumes: Whether claims get their volumes.
        instant_deletion: Whether bound pods that are deleted go at once.
        sleep: Waits; on a virtual loop asyncio's own does.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration | None = None,
        *,
        clock: Clock,
        rng: Rng,
        options: ServiceOptions | None = None,
        with_kubelets: bool = False,
        with_volumes: bool = False,
        instant_deletion: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.api = ApiServer(clock, rng, instant_deletion=instant_deletion)
        self.client = self._client(ADMIN.headers(), rng)
        self.seeder = Seeder(self.client)
        self.service = Service(
            self._client(IDENTITIES["mooring"].headers(), rng),
            config,
            clock=clock,
            rng=rng,
            options=options,
            sleep=sleep,
        )
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._with_kubelets = with_kubelets
        self._with_volumes = with_volumes

    def _client(self, headers: dict[str, str], rng: Rng) -> Client:
        return Client(InProcessTransport(self.api.handle, headers=headers), rng=rng)

    async def run(self) -> None:
        """Runs scheduler and company until the scheduler is stopped, or all is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._tick())]
            if self._with_kubelets:
                kubelets = Kubelets(self.client, clock=self._clock, rng=self._rng)
                beside.append(tasks.create_task(kubelets.run()))
            if self._with_volumes:
                volumes = VolumeActor(self.client, clock=self._clock, rng=self._rng)
                beside.append(tasks.create_task(volumes.run()))
            await self.service.run()
            for task in beside:
                task.cancel()

    async def seed(self, seeds: Sequence[Seed]) -> list[Seed]:
        """Creates the cluster, and returns the pods that are to be scheduled in it.

        Raises:
            ConfigError: the API server refuses an object.
        """
        cluster, pending = in_order(seeds)
        async for _ in self.seeder.create_all(cluster):
            pass
        return pending

    async def submit(
        self, pods: Sequence[Seed], on_created: Callable[[Created], None] = lambda _: None
    ) -> None:
        """Creates pods while the scheduler works."""
        number = 0
        async for created in self.seeder.create_all(pods):
            on_created(created)
            number += 1
            if number % BATCH == 0:
                await asyncio.sleep(0)

    @property
    def is_settled(self) -> bool:
        """Whether the scheduler knows all that was created, and has nothing to do for now.

        Pods that fail again and again are tried for ever; those are not waited for.
        """
        known = self.service.informers["Pod"].version or "0"
        if int(known) < self.seeder.last_version:
            return False
        return self.service.is_settled or self._keeps_failing

    @property
    def _keeps_failing(self) -> bool:
        """Whether all that is left are pods whose attempts ended with errors, again and again."""
        queue = self.service.queue
        counts = queue.counts()
        if counts[QueueName.ACTIVE] or counts[QueueName.IN_FLIGHT] or not self.service.is_idle:
            return False
        return all(
            entry.consecutive_errors >= ERRORS_MAX
            for entry in queue.pods()
            if entry.queue_name is QueueName.BACKOFF
        )

    async def settle(self) -> None:
        """Returns when all is settled."""
        while not self.is_settled:
            await self._sleep(LOOK_S)

    async def _tick(self) -> None:
        """Lets the API server finish what time has finished."""
        while True:
            await self._sleep(SERVER_TICK_S)
            self.api.tick()
