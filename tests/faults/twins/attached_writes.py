"""Follows a queue of writes: which value is written, when, and after which refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from mooring.client.write_queue import Retry, WriteQueue

#: A value that may be written waits no longer than so many checks, one per second, while no other
#: write is in progress.
IDLE_MAX: Final = 2
ROUNDING_S: Final = 1e-5


@dataclass
class Value:
    """The newest value of a key."""

    value: Any
    tries: int = 0
    not_before_s: float = 0.0
    is_requested: bool = False
    is_writing: bool = False
    is_replaced: bool = False
    is_removed: bool = False
    #: Whether its number of tries may be lost with a removed value.
    may_begin_anew: bool = False
    #: Number of checks since it may be written.
    idle: int = 0

    def is_over(self, now_s: float) -> bool:
        """Returns whether it was removed, and the wait that the server asked for has passed."""
        is_past = self.not_before_s < now_s - ROUNDING_S
        return self.is_removed and is_past and not self.is_writing


class AttachedWrites:
    """Compares a queue of writes with a dict of values.

    Args:
        writes: The real queue, which has not begun yet.
        name: For messages.
        report: Called with each problem.
        now_s: The time by which the queue waits; that of the loop by default.
    """

    def __init__(
        self,
        writes: WriteQueue[Any],
        name: str,
        report: Callable[[str], None],
        now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._now_s = now_s
        self._values: dict[Hashable, Value] = {}
        self._name = name
        self._report = report
        real: Any = writes
        self._writes = real
        self._put, self._remove, self._write = real.put, real.remove, real._write_value
        real.put, real.remove, real._write_value = self.put, self.remove, self.write

    def put(self, key: Hashable, namespace: str, value: Any, *, urgent: bool = False) -> None:
        """Follows a new value."""
        self._put(key, namespace, value, urgent=urgent)
        model = self._values.get(key)
        if model is None or model.is_over(self._now_s()):
            self._values[key] = Value(value)
            return
        # At the very end of a wait the removed value may be gone, or not yet.
        is_at_end = model.is_removed and model.not_before_s < self._now_s() + ROUNDING_S
        model.may_begin_anew = is_at_end and not model.is_writing
        model.value, model.is_removed = value, False
        model.is_replaced = model.is_writing

    def remove(self, key: Hashable) -> None:
        """Follows the end of a value."""
        self._remove(key)
        model = self._values.get(key)
        if model is None:
            return
        model.is_removed = True
        # At the very end of its wait the removed value may be gone, or not yet.
        may_wait = model.is_requested and model.not_before_s >= self._now_s() - ROUNDING_S
        if not model.is_writing and not may_wait:
            del self._values[key]

    async def write(self, value: Any, tries: int) -> Retry | None:
        """Checks a write, and follows its result."""
        key = self._key_of(value)
        if key is None:
            return await self._write(value, tries)  # type: ignore[no-any-return]
        model, now_s = self._values[key], self._now_s()
        if now_s < model.not_before_s - ROUNDING_S:
            self._differ(f"{key} is written {model.not_before_s - now_s:.2f} s too early")
        if tries != model.tries + 1 and not (model.may_begin_anew and tries == 1):
            self._differ(f"try {tries} of {key} is number {model.tries + 1}")
        model.tries, model.may_begin_anew = tries, False
        model.is_writing, model.is_replaced, model.idle = True, False, 0
        model.is_removed = False
        retry: Retry | None = None
        try:
            retry = await self._write(value, tries)
        finally:
            model.is_writing = False
        self._after(key, model, retry)
        return retry

    def ready(self) -> set[Any]:
        """Returns the keys whose values may be written, but are not being written."""
        before_s = self._now_s() - ROUNDING_S
        return {
            key
            for key, model in self._values.items()
            if not (model.is_writing or model.is_removed) and model.not_before_s < before_s
        }

    def _key_of(self, value: Any) -> Hashable | None:
        """Returns the key of a value that is about to be written; reports an old one."""
        for key, model in self._values.items():
            if model.value is value and not model.is_removed:
                return key
        self._differ("a value that was replaced or removed is written")
        return None

    def _after(self, key: Hashable, model: Value, retry: Retry | None) -> None:
        """Follows the end of a write."""
        wait_s = retry.wait_s if retry is not None else 0.0
        model.is_requested = retry is not None and retry.is_requested
        if not wait_s:  # what is written next is something else
            model.tries = 0
        is_done = retry is None and not model.is_replaced
        if is_done or (model.is_removed and not model.is_requested):
            del self._values[key]
            return
        model.not_before_s = self._now_s() + wait_s if wait_s else 0.0

    def on_tick(self) -> None:
        """Checks once per second that each value waits for a write, and none for too long."""
        self._values = {
            key: model for key, model in self._values.items() if not model.is_over(self._now_s())
        }
        live = {key for key, model in self._values.items() if not model.is_removed}
        for key in live:
            if key not in self._writes:
                self._differ(f"{key} was not written, and does not wait any more")
        is_idle = not any(model.is_writing for model in self._values.values())
        for key in live:
            model = self._values[key]
            may_be_written = is_idle and model.not_before_s < self._now_s()
            model.idle = model.idle + 1 if may_be_written else 0
            if model.idle > IDLE_MAX:
                self._differ(f"{key} may be written for {model.idle} s, but is not")

    def _differ(self, message: str) -> None:
        self._report(f"{self._name}: {message}")
