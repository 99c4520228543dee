"""Victims that are not bound yet: in Permit or in PreBind, with the real parts of both.

::

    Permit ──allowed──> (its nomination is written) ──> PreBind ──> bound
       └──────────── preempted: given up, without a request ─┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from mooring.clock import Clock, Rng
from mooring.errors import SchedulerError
from mooring.framework.waiting_pods import WaitingPod
from mooring.scheduler.binding_cycle import wait_on_permit
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.state import PodInfo

PLUGIN: Final = "Permit"
#: The steps of a binding and the evictions share moments: these are where orders matter.
STEP_S: Final = 0.5
STEPS_MAX: Final = 8


class UnboundVictims:
    """The pods of a run that are being bound.

    Attributes:
        waiting: UID -> the pod in Permit.
        pods_in_prebind: The pods in PreBind.

    Args:
        clock: Of the loop.
        rng: Draws how long each step takes.
        bind: Called with each pod that is bound in the end.
    """

    def __init__(self, clock: Clock, rng: Rng, bind: Callable[[PodInfo], None]) -> None:
        self.waiting: dict[str, WaitingPod] = {}
        self.pods_in_prebind = PodsInPreBind()
        self._clock = clock
        self._rng = rng
        self._bind = bind

    def _step(self) -> Awaitable[None]:
        """Takes a while that often ends when something else does."""
        return asyncio.sleep(STEP_S * self._rng.randrange(STEPS_MAX))

    async def run(self, info: PodInfo, node_name: str) -> None:
        """Binds a pod: waits in Permit or not, then runs PreBind. A failure gives it up."""
        if self._rng.random() < 0.5:
            waiting = WaitingPod(info, node_name, {PLUGIN: 60.0}, self._clock.monotonic_s())
            self.waiting[info.uid] = waiting
            allowing = asyncio.create_task(self._allow(waiting))
            try:
                if await wait_on_permit(waiting, self._clock) is not None:
                    return
            except SchedulerError:
                return
            finally:
                del self.waiting[info.uid]
                allowing.cancel()
        try:
            await self.pods_in_prebind.run(info.uid, self._step())
        except SchedulerError:
            return
        self._bind(info)

    async def _allow(self, waiting: WaitingPod) -> None:
        await self._step()
        waiting.allow(PLUGIN)
