"""Turns of the tasks that write the same object."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A lock for each UID; only those in use are stored.

    Example:
        async with turns.of(claim.metadata.uid):
            ...  # no other task writes this claim
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    def __len__(self) -> int:
        """Returns the number of objects that are being written."""
        return len(self._locks)

    @asynccontextmanager
    async def of(self, uid: str) -> AsyncIterator[None]:
        """Waits for the tasks that came before, then lets this one write."""
        lock = self._locks.setdefault(uid, asyncio.Lock())
        self._users[uid] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[uid] -= 1
            if not self._users[uid]:
                del self._users[uid], self._locks[uid]
