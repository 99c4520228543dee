"""A queue of writes by key: the newest value of each key is written, fairly between namespaces.

::

    put ──> ready, by namespace ──> writers ──> written
                  ▲                     │ Retry: after a wait, which occupies no writer
                  └─────────────────────┘ and is the wait of a newer value too

A namespace whose last write failed is failing, until one of its writes ends otherwise. Failing
namespaces share a few of the writers, so that an admission webhook of one team, which lets each
write time out, does not delay the writes of the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mooring.client.retry import Sleep

WRITERS: Final = 8

#: Writers that one namespace may occupy, and that all failing namespaces may occupy together.
WRITERS_PER_NAMESPACE: Final = 6
WRITERS_OF_FAILING: Final = 2

T = TypeVar("T")


class Retry(NamedTuple):
    """A write has to be repeated.

    Attributes:
        wait_s: The wait before it, in seconds; 0 = it succeeded, and there is more to write, whose
            tries are counted from 1.
        is_requested: Whether the server asked for the wait: then a value that is put after the
            removal of this one waits as well. A value that replaces it waits in any case.
    """

    wait_s: float
    is_requested: bool = False


class _State(Enum):
    READY = "ready"
    WRITING = "writing"
    WAITING = "waiting"


class _Item(Generic[T]):
    """One key of the queue."""

    __slots__ = (
        "is_removed",
        "is_replaced",
        "is_urgent",
        "is_wait_requested",
        "namespace",
        "state",
        "tries",
        "value",
    )

    def __init__(self, namespace: str, value: T) -> None:
        self.namespace = namespace
        self.value = value
        self.state = _State.READY
        self.tries = 0
        self.is_urgent = False
        #: Whether the value was replaced, or removed, while it was being written.
        self.is_replaced = False
        self.is_removed = False
        self.is_wait_requested = False


class WriteQueue(Generic[T]):
    """Writes values in the background.

    Args:
        write: Writes a value; its second argument is the number of the try, from 1. It returns
            None if the value is written or given up, or a ``Retry``. It must not raise what the
            queue should survive.
        sleep: Waits.
        items_max: Beyond that the oldest item of the namespace with the most items is dropped;
            None = no limit.
    """

    def __init__(
        self,
        write: Callable[[T, int], Awaitable[Retry | None]],
        *,
        sleep: Sleep,
        items_max: int | None = None,
    ) -> None:
        self.dropped = 0
        self._write_value = write
        self._sleep = sleep
        self._items_max = items_max
        self._items: dict[Hashable, _Item[T]] = {}
        self._urgent = _Ready()
        self._ready = _Ready()
        #: Removed items that wait, since the server asked for it.
        self._parked = 0
        self._sizes: Counter[str] = Counter()
        self._writing: Counter[str] = Counter()
        self._failing: set[str] = set()
        #: Writers without work, each waiting for its own future: a new item needs only one of them.
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: asyncio.TaskGroup | None = None

    def __len__(self) -> int:
        """Returns the number of keys that are queued, being written, or waiting for a retry."""
        return len(self._items) - self._parked

    def __contains__(self, key: Hashable) -> bool:
        item = self._items.get(key)
        return item is not None and not (item.is_removed and item.state is _State.WAITING)

    def get(self, key: Hashable) -> T | None:
        """Returns the value of a key that is not written yet, or being written."""
        item = self._items.get(key)
        return None if item is None or item.is_removed else item.value

    def values(self) -> list[T]:
        """Returns the values that are not written yet, in the order of their first ``put``."""
        return [item.value for item in self._items.values() if not item.is_removed]

    def put(self, key: Hashable, namespace: str, value: T, *, urgent: bool = False) -> None:
        """Queues a value; it replaces the one of the same key. Never waits.

        Args:
            key: Identifies what is written.
            namespace: Of the object.
            value: What to write.
            urgent: Whether it is written before all that is not urgent.
        """
        item = self._items.get(key)
        if item is None:
            self._make_space()
            item = self._items[key] = _Item(namespace, value)
            self._sizes[namespace] += 1
            item.is_urgent = urgent
            self._make_ready(key, item)
            return
        item.value = value
        if item.state is _State.WRITING:
            item.is_replaced, item.is_removed = True, False
            item.is_urgent = item.is_urgent or urgent
        elif item.state is _State.READY and urgent and not item.is_urgent:
            self._ready.remove(item.namespace, key)
            item.is_urgent = True
            self._make_ready(key, item)
        elif item.state is _State.WAITING:
            # The wait of the write before counts: else each new value would be sent at once to a
            # server that is down.
            self._parked -= item.is_removed
            item.is_removed = False
            item.is_urgent = item.is_urgent or urgent

    def remove(self, key: Hashable) -> None:
        """Drops the value of a key. A write in progress is not interrupted, nor repeated."""
        item = self._items.get(key)
        if item is None or item.is_removed:
            return
        if item.state is _State.WRITING:
            # It stays until the write ends: a later value must not be written at the same time.
            item.is_removed = True
        elif item.state is _State.WAITING and item.is_wait_requested:
            item.is_removed = True
            self._parked += 1
        else:
            self._delete(key, item)

    def _delete(self, key: Hashable, item: _Item[T]) -> None:
        del self._items[key]
        self._sizes[item.namespace] -= 1
        if not self._sizes[item.namespace]:
            del self._sizes[item.namespace]
        if item.state is _State.READY:
            (self._urgent if item.is_urgent else self._ready).remove(item.namespace, key)

    async def run(self) -> None:
        """Writes until cancelled; what is queued then is lost."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for _ in range(WRITERS):
                    self._tasks.create_task(self._write_items())
        finally:
            self._tasks = None
            self._idle.clear()

    async def write_all(self) -> None:
        """Writes everything, one after another, with all retries: without ``run``."""
        while (next_item := self._next()) is not None:
            key, item = next_item
            wait_s = await self._write(key, item)
            if wait_s is not None:
                await self._wait(key, item, wait_s)

    async def _write_items(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            next_item = self._next()
            if next_item is None:
                turn = loop.create_future()
                self._idle.append(turn)
                await turn
                continue
            key, item = next_item
            wait_s = await self._write(key, item)
            if wait_s is not None:
                assert self._tasks is not None
                self._tasks.create_task(self._wait(key, item, wait_s))

    async def _wait(self, key: Hashable, item: _Item[T], wait_s: float) -> None:
        await self._sleep(wait_s)
        if self._items.get(key) is not item:
            return  # It was removed; a later value of the key does not wait for this one.
        if item.is_removed:
            self._parked -= 1
            self._delete(key, item)
        else:
            self._make_ready(key, item)

    def _next(self) -> tuple[Hashable, _Item[T]] | None:
        """Removes the next item that may be written now from the ready ones."""
        key = self._urgent.pop(self._may_write)
        if key is None:
            key = self._ready.pop(self._may_write)
        return None if key is None else (key, self._items[key])

    def _may_write(self, namespace: str) -> bool:
        if self._writing[namespace] >= WRITERS_PER_NAMESPACE:
            return False
        if namespace not in self._failing:
            return True
        return sum(self._writing[other] for other in self._failing) < WRITERS_OF_FAILING

    async def _write(self, key: Hashable, item: _Item[T]) -> float | None:
        """Writes an item once. Returns the seconds after which it is ready again, if it waits."""
        namespace = item.namespace
        item.state, item.is_urgent = _State.WRITING, False
        item.is_replaced = item.is_removed = False
        item.tries += 1
        self._writing[namespace] += 1
        retry: Retry | None = None
        try:
            retry = await self._write_value(item.value, item.tries)
        finally:
            self._writing[namespace] -= 1
            if not self._writing[namespace]:
                del self._writing[namespace]
            if self._urgent or self._ready:
                self._wake_writer()  # of an item that the limits did not allow before
        if retry is not None and retry.wait_s > 0:
            self._failing.add(namespace)
        elif namespace in self._failing:
            self._failing.remove(namespace)
            for _ in range(len(self._idle)):  # all its items may be written now
                self._wake_writer()
        return self._after(key, item, retry)

    def _after(self, key: Hashable, item: _Item[T], retry: Retry | None) -> float | None:
        if item.is_removed and retry is not None and retry.is_requested:
            self._parked += 1
        elif item.is_removed or (retry is None and not item.is_replaced):
            self._delete(key, item)
            return None
        if retry is None or not retry.wait_s:
            item.tries = 0
            self._make_ready(key, item)
            return None
        item.state, item.is_wait_requested = _State.WAITING, retry.is_requested
        return retry.wait_s

    def _make_ready(self, key: Hashable, item: _Item[T]) -> None:
        item.state = _State.READY
        (self._urgent if item.is_urgent else self._ready).add(item.namespace, key)
        self._wake_writer()

    def _wake_writer(self) -> None:
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _make_space(self) -> None:
        """Drops an item if there are too many: the oldest of the largest namespace."""
        if self._items_max is None or len(self._items) < self._items_max:
            return
        namespaces = sorted(self._sizes, key=self._sizes.__getitem__, reverse=True)
        if len(self._items) < self._items_max + WRITERS:
            # Items that are being written cannot be dropped: no other namespace loses one for them.
            del namespaces[1:]
        for namespace in namespaces:
            for key, item in self._items.items():
                is_droppable = item.state is not _State.WRITING and not item.is_removed
                if item.namespace == namespace and is_droppable:
                    self.remove(key)
                    self.dropped += 1
                    return


class _Ready:
    """Keys that are ready, by namespace: the namespaces take turns."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, OrderedDict[Hashable, Any]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, namespace: str, key: Hashable) -> None:
        self._keys.setdefault(namespace, OrderedDict())[key] = None

    def remove(self, namespace: str, key: Hashable) -> None:
        keys = self._keys[namespace]
        del keys[key]
        if not keys:
            del self._keys[namespace]

    def pop(self, is_allowed: Callable[[str], bool]) -> Hashable | None:
        """Removes and returns the oldest key of the next allowed namespace."""
        for namespace, keys in self._keys.items():
            if is_allowed(namespace):
                key, _ = keys.popitem(last=False)
                if keys:
                    self._keys.move_to_end(namespace)
                else:
                    del self._keys[namespace]
                return key
        return None
