"""The virtual loop with limits: a test that never ends fails, where it would hang otherwise.

On virtual time a loop without an end takes no time, so no timeout of a test runner helps: a task
that polls for what never comes moves the time on for ever, and tasks that wake each other never
move it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from mooring.clock import Rng
from mooring.virtual_loop import VirtualLoop

__all__ = ["LimitedLoop", "VirtualLoop", "run_virtually"]

_Result = TypeVar("_Result")

#: The longest test takes less than a tenth of each.
VIRTUAL_S_MAX: Final = 400 * 86_400.0
STEPS_MAX: Final = 5_000_000

#: Tasks that are named in the error.
TASKS_MAX: Final = 5


class EndlessTest(AssertionError):
    """A test has reached a limit of its loop."""


class LimitedLoop(VirtualLoop):
    """A virtual loop that ends with an error after some time or some rounds of callbacks.

    After the error each limit is doubled, so that tasks can be cancelled; and if that has no end
    either, there is another error.
    """

    def __init__(
        self,
        rng: Rng | None = None,
        *,
        virtual_s_max: float = VIRTUAL_S_MAX,
        steps_max: int = STEPS_MAX,
    ) -> None:
        super().__init__(rng, before_move=self._check_time)
        self._virtual_s_max = virtual_s_max
        self._steps_max = steps_max

    def _check_time(self, when_s: float) -> None:
        if when_s > self._virtual_s_max:
            limit_s = self._virtual_s_max
            self._virtual_s_max = 2 * when_s
            raise EndlessTest(f"not over after {limit_s:g} virtual seconds: {self._unfinished()}")

    def _run_once(self) -> None:
        try:
            super()._run_once()
        except BaseException:
            # A check that failed fails again in every round, and tasks could not be cancelled.
            self.on_step = lambda: None
            raise
        if self.steps > self._steps_max:
            limit = self._steps_max
            self._steps_max = 2 * self.steps
            after = f"{limit} steps, at {self.time():g} virtual seconds"
            raise EndlessTest(f"not over after {after}: {self._unfinished()}")

    def _unfinished(self) -> str:
        """Returns the coroutines of the first tasks that have not ended."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        names = [getattr(task.get_coro(), "__qualname__", task.get_name()) for task in tasks]
        more = f" and {len(names) - TASKS_MAX} more" if len(names) > TASKS_MAX else ""
        return ", ".join(names[:TASKS_MAX]) + more


def run_virtually(
    work: Coroutine[Any, Any, _Result],
    rng: Rng | None = None,
    *,
    virtual_s_max: float = VIRTUAL_S_MAX,
    steps_max: int = STEPS_MAX,
) -> _Result:
    """Returns the result of a coroutine on virtual time, within the limits.

    Args:
        work: Runs to its end.
        rng: Draws the order of what is ready at once; None = first come, first served.
        virtual_s_max: How long it may take, in virtual seconds.
        steps_max: How many rounds of callbacks it may take.

    Raises:
        EndlessTest: a limit is reached.
    """

    def new_loop() -> LimitedLoop:
        return LimitedLoop(rng, virtual_s_max=virtual_s_max, steps_max=steps_max)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
