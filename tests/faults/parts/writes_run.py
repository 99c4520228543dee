"""Puts and removals of a queue of writes, most of which are refused: beside its model.

Besides the model of each value (``tests/faults/twins/attached_writes.py``) this one counts the
writers: a namespace occupies six of eight, those that fail two, and no writer is idle beyond that.
What is urgent comes first, namespaces take turns, and the oldest key of a namespace is the first.
Some queues have a limit: beyond it the oldest value of the largest namespace is dropped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from mooring.client.write_queue import Retry, WriteQueue
from mooring.clock import seeded_random
from tests.faults.parts.virtual_runs import check_run
from tests.faults.parts.write_turns import WriteTurns
from tests.faults.twins.attached_writes import AttachedWrites

CALLS: Final = 150
NAMESPACES: Final = ("shop", "bank", "team")
WRITERS: Final = 8
OF_ONE: Final = 6
OF_FAILING: Final = 2
#: A wake-up takes no time: a value that may be written is being written after so long.
WOKEN_S: Final = 0.001
#: At the end the writes succeed, and all have been written after so long.
QUIET_S: Final = 60.0


class Value:
    """A value to write: no two are equal."""

    def __init__(self, key: str, *, is_urgent: bool) -> None:
        self.key = key
        self.is_urgent = is_urgent

    @property
    def namespace(self) -> str:
        """The namespace of the key."""
        return self.key.partition("/")[0]


class WritesRun:
    """One run.

    Attributes:
        problems: What the queue did, and must not.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        # It changes nothing else that is drawn.
        self._items_max = seeded_random(seed + 3).choice((None, None, 4, 9))
        self._writes: WriteQueue[Value] = WriteQueue(
            self._write, sleep=asyncio.sleep, items_max=self._items_max
        )
        if self._writes.dropped:
            self.problems.append(f"{self._writes.dropped} values of a new queue are dropped")
        self._model = AttachedWrites(self._writes, "writes", self.problems.append)
        self._refusing = self._rng.choice((0.2, 0.6, 0.9))
        self._n_keys = self._rng.choice((1, 2, 10))
        self._most_s = self._rng.choice((0.5, 5.0))
        self._writing: Counter[str] = Counter()
        self._failing: set[str] = set()
        #: The keys that are being written, and those that wait, since the server asked for it.
        self._in_writers: Counter[str] = Counter()
        self._requested_until_s: dict[str, float] = {}
        #: The newest value of each key, until it is written, given up or removed.
        self._newest: dict[str, Value] = {}
        #: The keys with an urgent value since their last write began.
        self._urgent: set[str] = set()
        #: Those with an urgent value that was removed; a later one may be urgent, or not.
        self._removed: set[str] = set()
        #: Those of the latter that got another urgent value.
        self._unclear: set[str] = set()
        self._turns = WriteTurns(
            self._model.ready, self._is_urgent, self._may_write, self.problems.append
        )

    async def run(self) -> None:
        """Makes all calls, lets the writes succeed, and compares at the end."""
        rng = self._rng
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._writes.run())
            ticking = tasks.create_task(self._tick())
            for _ in range(CALLS):
                await asyncio.sleep(rng.choice((0.0, 0.0, 0.01, 0.3, 2.0)))
                key = f"{rng.choice(NAMESPACES)}/{rng.randrange(self._n_keys)}"
                if rng.random() < 0.35:
                    self._newest.pop(key, None)
                    self._writes.remove(key)
                    self._forget_urgency(key)
                else:
                    self._put(key)
                self._check_contents()
            self._refusing = 0.0
            await asyncio.sleep(QUIET_S)
            running.cancel()
            ticking.cancel()
        if len(self._writes) or self._newest:
            self.problems.append(f"{sorted(self._newest)} are not written at the end")

    def _put(self, key: str) -> None:
        value = Value(key, is_urgent=self._rng.random() < 0.3)
        dropped = self._writes.dropped
        if value.is_urgent and key not in self._urgent:
            self._turns.forget(key)
        self._writes.put(key, value.namespace, value, urgent=value.is_urgent)
        if self._writes.dropped > dropped:
            self._check_dropped(self._writes.dropped - dropped, key)
        self._newest[key] = value
        if value.is_urgent:
            if key in self._removed:
                self._unclear.add(key)
            self._urgent.add(key)
            self._removed.discard(key)
        self._turns.look()
        # What is being written cannot be dropped.
        if self._items_max is not None and len(self._writes) > self._items_max + WRITERS:
            values = f"{len(self._writes)} values"
            self.problems.append(f"there are {values} for a limit of {self._items_max}")

    def _check_dropped(self, count: int, new_key: str) -> None:
        """Follows a value that was dropped: one for each that is counted, of a large namespace."""
        missing = [key for key in self._newest if self._writes.get(key) is None]
        if len(missing) != count:
            self.problems.append(f"{count} values count as dropped, but {missing} are")
        values = Counter(key.partition("/")[0] for key in self._newest if key != new_key)
        # Keys without a value count, too, while a writer or the server's wait keeps them.
        now_s = asyncio.get_running_loop().time()
        waiting = {key for key, until_s in self._requested_until_s.items() if until_s >= now_s}
        without_value = (waiting | (+self._in_writers).keys()) - self._newest.keys()
        # A namespace of which all is being written loses nothing; then another one does, if all
        # writers may be busy with what is beyond the limit.
        idle = self._newest.keys() - (+self._in_writers).keys() - {new_key}
        assert self._items_max is not None
        has_space = len(self._writes) - 1 + count + len(waiting) < self._items_max + WRITERS
        losing = set(values) if has_space else {key.partition("/")[0] for key in idle}
        for key in missing:
            name = key.partition("/")[0]
            size_max = values[name] + sum(other.startswith(name) for other in without_value)
            if any(size_max < values[other] for other in losing):
                self.problems.append(f"{key} was dropped with {dict(values)} values")
            del self._newest[key]
            self._forget_urgency(key)

    def _forget_urgency(self, key: str) -> None:
        """Follows the removal of a value: if it waits on, its urgency is that of a later one."""
        self._turns.forget(key)
        if key in self._urgent:
            self._urgent.discard(key)
            self._removed.add(key)

    def _is_urgent(self, key: str) -> bool | None:
        """Returns whether the value of a key is urgent, as far as it is certain."""
        return None if key in self._removed | self._unclear else key in self._urgent

    def _check_contents(self) -> None:
        values = self._writes.values()
        if len(values) != len(self._newest) or {id(value) for value in values} != {
            id(value) for value in self._newest.values()
        }:
            keys = sorted(value.key for value in values)
            self.problems.append(f"{keys} are to be written, not {sorted(self._newest)}")
        for key in (f"{name}/{number}" for name in NAMESPACES for number in range(self._n_keys)):
            if self._writes.get(key) is not self._newest.get(key):
                self.problems.append(f"{key} has another value than the newest")
            if (key in self._writes) < (key in self._newest):
                self.problems.append(f"{key} is not contained")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0 - WOKEN_S)
            self._model.on_tick()
            self._turns.look()
            ready = self._writable()
            await asyncio.sleep(WOKEN_S)
            if idle := ready & self._writable():
                self.problems.append(f"no writer has begun with {sorted(idle)}")

    def _writable(self) -> set[str]:
        """Returns the keys that are ready, and that the limits allow to be written now."""
        if self._writing.total() >= WRITERS:
            return set()
        return {key for key in self._model.ready() if self._may_write(key.partition("/")[0])}

    def _may_write(self, name: str) -> bool:
        of_failing = sum(self._writing[failing] for failing in self._failing)
        is_slow = name in self._failing and of_failing >= OF_FAILING
        return self._writing[name] < OF_ONE and not is_slow

    async def _write(self, value: Value, tries: int) -> Retry | None:
        """Checks who writes at the same time, and draws the result."""
        del tries
        name, rng = value.namespace, self._rng
        urgent = self._writable() & self._urgent
        if urgent and value.key not in self._urgent | self._removed:
            self.problems.append(
                f"{value.key} is written before {sorted(urgent)}, which are urgent"
            )
        self._turns.begin(value.key)
        for keys in (self._urgent, self._removed, self._unclear):
            keys.discard(value.key)
        self._writing[name] += 1
        self._in_writers[value.key] += 1
        of_failing = sum(self._writing[failing] for failing in self._failing)
        if self._writing.total() > WRITERS or self._writing[name] > OF_ONE:
            self.problems.append(f"too many writers: {dict(self._writing)}")
        if name in self._failing and of_failing > OF_FAILING:
            self.problems.append(f"failing namespaces have {of_failing} writers")
        try:
            await asyncio.sleep(rng.random() * self._most_s)
        finally:
            self._writing[name] -= 1
            self._in_writers[value.key] -= 1
        retry = self._result()
        if retry is not None and retry.is_requested:
            now_s = asyncio.get_running_loop().time()
            self._requested_until_s[value.key] = now_s + retry.wait_s
        if retry is not None and retry.wait_s:
            self._failing.add(name)
        else:
            self._failing.discard(name)
        if retry is None and self._newest.get(value.key) is value:
            del self._newest[value.key]
        return retry

    def _result(self) -> Retry | None:
        rng: Any = self._rng
        if rng.random() > self._refusing:
            return None
        wait_s = rng.choice((0.2, 1.0, 1.0, 5.0, 9.0))
        return Retry(wait_s, is_requested=rng.random() < 0.5)


def run_writes(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the queue differs from its model.
    """
    check_run(WritesRun, seed)
