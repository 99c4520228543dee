"""Step 8: pods whose backoff is over, or that have waited too long, are flushed.

No event occurs when a backoff expires, so a periodic flush has to check the clock. It also requeues
every pod that has been unschedulable for five minutes, in case an event was missed.

The other parts are mooring's own: ``EventHandlers``, ``Scheduler``, ``Framework`` (steps 7 to 2).
"""

from __future__ import annotations

import asyncio

from mooring.client import Client, Informer, Recorder
from mooring.clock import Clock, Rng
from mooring.learn import EventSink, LoggingObserver, tutorial_framework
from mooring.learn.steps.step_7 import NodeNumber
from mooring.plugins import DefaultBinder, NodeUnschedulable, PrioritySort
from mooring.queue import QueueOptions, SchedulingQueue
from mooring.scheduler import schedule_one
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.status_writer import StatusWriter
from mooring.state.cache import Cache

#: kube-scheduler's times, but unschedulable pods are checked every second.
OPTIONS = QueueOptions(pop_from_backoff=False, unschedulable_flush_interval_s=1.0)


class Scheduler:
    """Assembles mooring's parts, with two plugins."""

    def __init__(
        self, client: Client, name: str, *, clock: Clock, rng: Rng, emit: EventSink
    ) -> None:
        observer, self.cache, self.ready = LoggingObserver(emit), Cache(), asyncio.Event()
        handle = self.handle = PluginHandle(self.cache, client, clock=clock, rng=rng)
        plugins = [PrioritySort(), NodeUnschedulable(), NodeNumber(handle), DefaultBinder(handle)]
        framework = tutorial_framework(name, plugins, clock=clock, rng=rng, waiting=handle.waiting)
        profiles = {name: framework}
        self.queue = SchedulingQueue(
            profiles, clock=clock, options=OPTIONS, on_ready=self.ready.set, on_move=observer.moved
        )
        events = EventHandlers(self.cache, self.queue, profiles, handle.waiting)
        self.nodes = Informer(client, "Node", events.handler("Node"), clock=clock, rng=rng)
        self.pods = Informer(client, "Pod", events.handler("Pod"), clock=clock, rng=rng)
        self.bindings, self.writer = BindingTasks(rng), StatusWriter(client, clock=clock, rng=rng)
        self.recorder = Recorder(client, controller=name, instance=name, clock=clock, rng=rng)
        self.scheduler = schedule_one.Scheduler(
            self.cache,
            self.queue,
            profiles,
            self.pods.objects,
            self.bindings,
            Reporting({name: self.recorder}, self.writer),
            clock=clock,
            observer=observer,
        )

    async def run(self) -> None:
        """Watches the cluster and schedules its pods, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self.bindings.open(tasks)
            for part in (self.nodes, self.pods, self.recorder, self.writer):
                tasks.create_task(part.run())
            await self.nodes.wait_until_synced()
            tasks.create_task(self.flush())
            while True:
                self.ready.clear()
                while (entry := self.queue.pop()) is not None:
                    self.scheduler.schedule_one(entry)
                await self.ready.wait()

    async def flush(self) -> None:
        """Requeues, every second, pods whose backoff is over or that have waited too long."""
        while True:
            await asyncio.sleep(1.0)
            self.queue.flush()
