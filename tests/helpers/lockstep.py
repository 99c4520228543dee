"""One cluster twice: in a simulation's table, and on the embedded API server on virtual time.

Both have the same files, the same seed and the same engine, which lets the scheduler attempt a pod
only when nothing else has anything to do. What they log has to be equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.apiserver.resources import resource_named
from mooring.client import Client, InProcessTransport, Patch, Recorder
from mooring.client.rest.paths import path_of
from mooring.clock import Clock, Rng, seeded_random
from mooring.config import default_configuration
from mooring.devcluster.disruption_actor import DisruptionActor
from mooring.devcluster.kubelet.kubelets import Kubelets
from mooring.devcluster.seeding import Seed, Seeder, in_order, seeds_of_files
from mooring.devcluster.volume_actor import VolumeActor
from mooring.devcluster.workload_actor import WorkloadActor
from mooring.errors import NotFound, SchedulerError
from mooring.framework import Diagnosis
from mooring.framework.status import PostFilterResult, Status
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.scheduler.parts import SchedulerParts, ServiceOptions
from mooring.scheduler.reporting import error_text
from mooring.simulation.controllers.objects import WORKLOAD_KINDS
from mooring.simulation.engine.engine import PHASE_CONTROLLERS, Engine
from mooring.simulation.run import SimulationOptions, SimulationRun
from mooring.simulation.workload import read_workload
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.helpers.virtual_loop import LimitedLoop


class Log(Observer):
    """Logs attempts, bindings and evictions with their virtual times.

    Attributes:
        bindings: (seconds, pod, node), in order.
        evictions: (seconds, victim, pod it is evicted for), in order.
        refusals: (seconds, pod, message), in order.
        clock: Set before the scheduler runs.
    """

    clock: Clock

    def __init__(self) -> None:
        self.bindings: list[tuple[float, str, str]] = []
        self.evictions: list[tuple[float, str, str]] = []
        self.refusals: list[tuple[float, str, str]] = []

    def _now_s(self) -> float:
        return round(self.clock.monotonic_s(), 6)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Logs a binding."""
        self.bindings.append((self._now_s(), entry.pod.key, node_name))

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Logs the victims that are not terminating already."""
        for victim in post_filter_result.victims:
            if victim.metadata.deletion_timestamp is None:
                self.evictions.append((self._now_s(), victim.key, entry.pod.key))

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Logs why a pod has no node."""
        text = error_text(why) if isinstance(why, SchedulerError) else why.message
        self.refusals.append((self._now_s(), entry.pod.key, text))


class Deletion(NamedTuple):
    """A pod of namespace default is deleted at an instant."""

    at_s: float
    pod: str


class Scaling(NamedTuple):
    """A workload of namespace default gets another number of replicas at an instant."""

    at_s: float
    kind: str
    name: str
    replicas: int


Event = Deletion | Scaling


class Ending(NamedTuple):
    """The log of a run, and the node of each pod at its end."""

    log: Log
    nodes: dict[str, str]


def in_a_table(file: Path, seed: int, events: Sequence[Event] = ()) -> Ending:
    """Runs the files as ``mooring simulate`` does."""
    run = SimulationRun(read_workload([str(file)]), SimulationOptions(seed=seed))
    log = Log()
    log.clock = run.clock
    run.observe(log)
    for event in events:
        if isinstance(event, Deletion):
            run.delete_at(event.at_s, "Pod", f"default/{event.pod}")
        else:
            run.scale_at(event.at_s, event.kind, f"default/{event.name}", event.replicas)
    simulation = run.run()
    return Ending(log, {key: pod.spec.node_name for key, pod in simulation.pods.items()})


def over_the_api(file: Path, seed: int, events: Sequence[Event] = ()) -> Ending:
    """Runs the files on an embedded API server, with the simulated controllers of ``start``."""
    with asyncio.Runner(loop_factory=LimitedLoop) as runner:
        return runner.run(_over_the_api(seeds_of_files([str(file)]), seed, events))


async def _over_the_api(seeds: Sequence[Seed], seed: int, events: Sequence[Event]) -> Ending:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = LoopClock(loop)
    server = LockstepServer(clock)
    cluster, pending = in_order(seeds)
    await server.create(cluster)
    log = Log()
    log.clock = clock
    scheduler = LockstepScheduler(server, log, clock=clock, rng=seeded_random(seed))
    async with asyncio.TaskGroup() as tasks:
        background = scheduler.start(tasks)
        await loop.until_idle()
        await server.create(pending)
        actors = [actor.run() for actor in server.actors(seed)]
        background += [tasks.create_task(run) for run in actors]
        await loop.until_idle()
        engine = Engine(loop, scheduler)
        for event in events:
            engine.call_at(event.at_s, PHASE_CONTROLLERS, partial(server.start, tasks, event))
        await engine.run()
        pods = scheduler.informers["Pod"].objects
        nodes = {name: pod.spec.node_name for name, pod in pods.items()}
        scheduler.stop()
        for task in background:
            task.cancel()
    return Ending(log, nodes)


class LockstepServer:
    """An embedded API server with kubelets and controllers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rng = seeded_random(1)
        self._api = ApiServer(clock, self._rng)
        self._admin = self.client(ADMIN.headers())
        self.kubelets = Kubelets(self._admin, clock=clock, rng=self._rng)
        self.workloads: WorkloadActor | None = None
        self.budgets = DisruptionActor(self._admin, clock=clock, rng=self._rng)
        self._changes: list[asyncio.Task[None]] = []

    def client(self, headers: dict[str, str]) -> Client:
        """Returns a client with these headers."""
        return Client(InProcessTransport(self._api.handle, headers=headers), rng=self._rng)

    @property
    def has_counted(self) -> bool:
        """True if all budgets have the status that follows from the pods."""
        pods = self._api.store.collection(resource_named("", "pods"))
        return self.budgets.has_counted(pods.history.latest)

    @property
    def is_changing(self) -> bool:
        """True while an event is being written."""
        self._changes = [task for task in self._changes if not task.done()]
        return bool(self._changes)

    def start(self, tasks: asyncio.TaskGroup, event: Event) -> None:
        """Starts to write an event."""
        self._changes.append(tasks.create_task(self._change(event)))

    async def _change(self, event: Event) -> None:
        with suppress(NotFound):
            if isinstance(event, Deletion):
                await self._admin.delete("Pod", event.pod, "default")
                return
            path = path_of(WORKLOAD_KINDS[event.kind], "default", event.name)
            body = msgspec.json.encode({"spec": {"replicas": event.replicas}})
            await self._admin.write("PATCH", path, body, content_type=Patch.MERGE.value)

    async def create(self, seeds: Sequence[Seed]) -> None:
        """Creates objects."""
        async for _ in Seeder(self._admin).create_all(seeds):
            pass

    def actors(self, seed: int) -> list[Kubelets | WorkloadActor | VolumeActor | DisruptionActor]:
        """Returns the kubelets and controllers."""
        self.workloads = WorkloadActor(
            self._admin, clock=self._clock, rng=seeded_random(seed), gather_s=0.0
        )
        volumes = VolumeActor(self._admin, clock=self._clock, rng=self._rng)
        return [volumes, self.kubelets, self.workloads, self.budgets]


class LockstepScheduler(SchedulerParts):
    """A running scheduler that does not take pods from its queue by itself: the engine does."""

    def __init__(self, server: LockstepServer, log: Log, *, clock: Clock, rng: Rng) -> None:
        self._server = server
        super().__init__(
            server.client(IDENTITIES["mooring"].headers()),
            default_configuration(),
            ServiceOptions(observer=log),
            clock=clock,
            rng=rng,
            sleep=asyncio.sleep,
        )

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Starts everything except the scheduling cycles."""
        self.bindings.open(tasks)
        self.preemption_executor.open(tasks)
        work: list[Coroutine[Any, Any, None]] = [
            informer.run() for informer in self.informers.values()
        ]
        work += [recorder.run() for recorder in self.recorders.values()]
        work += [self.writer.run(), self.bind_verifier.run()]
        return [tasks.create_task(coroutine) for coroutine in work]

    def stop(self) -> None:
        """Cancels what still waits."""
        self.bindings.cancel()
        self.preemption_executor.cancel()
        self.handle.claim_writer.cancel()

    @property
    def has_tasks(self) -> bool:
        """True if anything is under way, here or in a kubelet or controller."""
        workloads = self._server.workloads
        return bool(
            len(self.bindings)
            or len(self.preemption_executor)
            or len(self.writer)
            or len(self.handle.claim_writer)
            or self._server.is_changing
            or not self._server.has_counted
            or self._server.kubelets.has_timers
            or (workloads is not None and not workloads.is_idle)
        )

    def _recorder(self, controller: str, instance: str) -> Recorder:
        # Names of events are random: they must not change which of several nodes is selected.
        return Recorder(
            self._client,
            controller=controller,
            instance=instance,
            clock=self._clock,
            rng=seeded_random(2),
            sleep=self._sleep,
        )
