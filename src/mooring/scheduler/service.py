"""A scheduler at work: it is put together here, kept up to date, and driven.

::

    informers ──> EventHandlers ──> cache, queue ──> Scheduler.schedule_one ──> bindings
                                      ^   ^
                     flush: backoff is over, a pod has waited for too long

One task decides; informers, bindings, events and conditions are tasks beside it. The decider lets
the others run after 2 ms or 32 decisions, whichever comes first.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mooring.client import Client, Informer, Recorder
from mooring.clock import Clock, Rng
from mooring.config import Extender, KubeSchedulerConfiguration, default_configuration
from mooring.errors import Forbidden, Unauthorized
from mooring.extenders import Extenders, Post
from mooring.objects.pod import Pod
from mooring.objects.selector_text import LIVING_PODS
from mooring.queue import QueueOptions, SchedulingQueue
from mooring.scheduler.bind_verification import BindVerifier
from mooring.scheduler.binding_tasks import BINDINGS_MAX, BindingTasks
from mooring.scheduler.event_handlers import RESOURCES, EventHandlers
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.gc_tuning import freeze_heap, gc_thresholds
from mooring.scheduler.observer import Observer
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.plugin_tasks import run_background
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.profiles import load_profiles
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.status_writer import StatusWriter
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state import Cache

#: The decider yields after so many decisions, or after so long.
DECISIONS_MAX: Final = 32
SLICE_S: Final = 0.002

#: How often flushing is thought of; backoffs end on whole seconds.
TICK_S: Final = 1.0

#: How long bindings that are under way may take once it is stopped.
DRAIN_S: Final = 10.0

#: After the last binding its event is let out; but not for long, if nobody takes it.
EVENT_FLUSH_TIMEOUT_S: Final = 2.0
EVENT_FLUSH_POLL_S: Final = 0.02

#: While the cluster cannot be read, what stands in the way is said so often.
SYNC_WARNING_INTERVAL_S: Final = 5.0

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What may be set beside the configuration.

    Attributes:
        queue: Backoff and flushing; None = as the configuration says.
        plugins: Further plugins: objects, or ``module:attribute``.
        bindings_max: How many bindings may be inside a request.
        instance: Who writes events: "profile-instance"; the host's name by default.
        observer: Told of everything.
        reach: Makes the way to an extender; over HTTP by default.
    """

    queue: QueueOptions | None = None
    plugins: Sequence[str | Any] = ()
    bindings_max: int = BINDINGS_MAX
    instance: str = "mooring"
    observer: Observer = field(default_factory=Observer)
    transport_factory: Callable[[Extender], Post] | None = None


class Service:
    """A scheduler, with all that it needs.

    Example::

        service = Service(client, clock=SystemClock(), rng=seeded_random(0))
        await service.run()          # until it is stopped, or cancelled

    Args:
        client: The API server.
        config: With defaults; kube-scheduler's if None.
        clock: For everything.
        rng: For everything.
        options: See ``ServiceOptions``.
        sleep: Waits; tests give one of their own.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """

    def __init__(
        self,
        client: Client,
        config: KubeSchedulerConfiguration | None = None,
        *,
        clock: Clock,
        rng: Rng,
        options: ServiceOptions | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        config = config or default_configuration()
        options = options or ServiceOptions()
        self._clock = clock
        self._sleep = sleep
        self._ready = asyncio.Event()
        self._synced = asyncio.Event()
        self._stopping = asyncio.Event()
        self.cache = Cache()
        self.handle = PluginHandle(self.cache, client, clock=clock, rng=rng, sleep=sleep)
        waiting = self.handle.waiting
        self.profiles = load_profiles(
            config, self.handle, clock=clock, waiting=waiting, plugins=options.plugins
        )
        self.extenders = Extenders(
            config.extenders,
            client,
            clock=clock,
            rng=rng,
            sleep=sleep,
            transport_factory=options.transport_factory,
        )
        for framework in self.profiles.values():
            framework.set_extenders(self.extenders.asked, self.handle.random)
        self.queue = SchedulingQueue(
            self.profiles,
            clock=clock,
            options=options.queue or _queue_options(config),
            on_ready=self._ready.set,
            on_move=options.observer.moved,
        )
        self.handle.on_activate = self.queue.activate
        self.bindings = BindingTasks(rng, limit=options.bindings_max)
        self.writer = StatusWriter(client, clock=clock, sleep=sleep)
        self.recorders = {
            name: self._recorder(client, name, f"{name}-{options.instance}", rng)
            for name in self.profiles
        }
        self.events = EventHandlers(
            self.cache, self.queue, self.profiles, waiting, on_object=self.handle.changed
        )
        self.informers = {
            kind: self._informer(client, kind, rng) for kind in self._informer_kinds()
        }
        stores = {kind: informer.objects for kind, informer in self.informers.items()}
        self.handle.stores = stores
        notes = {name: each.scheduled_note() for name, each in self.profiles.items()}
        own_notes = {name: note for name, note in notes.items() if note is not None}
        reporting = Reporting(self.recorders, self.writer, own_notes)
        evictor = Evictor(client, clock=clock, rng=rng, sleep=sleep)
        self.preemption_executor = self._preemptions(stores["Pod"], evictor, reporting)
        self.bind_verifier = BindVerifier(
            client, self.cache, self.queue, stores["Pod"], clock=clock, sleep=sleep
        )
        self.scheduler = self._scheduler(stores["Pod"], reporting, options.observer)

    def _preemptions(
        self, pods: Mapping[str, Pod], evictor: Evictor, reporting: Reporting
    ) -> PreemptionExecutor:
        nominator = self.cache.nominator
        found = PreemptionExecutor(self.queue, nominator, self.handle, pods, evictor, reporting)
        self.handle.on_is_preempting = found.is_running
        return found

    def _scheduler(
        self, pods: Mapping[str, Pod], reporting: Reporting, observer: Observer
    ) -> Scheduler:
        make: Callable[..., Scheduler] = Scheduler
        if self.extenders.asked:
            make = partial(ExtenderScheduler, buffer_events=self.events.buffer_events)
        return make(
            self.cache,
            self.queue,
            self.profiles,
            pods,
            self.bindings,
            reporting,
            preemptions=self.preemption_executor,
            pods_in_prebind=self.handle.pods_in_prebind,
            on_bound=self.bind_verifier.track,
            clock=self._clock,
            observer=observer,
        )

    def _recorder(self, client: Client, controller: str, instance: str, rng: Rng) -> Recorder:
        return Recorder(
            client,
            controller=controller,
            instance=instance,
            clock=self._clock,
            rng=rng,
            sleep=self._sleep,
        )

    def _informer(self, client: Client, kind: str, rng: Rng) -> Informer:
        return Informer(
            client,
            kind,
            self.events.handler(kind),
            clock=self._clock,
            rng=rng,
            field_selector=LIVING_PODS if kind == "Pod" else "",
            sleep=self._sleep,
        )

    def _informer_kinds(self) -> list[str]:
        """Nodes, the kinds that some plugin wants to hear of or reads, and pods.

        Pods come last: nodes that are there before them are met in their own order.
        """
        wanted = self.queue.resources()
        others = [kind for kind, resource in RESOURCES.items() if resource in wanted]
        needed = [kind for framework in self.profiles.values() for kind in framework.needs()]
        return ["Node", *dict.fromkeys([*others, *needed]), "Pod"]

    def _all_informers(self) -> list[Informer]:
        return [*self.informers.values(), *self.extenders.informers]

    @property
    def has_synced(self) -> bool:
        """Whether the cluster is known, so that decisions are being made."""
        return self._synced.is_set()

    async def wait_until_synced(self) -> None:
        """Returns when the cluster is known."""
        await self._synced.wait()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to do now: no pod to try, none under way, all of it told."""
        counts = self.queue.counts()
        busy = sum(count for queue_name, count in counts.items() if queue_name.is_busy)
        return not busy and self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether no pod is under way to its node, and all that happened is told."""
        is_busy = len(self.bindings) or len(self.preemption_executor) or self.cache.assumed_count()
        return not is_busy and self._has_flushed_writes

    @property
    def _has_flushed_writes(self) -> bool:
        """Whether no event and no condition waits to be written."""
        return not len(self.writer) and not any(len(each) for each in self.recorders.values())

    def stop(self) -> None:
        """Ends ``run`` soon: nothing is decided any more, bindings under way are finished."""
        self._stopping.set()

    async def run(self) -> None:
        """Schedules until stopped or cancelled.

        Raises:
            InvariantViolation: a bug of ours; nothing that is known can be relied on any more.
            LeaseLost: the fence lets nothing pass any more.
        """
        try:
            with gc_thresholds():
                await self._run()
        except BaseExceptionGroup as group:
            # One of the tasks failed, and so the others were cancelled: what counts is why.
            raise first_error(group) from None
        finally:
            await self.extenders.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.bindings.open(tasks)
            self.preemption_executor.open(tasks)
            works: list[Coroutine[Any, Any, None]] = [
                *(informer.run() for informer in self._all_informers()),
                *(recorder.run() for recorder in self.recorders.values()),
                self.writer.run(),
                self.bind_verifier.run(),
                *self._background(),
                self._decide(),
                self._flush(),
            ]
            beside = [tasks.create_task(work) for work in works]
            await self._stopping.wait()
            for task in beside[-2:]:
                task.cancel()
            left = await self.bindings.drain(DRAIN_S)
            if left:
                _log.warning("bindings did not end in time", extra={"bindings": left})
            self.bindings.cancel()
            self.preemption_executor.cancel()
            await self._wait_until_told()
            for task in beside:
                task.cancel()

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        """What plugins do beside the decisions; one that several profiles share does it once."""
        plugins = [each for framework in self.profiles.values() for each in framework.background()]
        distinct = {id(plugin): plugin for plugin in plugins}
        return [run_background(plugin, self._sleep) for plugin in distinct.values()]

    async def _wait_until_told(self) -> None:
        """Lets the last events be written; returns soon if they cannot be."""
        ends_s = self._clock.monotonic_s() + EVENT_FLUSH_TIMEOUT_S
        while not self._has_flushed_writes and self._clock.monotonic_s() < ends_s:
            await self._sleep(EVENT_FLUSH_POLL_S)

    async def _wait_until_known(self) -> None:
        """Returns when every kind was listed; says from time to time what stands in the way."""
        while not await _are_synced_within(SYNC_WARNING_INTERVAL_S, self._all_informers()):
            _warn_not_synced(self._all_informers())

    async def _decide(self) -> None:
        await self._wait_until_known()
        freeze_heap()
        self._synced.set()
        _log.info("the cluster is known", extra={"nodes": len(self.cache.nodes)})
        while True:
            await self.bindings.wait_for_slot()
            if isinstance(self.scheduler, ExtenderScheduler):
                has_more = await self.scheduler.schedule_next()
            else:
                has_more = self._schedule_batch()
            if not has_more:
                self._ready.clear()
                await self._ready.wait()
            await asyncio.sleep(0)

    def _schedule_batch(self) -> bool:
        """Makes decisions for a slice of time; whether there may be more to decide."""
        ends_s = self._clock.monotonic_s() + SLICE_S
        for _ in range(DECISIONS_MAX):
            entry = self.queue.pop()
            if entry is None:
                return False
            self.scheduler.schedule_one(entry)
            if self._clock.monotonic_s() >= ends_s:
                break
        return True

    async def _flush(self) -> None:
        while True:
            now_s = self._clock.monotonic_s()
            await self._sleep(TICK_S * (math.floor(now_s / TICK_S) + 1) - now_s)
            if self.queue.next_flush_at_s() <= self._clock.monotonic_s():
                self.queue.flush()


async def _are_synced_within(limit_s: float, informers: Iterable[Informer]) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            for informer in informers:
                await informer.wait_until_synced()
    except TimeoutError:
        return False
    return True


def _warn_not_synced(informers: Iterable[Informer]) -> None:
    for informer in informers:
        error = informer.last_error
        if informer.has_synced or error is None:
            continue
        is_refused = isinstance(error, Forbidden | Unauthorized)
        level = logging.ERROR if is_refused else logging.WARNING
        told = "a kind cannot be read, so nothing is scheduled yet"
        _log.log(level, told, extra={"kind": informer.kind.name, "error": str(error)})


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception of a group that is no group itself: why the others were cancelled."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _queue_options(config: KubeSchedulerConfiguration) -> QueueOptions:
    return QueueOptions(
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
    )
