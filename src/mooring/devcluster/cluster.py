"""A cluster in one process: an embedded API server, a scheduler, and simulated controllers.

``mooring start`` and the lessons of ``mooring learn`` run one on the system clock, tests on a
virtual one. Requests to the API server are function calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.apiserver.endpoints.component_status import (
    CONTROLLER_MANAGER,
    HEALTHY,
    SCHEDULER,
    ComponentHealth,
    HealthChecks,
    not_listening,
)
from mooring.apiserver.registry.own_events import OwnEvents
from mooring.apiserver.resources import resource_named
from mooring.client import Client, InProcessTransport
from mooring.client.retry import Sleep
from mooring.devcluster.claim_actor import ClaimActor
from mooring.devcluster.disruption_actor import DisruptionActor
from mooring.devcluster.driver_actor import DriverActor
from mooring.devcluster.endpoints.actor import EndpointActor
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.kubelet.kubelets import Kubelets
from mooring.devcluster.node_actor import NodeActor
from mooring.devcluster.revision_actor import RevisionActor
from mooring.devcluster.seeding import Created, Seed, Seeder, in_order
from mooring.devcluster.volume_actor import VolumeActor
from mooring.devcluster.workload_actor import WorkloadActor
from mooring.event_loop import TICK_S as SERVER_TICK_S
from mooring.queue import QueueName
from mooring.scheduler.service import Service, ServiceOptions
from mooring.simulation.engine.engine import ERRORS_MAX, STALLED_S

if TYPE_CHECKING:
    from mooring.clock import Clock, Rng
    from mooring.config import KubeSchedulerConfiguration
    from mooring.simulation.device_file import DeviceFile

#: Number of pods created before control is given to the scheduler.
BATCH: Final = 25
#: Poll interval of ``settle``.
POLL_INTERVAL_S: Final = 0.02


class Stages(Protocol):
    """Leads objects through stages.

    Attributes:
        kinds: The kinds that have stages: their objects have no kubelets.
    """

    kinds: frozenset[str]

    @property
    def is_idle(self) -> bool:
        """True if no object is about to change at once."""

    async def run(self) -> None:
        """Leads objects through stages until cancelled."""


class InMemoryCluster:
    """An API server and a scheduler connected to it.

    Attributes:
        api: The API server.
        client: A client with an administrator's credentials.
        service: The scheduler.
        seeder: Creates objects.

    Args:
        config: The scheduler's configuration; defaults if None.
        clock: Clock of all parts.
        rng: Random generator of all parts.
        options: The scheduler's options.
        with_kubelets: True to simulate kubelets: nodes are Ready, bound pods become Running.
        stages: Makes what leads pods or nodes through stages, in place of kubelets.
        with_volumes: True to simulate the volume controller: claims get volumes.
        with_claims: True to simulate the resource claim controller: pods get claims from templates.
        with_controllers: True to simulate the controllers of workloads: they get pods. Disruption
            budgets get a status, and Services the addresses of their pods.
        with_taint_rules: True to serve DeviceTaintRules, as kube-apiserver with their feature gate.
        waits_to_begin: True = kubelets and controllers wait for ``begin``.
        devices: The devices of simulated drivers; None = there are no drivers.
        instant_deletion: True to remove deleted pods at once, bound ones too.
        sleep: Sleeps so many seconds; asyncio's works on a virtual loop.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration | None = None,
        *,
        clock: Clock,
        rng: Rng,
        options: ServiceOptions | None = None,
        with_kubelets: bool = False,
        stages: Callable[[Client], Stages] | None = None,
        with_volumes: bool = False,
        with_claims: bool = False,
        with_controllers: bool = False,
        with_taint_rules: bool = False,
        waits_to_begin: bool = False,
        devices: DeviceFile | None = None,
        instant_deletion: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._may_begin = asyncio.Event()
        if not waits_to_begin:
            self._may_begin.set()
        self._health = _Health(self._may_begin if with_controllers else None)
        self.api = ApiServer(
            clock,
            rng,
            instant_deletion=instant_deletion,
            with_kubelets=with_kubelets,
            with_taint_rules=with_taint_rules,
            health_checks=self._health.checks(),
        )
        self.client = self._client(ADMIN.headers(), rng)
        self.seeder = Seeder(self.client)
        self._clock = clock
        self._rng = rng
        self._options = options
        self._sleep = sleep
        self.service = self._make_service(config)
        events = EventRecorder(OwnEvents(self.api.registry), clock)
        self._events = events
        self._stages = stages(self.client) if stages is not None else None
        staged: Container[str] = self._stages.kinds if self._stages is not None else ()
        self._kubelets = self._nodes = self._claims = None
        if with_kubelets and "Pod" not in staged:
            self._kubelets = Kubelets(self.client, clock=clock, rng=rng, events=events)
        if with_kubelets and "Node" not in staged:
            self._nodes = NodeActor(self.client, clock=clock, rng=rng, events=events)
        self._workloads = self._revisions = self._budgets = self._endpoints = None
        if with_controllers:
            self._workloads = WorkloadActor(self.client, clock=clock, rng=rng, events=events)
            self._revisions = RevisionActor(self.client, clock=clock, rng=rng)
            self._budgets = DisruptionActor(self.client, clock=clock, rng=rng, events=events)
            self._endpoints = EndpointActor(self.client, clock=clock, rng=rng)
        self._with_volumes = with_volumes
        if with_claims:
            self._claims = ClaimActor(self.client, clock=clock, rng=rng, events=events)
        self._devices = devices
        self._stall = _Stall(clock)

    def _make_service(self, config: KubeSchedulerConfiguration | None) -> Service:
        return Service(
            self._client(IDENTITIES["mooring"].headers(), self._rng),
            config,
            clock=self._clock,
            rng=self._rng,
            options=self._options,
            sleep=self._sleep,
        )

    def _client(self, headers: dict[str, str], rng: Rng) -> Client:
        transport = InProcessTransport(self.api.handle, headers=headers, is_cooperative=True)
        return Client(transport, rng=rng)

    async def run(self) -> None:
        """Runs all parts until the scheduler is stopped, or the task is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            simulators = [tasks.create_task(self._tick())]
            actors = [self._kubelets, self._nodes, self._stages, self._workloads, self._revisions]
            if self._endpoints is not None:
                simulators.append(tasks.create_task(self._run_when_begun(self._endpoints.run)))
            simulators += [
                tasks.create_task(self._run_when_begun(actor.run))
                for actor in actors
                if actor is not None
            ]
            if self._with_volumes:
                volumes = VolumeActor(
                    self.client, clock=self._clock, rng=self._rng, events=self._events
                )
                simulators.append(tasks.create_task(volumes.run()))
            for actor_at_once in (self._claims, self._budgets):
                if actor_at_once is not None:
                    simulators.append(tasks.create_task(actor_at_once.run()))
            if self._devices is not None:
                drivers = DriverActor(self.client, self._devices, clock=self._clock, rng=self._rng)
                simulators.append(tasks.create_task(drivers.run()))
            await self._run_schedulers()
            for task in simulators:
                task.cancel()

    async def _run_schedulers(self) -> None:
        """Runs the scheduler, and those that replace it, one after the other."""
        service = None
        self._health.is_running = True
        try:
            while service is not self.service:
                service = self.service
                await service.run()
        finally:
            self._health.is_running = False

    async def reconfigure(self, config: KubeSchedulerConfiguration) -> None:
        """Replaces the scheduler by one with another configuration.

        The old one finishes its binding cycles; the new one begins as after a restart: it lists all
        objects, and pods without a node are in its queue.

        Args:
            config: With defaults.

        Raises:
            ConfigError: the configuration cannot be used; the scheduler goes on as it was.
        """
        service = self._make_service(config)
        previous, self.service = self.service, service
        previous.stop()

    def begin(self) -> None:
        """Lets kubelets and controllers begin that wait for it."""
        self._may_begin.set()

    async def _run_when_begun(self, run: Callable[[], Awaitable[None]]) -> None:
        await self._may_begin.wait()
        await run()

    async def seed(self, seeds: Sequence[Seed]) -> list[Seed]:
        """Creates the cluster's objects, and returns the pending pods without creating them.

        Raises:
            ConfigError: the API server rejects an object.
        """
        cluster, pending = in_order(seeds)
        async for _ in self.seeder.create_all(cluster):
            pass
        return pending

    async def submit(
        self, pods: Sequence[Seed], on_created: Callable[[Created], None] = lambda _: None
    ) -> None:
        """Creates pods while the scheduler runs, and knows the status of all budgets."""
        while not self._has_budgets:
            await self._sleep(POLL_INTERVAL_S)
        count = 0
        async for created in self.seeder.create_all(pods):
            on_created(created)
            count += 1
            if count % BATCH == 0:
                await asyncio.sleep(0)

    @property
    def is_settled(self) -> bool:
        """True if the scheduler has seen all created objects and has nothing to do.

        Pods that fail repeatedly are retried for ever; they are not waited for. Nor are pods that
        wait in Permit for each other: each end of a wait requeues the others.
        """
        if not self._has_seen("Pod", self.seeder.last_version) or not self._has_claims:
            return False
        if (
            not self._has_workload_pods
            or not self._has_budgets
            or (self._stages is not None and not self._stages.is_idle)
        ):
            return False
        if not (self.service.is_settled or _has_only_failing_pods(self.service)):
            cache = self.service.cache
            bound = len(cache.pods) - cache.assumed_count()
            if not self._stall.has_lasted(self.service, (self.seeder.last_version, bound)):
                return False
        return not self._has_terminating_pods

    @property
    def _has_terminating_pods(self) -> bool:
        """True if pods are about to leave their nodes: another pod may fit then.

        A pod with finalizers may stay for ever, and is not waited for.
        """
        informer = self.service.informers.get("Pod")
        if informer is None or self._kubelets is None:
            return False
        return any(
            pod.metadata.deletion_timestamp is not None
            and pod.spec.node_name
            and not pod.metadata.finalizers
            for pod in informer.objects.values()
        )

    def _has_seen(self, kind: str, version: int) -> bool:
        informer = self.service.informers.get(kind)
        return informer is None or int(informer.version or "0") >= version

    @property
    def _has_claims(self) -> bool:
        """True if the scheduler has seen the claims of all created pods."""
        claims = self._claims
        if claims is None:
            return True
        if not claims.has_seen(self.seeder.last_version):
            return False
        return all(self._has_seen(kind, last) for kind, last in claims.last_versions.items())

    @property
    def _has_budgets(self) -> bool:
        """True if all budgets have their status, and the scheduler knows it."""
        if self._budgets is None:
            return True
        latest = self.api.store.collection(resource_named("", "pods")).history.latest
        is_done = self._budgets.has_counted(latest)
        return is_done and self._has_seen("PodDisruptionBudget", self._budgets.last_version)

    @property
    def _has_workload_pods(self) -> bool:
        """True if the controllers have nothing to do, and the scheduler knows all their pods."""
        workloads = self._workloads
        if workloads is None or not self._may_begin.is_set():
            return True
        informers = list(workloads.informers.values())
        if self._kubelets is not None:
            informers.append(self._kubelets.informer)
        for informer in informers:
            resource = resource_named(informer.kind.group, informer.kind.resource)
            latest = self.api.store.collection(resource).history.latest
            if not informer.has_synced or int(informer.version or "0") < latest:
                return False
        is_idle = workloads.is_idle and (self._kubelets is None or self._kubelets.is_idle)
        return is_idle and self._has_seen("Pod", workloads.written_version("Pod"))

    async def settle(self) -> None:
        """Waits until the cluster is settled."""
        while not self.is_settled:
            await self._sleep(POLL_INTERVAL_S)

    async def _tick(self) -> None:
        """Calls the API server's periodic work, such as expired grace periods."""
        while True:
            await self._sleep(SERVER_TICK_S)
            self.api.tick()


def _has_only_failing_pods(service: Service) -> bool:
    """Returns whether only pods with repeated errors remain."""
    queue = service.queue
    counts = queue.counts()
    if counts[QueueName.ACTIVE] or counts[QueueName.IN_FLIGHT] or not service.is_idle:
        return False
    return all(
        entry.consecutive_errors >= ERRORS_MAX
        for entry in queue.pods()
        if entry.queue_name is QueueName.BACKOFF
    )


class _Health:
    """Checks the scheduler and the controllers, for ComponentStatuses.

    Attributes:
        is_running: True while the scheduler runs.
    """

    def __init__(self, controllers_begun: asyncio.Event | None) -> None:
        self._controllers_begun = controllers_begun
        self.is_running = False

    def checks(self) -> HealthChecks:
        """Returns the checks by component."""
        return {
            SCHEDULER: self._wait_for_scheduler,
            CONTROLLER_MANAGER: self._wait_for_controllers,
        }

    async def _wait_for_scheduler(self) -> ComponentHealth:
        return HEALTHY if self.is_running else not_listening(SCHEDULER)

    async def _wait_for_controllers(self) -> ComponentHealth:
        begun = self._controllers_begun
        is_running = self.is_running and begun is not None and begun.is_set()
        return HEALTHY if is_running else not_listening(CONTROLLER_MANAGER)


class _Stall:
    """Measures for how long pods have only been retried."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._progress = (0, 0)
        self._since_s = clock.monotonic_s()

    def has_lasted(self, service: Service, progress: tuple[int, int]) -> bool:
        """Returns whether no pod was created or bound for a long time, and none is to be tried.

        Args:
            service: The scheduler.
            progress: The version of the last created object, and how many pods are bound.
        """
        now_s = self._clock.monotonic_s()
        if progress != self._progress:
            self._progress, self._since_s = progress, now_s
        is_idle = not service.queue.counts()[QueueName.ACTIVE]
        return is_idle and now_s - self._since_s > STALLED_S
