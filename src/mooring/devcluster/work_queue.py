"""The loop of a controller: informers queue what is to be done, and one task does it.

::

    watch ──> handler ──add──> queue ──> sync, one item after the other
                                          failed: the object's next event queues it again
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from mooring.client import Client, Informer, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.errors import SchedulerError
from mooring.objects.kinds import Kind

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """Informers, and a queue of items that they fill.

    Args:
        client: The client of the informers.
        handlers: Kind -> what is called with each change of an object.
        sync: Does the work for one item.
        failed: Called with an item and the error of its work.
        kinds: Kinds of ``handlers`` that are not in the table of kinds.
        clock: For the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
    """

    def __init__(
        self,
        client: Client,
        handlers: Mapping[str, Callable[[ObjectChange], None]],
        sync: Callable[[Item], Awaitable[None]],
        failed: Callable[[Item, SchedulerError], None],
        *,
        kinds: Iterable[Kind] = (),
        clock: Clock,
        rng: Rng,
        sleep: Sleep,
    ) -> None:
        own_kinds: dict[str, Kind | str] = {kind.name: kind for kind in kinds}
        self._informers = {
            kind: Informer(
                client, own_kinds.get(kind, kind), handler, clock=clock, rng=rng, sleep=sleep
            )
            for kind, handler in handlers.items()
        }
        self._sync = sync
        self._failed = failed
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._is_working = False

    @property
    def is_idle(self) -> bool:
        """True if all items are done."""
        return self._items.empty() and not self._is_working

    def add(self, item: Item) -> None:
        """Appends an item."""
        self._items.put_nowait(item)

    def objects(self, kind: str) -> Mapping[str, Any]:
        """Returns the objects of a kind, by key."""
        return self._informers[kind].objects

    def version(self, kind: str) -> int:
        """Returns the resourceVersion up to which the watch of a kind has reported."""
        return int(self._informers[kind].version or "0")

    async def run(self) -> None:
        """Watches and works until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
            for informer in self._informers.values():
                await informer.wait_until_synced()
            while True:
                item = await self._items.get()
                self._is_working = True
                try:
                    await self._sync(item)
                except SchedulerError as error:
                    self._failed(item, error)
                finally:
                    self._is_working = False
