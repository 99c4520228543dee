"""Pods in PreBind: until that is over they can be called off, without asking the API server.

Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from mooring.errors import SchedulerError

Result = TypeVar("Result")


class PodsInPreBind:
    """The PreBind work of one scheduler's pods, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __len__(self) -> int:
        return len(self._pods)

    async def run(self, uid: str, work: Awaitable[Result]) -> Result:
        """Does the work of one pod.

        Raises:
            SchedulerError: the pod was called off; the work was broken off, or counts for nothing.
        """
        one = self._pods[uid] = PodInPreBind()
        try:
            async with one.scope:
                result = await work
        except TimeoutError as error:
            if not one.cancel_message:
                raise
            raise SchedulerError(one.cancel_message) from error
        finally:
            del self._pods[uid]
        if one.cancel_message:
            raise SchedulerError(one.cancel_message)
        return result

    def cancel(self, uid: str, message: str) -> bool:
        """Breaks off the work for this pod, saying why; False if there is none (any more)."""
        one = self._pods.get(uid)
        if one is None:
            return False
        if not one.cancel_message:
            one.cancel_message = message
            one.scope.reschedule(asyncio.get_running_loop().time())
        return True


class PodInPreBind:
    """The PreBind work of one pod, and the message of its cancellation."""

    def __init__(self) -> None:
        #: Never by itself: to reschedule it is how to cancel what is inside, and only that.
        self.scope = asyncio.timeout(None)
        self.cancel_message = ""
