"""Pods in PreBind, whose binding can still be cancelled without the API server.

Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from mooring.errors import SchedulerError

Result = TypeVar("Result")


class PodsInPreBind:
    """The pods of one scheduler that are in PreBind, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __len__(self) -> int:
        return len(self._pods)

    async def run(self, uid: str, work: Awaitable[Result]) -> Result:
        """Runs the PreBind work of one pod.

        Raises:
            SchedulerError: the pod was cancelled; the work was interrupted, or its result ignored.
        """
        pod = self._pods[uid] = PodInPreBind()
        try:
            async with pod.scope:
                result = await work
        except TimeoutError as error:
            if not pod.cancel_message:
                raise
            cancelled = SchedulerError(pod.cancel_message)
            for note in getattr(error.__cause__, "__notes__", ()):  # names the plugin
                cancelled.add_note(note)
            raise cancelled from error
        finally:
            del self._pods[uid]
        if pod.cancel_message:
            raise SchedulerError(pod.cancel_message)
        return result

    def cancel(self, uid: str, message: str) -> bool:
        """Cancels the work for this pod, with a message. Returns False if it is not in PreBind."""
        pod = self._pods.get(uid)
        if pod is None:
            return False
        if not pod.cancel_message:
            pod.cancel_message = message
            pod.scope.reschedule(asyncio.get_running_loop().time())
        return True


class PodInPreBind:
    """The PreBind work of one pod, and the message of its cancellation."""

    def __init__(self) -> None:
        #: A timeout that never expires: rescheduling it cancels the work inside, and only that.
        self.scope = asyncio.timeout(None)
        self.cancel_message = ""
