"""Attempts in which the scheduler's own code raises, while users change the very pods.

The run, its plugin and its models are those of ``cycle_run``. Functions that ``own_errors`` draws
raise in some attempts. Such an attempt fails with an error that names the cycle and the exception,
and is counted as an error of "mooring"; what it has reserved, nominated or assumed is undone, its
pod is requeued with backoff, and all others go on. In half of the runs a function raises an
InvariantViolation at last, which ends all, and nothing follows it.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Final

import pytest

from mooring.clock import Rng, seeded_random
from mooring.errors import CycleError, InvariantViolation
from mooring.queue import QueuedPod
from mooring.scheduler import schedule_one
from mooring.testing import make_pod
from tests.faults.parts.cycle_run import QUIET_S, CycleRun, run_attempts
from tests.faults.parts.own_errors import BINDING, FUNCTIONS, RESERVE, SCHEDULING, OwnErrors

#: In such seeds Reserve is one of the functions.
RESERVES_EVERY: Final = 5


class BrokenRun(CycleRun):
    """One run.

    Args:
        seed: Of the run.
        tasks: For bindings.
        patch: Undone at the end of the run.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup, patch: pytest.MonkeyPatch) -> None:
        super().__init__(seed, tasks)
        self._errors = OwnErrors(seeded_random(seed + 7_000_000), patch, FUNCTIONS)
        if seed % RESERVES_EVERY == 0:
            self._errors.break_after(*RESERVE)
        self._errors.on_raise = self._recorded.abandon
        scheduler: Any = self._scheduler
        patch.setattr(schedule_one, "_decide", self._decided(schedule_one._decide))
        parts = ((scheduler, "_reserve_and_permit", SCHEDULING),)
        for owner, name, cycle in (*parts, (scheduler._binding_cycle, "_bind", BINDING)):
            setattr(owner, name, self._attempted(getattr(owner, name), cycle))
        if hasattr(scheduler, "_try_once"):
            scheduler._try_once = self._tried(scheduler._try_once)
            for name in ("_prepare_binding_cycle", "_handle_no_fit"):
                setattr(scheduler, name, self._undisturbed(getattr(scheduler, name)))

    # -- where functions raise --------------------------------------------------------------------

    def _decided(self, real: Any) -> Any:
        def decide(framework: Any, cycle: Any, attempt: Any) -> Any:
            with self._errors.attempt(cycle.pod.uid, SCHEDULING):
                return real(framework, cycle, attempt)

        return decide

    def _attempted(self, real: Any, name: str) -> Any:
        """Wraps a method that gets a binding context."""

        def call(binding_ctx: Any) -> Any:
            with self._errors.attempt(binding_ctx.cycle.pod.uid, name):
                return real(binding_ctx)

        async def wait(binding_ctx: Any) -> Any:
            with self._errors.attempt(binding_ctx.cycle.pod.uid, name):
                return await real(binding_ctx)

        return wait if inspect.iscoroutinefunction(real) else call

    def _tried(self, real: Any) -> Any:
        async def try_once(framework: Any, entry: QueuedPod, in_flight: Any) -> Any:
            with self._errors.attempt(entry.uid, SCHEDULING):
                return await real(framework, entry, in_flight)

        return try_once

    def _undisturbed(self, real: Any) -> Any:
        def call(*args: Any) -> Any:
            with self._errors.attempt("", ""):
                return real(*args)

        return call

    # -- what follows -----------------------------------------------------------------------------

    def _on_failure(self, entry: QueuedPod, reason: Any, **named: Any) -> None:
        raised = self._errors.raised.pop(entry.uid, None)
        if raised is not None:
            self._check(entry, reason, raised.text)
            self._forget(entry.uid)
            self._measured.raised[raised.point] += 1
        super()._on_failure(entry, reason, **named)

    def _forget(self, uid: str) -> None:
        """Forgets what an attempt has wanted, or what was to be its end."""
        script = self.script
        script.texts.breaks(uid)
        script.nominated.pop(uid, None)
        script.records.pop(uid, None)
        script.changes.drop(uid)

    def _check(self, entry: QueuedPod, reason: Any, text: str) -> None:
        if not isinstance(reason, CycleError) or str(reason) != text:
            self.problems.append(f"{entry.uid} has failed since {reason!r}, not since {text!r}")

    def on_step(self) -> None:
        """Checks that no function raises while all is to be bound, and what else is checked."""
        self._errors.is_passive = self.script.is_passive
        super().on_step()

    async def run(self) -> None:
        """Runs as without errors, and checks that each of them has failed an attempt."""
        await super().run()
        for uid, raised in self._errors.raised.items():
            self.problems.append(f"no attempt at {uid} has failed since {raised.text!r}")

    async def _end(self, rng: Rng) -> None:
        """Lets an attempt meet an error that ends the scheduler: nothing may follow it."""
        del rng
        self._loop.on_step = lambda: None  # what is cancelled has no result

        def end() -> None:
            self.script.has_ended = True

        self._errors.break_always(InvariantViolation("impossible"), end)
        self._store(make_pod("last", uid="last"))
        async with asyncio.TaskGroup() as tasks:
            scheduling = tasks.create_task(self._schedule())
            await asyncio.sleep(QUIET_S)
            scheduling.cancel()
        self.problems.append("an invariant is violated, but nothing has ended")


def run_broken(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt does not do what the models say.
    """
    with pytest.MonkeyPatch.context() as patch:
        run_attempts(seed, lambda seed, tasks: BrokenRun(seed, tasks, patch))
