"""Step 6: what no node takes waits apart, and its attempts and refusals are remembered.

mooring's ``SchedulingQueue`` takes the place of our line. What wakes a parked pod is for step 7.
"""

from __future__ import annotations

import asyncio

from mooring import Diagnosis, PodInfo, SchedulerError
from mooring.client import Change, Client
from mooring.clock import Clock, Rng
from mooring.framework.waiting_pods import WaitingPod
from mooring.learn import Tell, moves, told
from mooring.learn.steps import step_5
from mooring.objects import Pod, key
from mooring.plugins import PrioritySort
from mooring.queue import InFlightAttempt, QueuedPod, QueueOptions, SchedulingQueue

OPTIONS = QueueOptions(initial_backoff_s=1.0, max_backoff_s=10.0, pop_from_backoff=False)


class Scheduler(step_5.Scheduler):
    """As before, but with a queue that forgets nothing."""

    def __init__(self, client: Client, name: str, *, clock: Clock, rng: Rng, tell: Tell) -> None:
        super().__init__(client, name, clock=clock, rng=rng, tell=tell)
        self.ready, profiles = asyncio.Event(), {name: self.framework}
        self.queue = SchedulingQueue(
            profiles, clock=clock, options=OPTIONS, on_ready=self.ready.set, on_move=moves(tell)
        )
        self.entries: dict[str, QueuedPod] = {}

    def plugins(self) -> list[object]:
        """As before, and who goes first: the higher priority, then whoever came first."""
        return [PrioritySort(), *super().plugins()]

    def on_pod(self, change: Change) -> None:
        """The queue learns of every version of a pod that waits, and that one does not any more."""
        if self.waits_for_us(change.new):
            self.queue.update(PodInfo(change.old or change.new), PodInfo(change.new))
        else:
            self.queue.delete((change.new or change.old).metadata.uid)

    async def schedule(self) -> None:
        """One pod after another; while there is none, wait for one."""
        while True:
            self.ready.clear()
            while (entry := self.queue.pop()) is not None:
                with self.queue.in_flight(entry) as in_flight:
                    self.try_one(in_flight)
            await self.ready.wait()

    def try_one(self, in_flight: InFlightAttempt) -> None:
        """Choose a node and ask Permit. Until its binding ends, the pod is in flight."""
        pod = in_flight.entry.pod
        self.entries[pod.uid] = in_flight.entry
        try:
            if isinstance(found := self.permitted(pod), Diagnosis):
                self.put_back(pod.pod, found)
            else:
                in_flight.detach()
                self.tasks.create_task(self.bind(pod.pod, *found))
        except SchedulerError as error:
            self.put_back(pod.pod, error)

    async def bind(self, pod: Pod, node_name: str, waiting: WaitingPod | None) -> None:
        """As before."""
        await super().bind(pod, node_name, waiting)
        self.entries.pop(pod.metadata.uid, None)
        self.queue.done(pod.metadata.uid)

    def put_back(self, pod: Pod, why: Diagnosis | SchedulerError) -> None:
        """Park the pod as it is by now, unless it is gone or on a node."""
        self.tell("failed", pod, detail=told(why))
        entry, live = self.entries.pop(pod.metadata.uid), self.pods.objects.get(key(pod))
        if self.waits_for_us(live) and live.metadata.uid == entry.uid:
            refused_by = why.unschedulable_plugins if isinstance(why, Diagnosis) else ()
            self.queue.add_unschedulable(entry, PodInfo(live), refused_by=refused_by)
