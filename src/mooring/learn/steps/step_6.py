"""Step 6: unschedulable pods wait in mooring's ``SchedulingQueue``. Step 7 requeues them."""

from __future__ import annotations

import asyncio

from mooring import Diagnosis, PodInfo, SchedulerError
from mooring.client import Client, ObjectChange
from mooring.clock import Clock, Rng
from mooring.framework.waiting_pods import WaitingPod
from mooring.learn import EventSink, failure_text, moves
from mooring.learn.steps import step_5
from mooring.objects import Pod, key
from mooring.plugins import PrioritySort
from mooring.queue import InFlightAttempt, QueuedPod, QueueOptions, SchedulingQueue

OPTIONS = QueueOptions(initial_backoff_s=1.0, max_backoff_s=10.0, pop_from_backoff=False)


class Scheduler(step_5.Scheduler):
    """Replaces the queue of step 1 by mooring's."""

    def __init__(
        self, client: Client, name: str, *, clock: Clock, rng: Rng, emit: EventSink
    ) -> None:
        super().__init__(client, name, clock=clock, rng=rng, emit=emit)
        self.ready, profiles = asyncio.Event(), {name: self.framework}
        self.queue = SchedulingQueue(
            profiles, clock=clock, options=OPTIONS, on_ready=self.ready.set, on_move=moves(emit)
        )
        self.entries: dict[str, QueuedPod] = {}

    def plugins(self) -> list[object]:
        """Adds the order of the queue: higher priority first, then earlier arrival."""
        return [PrioritySort(), *super().plugins()]

    def on_pod(self, change: ObjectChange) -> None:
        """Updates pending pods in the queue, and removes all others."""
        if self.waits_for_us(change.new):
            self.queue.update(PodInfo(change.old or change.new), PodInfo(change.new))
        else:
            self.queue.delete((change.new or change.old).metadata.uid)

    async def schedule(self) -> None:
        """Tries one pod after another, and waits while there is none."""
        while True:
            self.ready.clear()
            while (entry := self.queue.pop()) is not None:
                with self.queue.in_flight(entry) as in_flight:
                    self.try_one(in_flight)
            await self.ready.wait()

    def try_one(self, in_flight: InFlightAttempt) -> None:
        """Chooses a node and calls Permit. The pod is in flight until its binding ends."""
        pod = in_flight.entry.pod
        self.entries[pod.uid] = in_flight.entry
        try:
            if isinstance(result := self.permitted(pod), Diagnosis):
                self.put_back(pod.pod, result)
            else:
                in_flight.detach()
                self.tasks.create_task(self.bind(pod.pod, *result))
        except SchedulerError as error:
            self.put_back(pod.pod, error)

    async def bind(self, pod: Pod, node_name: str, waiting: WaitingPod | None) -> None:
        """Binds as in step 5, and ends the attempt."""
        await super().bind(pod, node_name, waiting)
        self.entries.pop(pod.metadata.uid, None)
        self.queue.done(pod.metadata.uid)

    def put_back(self, pod: Pod, why: Diagnosis | SchedulerError) -> None:
        """Adds the current pod as unschedulable, unless it was deleted or bound."""
        self.emit("failed", pod, detail=failure_text(why))
        entry, live = self.entries.pop(pod.metadata.uid), self.pods.objects.get(key(pod))
        if self.waits_for_us(live) and live.metadata.uid == entry.uid:
            refused_by = why.unschedulable_plugins if isinstance(why, Diagnosis) else ()
            self.queue.add_unschedulable(entry, PodInfo(live), refused_by=refused_by)
