"""Runs a scheduler: one task schedules, all else are tasks in the background.

::

    informers synced ──> the lease is ours (if there is leader election) ──> schedule ──> stop
                                                                                 │
                     LeaseLost, nothing is written any more <── not renewed ─────┘

A leader that was cut off lists again before it schedules: see ``wait_until_fresh``.

Informers, binding cycles, events and conditions are background tasks; the scheduling task yields to
them after 2 ms or 32 attempts, whichever comes first. A flush task requeues the pods whose backoff
has expired, or that have been unschedulable for too long.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from mooring.client import Client, Elector
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.errors import InvariantViolation, LeaseLost, first_error
from mooring.garbage import freeze_heap, rare_collections
from mooring.queue import FLUSH_INTERVAL_S
from mooring.scheduler.informer_health import InformerHealth, wait_until_fresh
from mooring.scheduler.leader_election import record_leader
from mooring.scheduler.parts import SchedulerParts, ServiceOptions
from mooring.scheduler.plugin_tasks import run_background

__all__ = ["Service", "ServiceOptions"]

#: How long ``run`` waits for binding cycles after it was stopped.
DRAIN_S: Final = 10.0

#: How long ``run`` waits for events and conditions to be written after the last binding.
EVENT_FLUSH_TIMEOUT_S: Final = 2.0
EVENT_FLUSH_POLL_S: Final = 0.02

_log = logging.getLogger(__name__)

#: Starts what runs as a task.
Work = Callable[[], Coroutine[Any, Any, None]]


class Service(SchedulerParts):
    """A scheduler that runs until it is stopped.

    Example::

        service = Service(client, clock=SystemClock(), rng=seeded_random(0))
        await service.run()          # until stopped or cancelled

    Args:
        client: The API server.
        config: With defaults; kube-scheduler's if None.
        clock: For everything.
        rng: For everything.
        options: See ``ServiceOptions``.
        sleep: Waits; tests pass their own.

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
        super().__init__(
            client,
            config or default_configuration(),
            options or ServiceOptions(),
            clock=clock,
            rng=rng,
            sleep=sleep,
        )
        self._elector = options.elector if options is not None else None
        self._delays_cache = (config or default_configuration()).delay_cache_until_active
        self._synced = asyncio.Event()
        self._stopping = asyncio.Event()

    # -- state ------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True if all caches have synced, so that pods are being scheduled."""
        return self._synced.is_set()

    @property
    def has_listed(self) -> bool:
        """True if every kind has been listed; a standby has, too."""
        return all(informer.has_synced for informer in self._all_informers())

    async def wait_until_synced(self) -> None:
        """Returns when all caches have synced."""
        await self._synced.wait()

    @property
    def is_settled(self) -> bool:
        """True if there is nothing to do now: no pod to schedule or bind, all writes flushed."""
        lengths = self.queue.counts()
        busy = sum(length for queue_name, length in lengths.items() if queue_name.is_busy)
        return not busy and self.is_idle

    @property
    def is_idle(self) -> bool:
        """True if no pod is being bound or preempted, and all writes are flushed."""
        is_busy = len(self.bindings) or len(self.preemption_executor) or self.cache.assumed_count()
        return not is_busy and self._has_flushed_writes

    @property
    def _has_flushed_writes(self) -> bool:
        """True if no event, no condition and no claim is waiting to be written."""
        is_writing = len(self.writer) or len(self.handle.claim_writer)
        return not is_writing and not any(map(len, self.recorders.values()))

    # -- running ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends ``run`` soon: no further scheduling cycles, running binding cycles are finished."""
        self._stopping.set()

    async def run(self) -> None:
        """Schedules until stopped or cancelled.

        Raises:
            InvariantViolation: a bug of mooring; its state cannot be trusted any more.
            LeaseLost: the lease does not allow writes any more, or another candidate is to lead.
        """
        try:
            with rare_collections():
                await self._run()
        except BaseExceptionGroup as group:
            # One task failed, so the group cancelled the others: report the failure.
            raise first_error(group) from None
        finally:
            if self._config.extenders:
                await self.extenders.close()

    async def _run(self) -> None:
        is_finished = True
        async with asyncio.TaskGroup() as group:
            self.bindings.open(group)
            self.preemption_executor.open(group)
            #: Cancelled first, and last.
            scheduling: list[asyncio.Task[None]] = []
            others: list[asyncio.Task[None]] = []
            start = group.create_task(self._start(group, scheduling, others))
            await self._stopping.wait()
            _cancel([start, *scheduling])
            unfinished = await self.bindings.drain(DRAIN_S)
            if unfinished:
                _log.warning("bindings did not end in time", extra={"bindings": unfinished})
                is_finished = False
            self.bindings.cancel()
            self.preemption_executor.cancel()
            await self._wait_until_flushed()
            self.handle.claim_writer.cancel()
            _cancel(others)
        if self._elector is not None and is_finished:
            # Nothing of ours is under way any more: the next leader may begin at once.
            await self._elector.release()
        if self._elector is not None and self._elector.is_term_over:
            raise LeaseLost("another candidate is to lead")

    async def _start(
        self,
        group: asyncio.TaskGroup,
        scheduling: list[asyncio.Task[None]],
        others: list[asyncio.Task[None]],
    ) -> None:
        """Starts the tasks: informers, then, once the lease is ours, all that writes."""

        def start(tasks: list[asyncio.Task[None]], *work: Work) -> None:
            tasks += [group.create_task(lasting(run)) for run in work]

        def start_informers() -> None:
            health = InformerHealth(self._all_informers, clock=self._clock, sleep=self._sleep)
            start(others, *(informer.run for informer in self._all_informers()), health.run)

        elector = self._elector
        delays_cache = elector is not None and self._delays_cache
        if not delays_cache:
            start_informers()
            await self._wait_until_listed()
        if elector is not None:
            await elector.wait_until_leading()
            component = next(iter(self.profiles))
            recorded = partial(
                record_leader, self._client, elector, component=component, clock=self._clock
            )
            start(others, partial(self._keep, elector), recorded)
            if not delays_cache:
                await wait_until_fresh(self._all_informers(), elector.failed_at_s)
        if delays_cache:
            start_informers()
            await self._wait_until_listed()
        start(
            others,
            *(recorder.run for recorder in self.recorders.values()),
            self.writer.run,
            self.bind_verifier.run,
            *self._plugin_tasks(),
        )
        start(scheduling, self._schedule, self._flush)

    async def _keep(self, elector: Elector) -> None:
        """Renews the lease; stops the scheduler when its term is over.

        Raises:
            LeaseLost: it could not be renewed in time, or another candidate holds it.
        """
        await elector.keep()
        self.stop()

    def _plugin_tasks(self) -> list[Work]:
        """Returns what runs in the background for plugins, once for each plugin object."""
        plugins = [
            plugin
            for framework in self.profiles.values()
            for plugin in framework.profile.background()
        ]
        distinct = {id(plugin): plugin for plugin in plugins}
        return [partial(run_background, plugin, self._sleep) for plugin in distinct.values()]

    async def _wait_until_flushed(self) -> None:
        """Waits for the last events and conditions to be written, up to a timeout."""
        ends_s = self._clock.monotonic_s() + EVENT_FLUSH_TIMEOUT_S
        while not self._has_flushed_writes and self._clock.monotonic_s() < ends_s:
            await self._sleep(EVENT_FLUSH_POLL_S)

    async def _wait_until_listed(self) -> None:
        """Returns when every kind has been listed."""
        for informer in self._all_informers():
            await informer.wait_until_synced()

    async def _schedule(self) -> None:
        freeze_heap()
        self._synced.set()
        _log.info("caches synced", extra={"nodes": len(self.cache.nodes)})
        while True:
            await self.bindings.wait_for_slot()
            if not await self.scheduler.schedule_batch():
                self._ready.clear()
                await self._ready.wait()
            await asyncio.sleep(0)

    async def _flush(self) -> None:
        while True:
            now_s = self._clock.monotonic_s()
            next_s = FLUSH_INTERVAL_S * (math.floor(now_s / FLUSH_INTERVAL_S) + 1)
            await self._sleep(next_s - now_s)
            if self.queue.next_flush_at_s() <= self._clock.monotonic_s():
                self.queue.flush()


async def lasting(run: Work) -> None:
    """Runs what the scheduler must not go on without.

    Raises:
        InvariantViolation: it was cancelled by something inside: to a task group that would be a
            normal end, after which the process lives, holds the lease and schedules nothing.
    """
    try:
        await run()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        name = getattr(run, "__qualname__", "a task")
        raise InvariantViolation(f"{name} was cancelled from within") from None


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
