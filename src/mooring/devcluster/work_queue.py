"""The loop of a controller: informers queue what is to be done, and one task does it.

::

    watch ──> handler ──add──> queue ──> sync, one item after the other
                                          failed: the object's next event queues it again

An item that waits already is not added again: changes of an object that come faster than its work
are one piece of work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from mooring.client import Client, Informer, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.errors import SchedulerError
from mooring.objects.kinds import Kind

Item = TypeVar("Item", bound=Hashable)


class WorkQueue(Generic[Item]):
    """Informers, and a queue of items that they fill.

    Args:
        client: The client of the informers.
        handlers: Kind -> what is called with each change of an object.
        sync: Does the work for one item.
        failed: Called with an item and the error of its work.
        kinds: Kinds of ``handlers`` that are not in the table of kinds.
        gather_s: Work begins so many seconds after the item that leads to it.
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
        gather_s: float = 0.0,
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
        self._gather_s = gather_s
        self._sleep = sleep
        #: In the order of their first addition.
        self._items: dict[Item, None] = {}
        self._has_items = asyncio.Event()
        self._is_working = False

    @property
    def is_idle(self) -> bool:
        """True if all items are done."""
        return not self._items and not self._is_working

    def add(self, item: Item) -> None:
        """Appends an item, unless it waits already."""
        self._items.setdefault(item)
        self._has_items.set()

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
                await self._has_items.wait()
                if self._gather_s:
                    await self._sleep(self._gather_s)
                self._has_items.clear()
                for item in list(self._items):
                    del self._items[item]
                    await self._work_on(item)

    async def _work_on(self, item: Item) -> None:
        self._is_working = True
        try:
            await self._sync(item)
        except SchedulerError as error:
            self._failed(item, error)
        finally:
            self._is_working = False
