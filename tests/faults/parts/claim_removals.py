"""The removals of users from claims that are in progress, and attempts that wait for their end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from mooring.objects.resource import ResourceClaim
from mooring.state import PodInfo


class OpenRemovals:
    """Follows the removals of a writer, and checks that an attempt waits for those of its pod.

    Args:
        writer: Has written nothing yet.
        report: Called with each problem.
    """

    def __init__(self, writer: Any, report: Callable[[str], None]) -> None:
        self._report, self._writer = report, writer
        #: UIDs of claim and pod -> removals that have begun, and have not ended.
        self._open: Counter[tuple[str, str]] = Counter()
        #: UID of a pod -> set when one of its removals ends.
        self._ends: dict[str, asyncio.Event] = {}
        self._remove, writer._remove_user = writer._remove_user, self._removes
        self._wait, writer.wait_removed = writer.wait_removed, self._waits

    def check(self) -> None:
        """Checks that an attempt would wait for each removal that is in progress."""
        for ids, count in self._open.items():
            task = self._writer._removals.get(ids)
            if count and (task is None or task.done()):
                self._report(f"a removal of {ids[1]} is in progress, but forgotten")

    async def ends_within(self, uid: str, wait_s: float) -> bool:
        """Waits, and returns early, with True, when a removal of the pod ends."""
        ended = self._ends[uid] = asyncio.Event()
        try:
            async with asyncio.timeout(wait_s):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            del self._ends[uid]
        return True

    async def _removes(self, claim: ResourceClaim, pod: PodInfo) -> None:
        ids = claim.metadata.uid, pod.uid
        self._open[ids] += 1
        try:
            await self._remove(claim, pod)
        finally:
            self._open[ids] -= 1
            if pod.uid in self._ends:
                self._ends[pod.uid].set()

    async def _waits(self, claim: ResourceClaim, pod: PodInfo) -> None:
        await self._wait(claim, pod)
        if self._open[claim.metadata.uid, pod.uid]:
            self._report(f"{pod.key} goes on while it is removed from {claim.metadata.name}")
