"""A pod on its way from a decision to its binding, and its wait in Permit."""

from __future__ import annotations

import asyncio

from mooring.clock import Clock
from mooring.errors import SchedulerError
from mooring.framework import Cycle, Framework
from mooring.framework.status import Code, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import InFlightAttempt, QueuedPod


class BindingContext:
    """What a pod holds between Reserve and PostBind.

    Attributes:
        flight: Its attempt.
        framework: Of its profile.
        cycle: What the plugins noted of it.
        node_name: The node that it is assumed on.
        waiting: Its wait in Permit, None if nobody holds it back.
        is_announced: Whether the API server was told of the node before the binding.
    """

    __slots__ = ("cycle", "framework", "in_flight", "is_announced", "node_name", "waiting")

    def __init__(
        self, in_flight: InFlightAttempt, framework: Framework, cycle: Cycle, node_name: str
    ) -> None:
        self.in_flight = in_flight
        self.framework = framework
        self.cycle = cycle
        self.node_name = node_name
        self.waiting: WaitingPod | None = None
        self.is_announced = False

    @property
    def entry(self) -> QueuedPod:
        """The pod as the queue knows it."""
        return self.in_flight.entry


async def wait_on_permit(waiting: WaitingPod, clock: Clock) -> Status | None:
    """Waits until every plugin that holds the pod back allows it (None), or one refuses it.

    Raises:
        SchedulerError: its room is wanted for another pod.
    """
    settled = asyncio.Event()
    waiting.on_settled = lambda _: settled.set()
    while waiting.verdict is None:
        try:
            async with asyncio.timeout(max(0.0, waiting.deadline_s - clock.monotonic_s())):
                await settled.wait()
        except TimeoutError:
            waiting.expire(clock.monotonic_s())
    verdict = waiting.verdict
    if not isinstance(verdict, Status):
        return None
    if verdict.code is Code.ERROR:
        raise SchedulerError(f"waiting on permit for pod: {verdict.message}")
    return verdict
