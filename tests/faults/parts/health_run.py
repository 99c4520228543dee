"""The log while informers fail, reports about pods, background work and fresh objects.

Informers have an error or none, and have synced or not. The reference says what a check logs: a
line for all kinds that cannot be reached, or whose credentials are refused, one per other kind,
again only after waits that double. A new leader waits at most 30 seconds for the freshness of all
kinds; background coroutines of plugins begin again after five.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.errors import (
    Forbidden,
    SchedulerError,
    ServerError,
    Unauthorized,
    Unreachable,
)
from mooring.framework import Diagnosis, Reject
from mooring.scheduler import heap_trim, informer_health, observer, plugin_tasks
from mooring.scheduler.informer_health import InformerHealth, wait_until_fresh
from mooring.scheduler.observer import LoggingObserver, Observer, ObserverGroup
from mooring.scheduler.plugin_tasks import run_background
from mooring.virtual_loop import LoopClock
from tests.faults.parts.logged import Line, logged
from tests.faults.parts.virtual_runs import check_run

KINDS: Final = ("Pod", "Node", "Service", "Lease")
CHECKS: Final = 500
REPEAT_S: Final = 5.0
REPEAT_S_MAX: Final = 300.0
FRESH_S: Final = 30.0
PAUSE_S: Final = 5.0
TRIM_S: Final = 60.0
ROUNDING_S: Final = 1e-6
ERRORS: Final = (
    Unreachable("refused"),
    Unauthorized("token", status=401),
    Forbidden("no right", status=403),
    ServerError("busy", status=500),
)


class Repeat:
    """An error that is logged after waits that double."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self._wait_s = REPEAT_S
        self._next_s = now_s + REPEAT_S

    def is_due(self, now_s: float) -> bool:
        """Returns whether it is logged again now."""
        if now_s < self._next_s:
            return False
        self._wait_s = min(2 * self._wait_s, REPEAT_S_MAX)
        self._next_s = now_s + self._wait_s
        return True


class InformerLines:
    """Draws the errors of informers, and says what is logged about them."""

    _rng: Rng
    _clock: LoopClock
    _informers: list[Any]
    _away_since_s: float | None
    _refused: Repeat | None
    _failing: dict[str, Repeat]

    def _change(self) -> None:
        rng, now_s = self._rng, self._clock.monotonic_s()
        if rng.random() < 0.3:
            error = rng.choice((None, *ERRORS[:2]))
            for informer in self._informers:
                informer.last_error = error
        for informer in self._informers:
            if rng.random() < 0.3:
                informer.last_error = rng.choice((None, None, *ERRORS))
            informer.has_synced = informer.has_synced or rng.random() < 0.05
            informer.next_try_at_s = now_s + rng.uniform(-2.0, 20.0)

    def _lines(self) -> list[Line]:
        """Returns what a check logs now."""
        now_s = self._clock.monotonic_s()
        errors = [informer.last_error for informer in self._informers]
        away = [it for it in self._informers if isinstance(it.last_error, Unreachable)]
        lines = list[Line]()
        if away and self._away_since_s is None:
            self._away_since_s = now_s
            waits_s = [it.next_try_at_s - now_s for it in away]
            next_s = round(min((s for s in waits_s if s > 0), default=0.0), 1)
            fields = {"error": "refused", "next_try_s": next_s, "scheduling": _state(away)}
            lines.append((logging.WARNING, "API server cannot be reached", fields))
        elif not away and self._away_since_s is not None:
            fields = {"after_s": round(now_s - self._away_since_s, 1)}
            lines.append((logging.WARNING, "API server can be reached again", fields))
            self._away_since_s = None
        lines += self._lines_of_credentials(errors, now_s)
        for informer in self._informers:
            lines += self._lines_of_kind(informer, now_s)
        return lines

    def _lines_of_credentials(
        self, errors: list[SchedulerError | None], now_s: float
    ) -> list[Line]:
        refused = [it for it in self._informers if isinstance(it.last_error, Unauthorized)]
        if refused:
            is_due = self._refused is None or self._refused.is_due(now_s)
            self._refused = self._refused or Repeat(now_s)
            fields: dict[str, Any] = {"error": "token", "scheduling": _state(refused)}
            text = "API server does not accept the credentials"
            return [(logging.ERROR, text, fields)] if is_due else []
        if self._refused is not None and not any(errors):
            fields = {"after_s": round(now_s - self._refused.since_s, 1)}
            self._refused = None
            return [(logging.INFO, "API server accepts the credentials again", fields)]
        return []

    def _lines_of_kind(self, informer: Any, now_s: float) -> list[Line]:
        kind, error = informer.kind.name, informer.last_error
        before = self._failing.get(kind)
        if error is None and before is not None:
            del self._failing[kind]
            fields = {"kind": kind, "after_s": round(now_s - before.since_s, 1)}
            return [(logging.INFO, "kind can be listed and watched again", fields)]
        is_own = isinstance(error, Forbidden | ServerError)
        if not is_own or (informer.has_synced and isinstance(error, ServerError)):
            return []
        if before is not None and not before.is_due(now_s):
            return []
        self._failing[kind] = before or Repeat(now_s)
        text = "cannot watch a kind"
        if not informer.has_synced:
            text = "cannot list a kind, scheduling has not started"
        level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
        return [(level, text, {"kind": kind, "error": str(error)})]


class HealthRun(InformerLines):
    """One run.

    Attributes:
        problems: Differences.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._clock = LoopClock(asyncio.get_running_loop())
        self._informers: list[Any] = [
            SimpleNamespaceWithHash(
                kind=SimpleNamespace(name=kind),
                last_error=None,
                has_synced=False,
                next_try_at_s=0.0,
            )
            for kind in KINDS
        ]
        self._away_since_s: float | None = None
        self._refused: Repeat | None = None
        self._failing: dict[str, Repeat] = {}

    async def run(self) -> None:
        """Compares all of them."""
        await self._check_informers()
        await self._check_fresh()
        await self._check_background()
        await self._check_heap()
        self._check_observers()

    # -- informers --------------------------------------------------------------------------------

    async def _check_informers(self) -> None:
        rng = self._rng
        health = InformerHealth(lambda: self._informers, clock=self._clock, sleep=asyncio.sleep)
        with logged(informer_health) as log:
            running = asyncio.create_task(health.run())
            await asyncio.sleep(0.5)  # checks are between the changes
            left = 0
            for _ in range(CHECKS):
                if not left:
                    self._change()
                    left = rng.choice((1, 1, 1, 3, 8, 400 if rng.random() < 0.1 else 2))
                left -= 1
                await asyncio.sleep(0.5)
                expected = self._lines()
                await asyncio.sleep(0.5)
                if log.lines != expected:
                    self.problems.append(f"logs {log.lines}, not {expected}")
                    break
                log.lines.clear()
            running.cancel()

    # -- a new leader -----------------------------------------------------------------------------

    async def _check_fresh(self) -> None:
        """Compares the wait for fresh objects of all kinds."""
        rng = self._rng
        ends_s = {kind: rng.choice((0.0, 3.0, 29.0, 31.0, 500.0)) for kind in KINDS}
        since: list[float] = []

        async def wait(kind: str, since_s: float) -> None:
            since.append(since_s)
            await asyncio.sleep(ends_s[kind])

        informers: list[Any] = [
            SimpleNamespace(
                kind=SimpleNamespace(name=kind),
                wait_until_fresh=lambda since_s, kind=kind: wait(kind, since_s),
            )
            for kind in KINDS
        ]
        began_s, since_s = self._clock.monotonic_s(), rng.random()
        with logged(informer_health) as log:
            await wait_until_fresh(informers, since_s)
        lasted_s = self._clock.monotonic_s() - began_s
        stale = sorted(kind for kind, end_s in ends_s.items() if end_s > FRESH_S)
        due_s = FRESH_S if stale else max(ends_s.values())
        text = "scheduling starts with kinds that may be stale"
        expected = [(logging.WARNING, text, {"kinds": stale})] if stale else []
        real = log.lines, since, abs(lasted_s - due_s) < ROUNDING_S
        if real != (expected, [since_s] * len(KINDS), True):
            self.problems.append(f"fresh after {lasted_s} s, not {due_s} s: {log.lines} {since}")

    # -- background work --------------------------------------------------------------------------

    async def _check_background(self) -> None:
        """Compares when the coroutine of a plugin begins: again five seconds after its end."""
        rng, real, expected = self._rng, list[float](), list[float]()
        lasts_s = [rng.choice((0.0, 2.0, 40.0)) for _ in range(5)]
        ends = [rng.choice(("returns", "raises", "cancels")) for _ in range(5)]
        began_s, count = self._clock.monotonic_s(), itertools.count()

        async def background() -> None:
            real.append(self._clock.monotonic_s() - began_s)
            if (number := next(count)) >= len(ends):
                await asyncio.sleep(1e6)
            await asyncio.sleep(lasts_s[number])
            if ends[number] == "raises":
                raise ValueError("no")
            if ends[number] == "cancels":
                raise asyncio.CancelledError

        texts = {
            "raises": "background of a plugin failed",
            "cancels": "background of a plugin was cancelled",
        }
        lines = [
            (logging.ERROR, texts[end], {"plugin": "Slow"}) for end in ends if end != "returns"
        ]
        with logged(plugin_tasks) as log:
            plugin = SimpleNamespace(name="Slow", background=background)
            running = asyncio.create_task(run_background(plugin, asyncio.sleep))
            await asyncio.sleep(1000.0)
            if running.done():
                self.problems.append("background work has ended")
            running.cancel()
            await asyncio.wait({running})
        due_s = 0.0
        for last_s in (*lasts_s, 0.0):
            expected.append(due_s)
            due_s += last_s + PAUSE_S
        is_late = any(
            abs(at_s - due_s) > ROUNDING_S for at_s, due_s in zip(real, expected, strict=False)
        )
        if len(real) != len(expected) or is_late or log.lines != lines:
            self.problems.append(f"background work at {real}, not {expected}: {log.lines}")
        if not running.cancelled():
            self.problems.append("background work cannot be cancelled")

    async def _check_heap(self) -> None:
        """Compares when the heap is trimmed: every minute, if that is possible."""
        trims = list[float]()
        before, began_s = heap_trim.trim_function, self._clock.monotonic_s()
        can_trim = self._rng.random() < 0.5
        is_function = callable(before())
        trim = (lambda: trims.append(self._clock.monotonic_s() - began_s)) if can_trim else None
        vars(heap_trim)["trim_function"] = lambda: trim
        try:
            running = asyncio.create_task(heap_trim.keep_heap_trimmed(asyncio.sleep))
            await asyncio.sleep(3.5 * TRIM_S)
            running.cancel()
        finally:
            vars(heap_trim)["trim_function"] = before
        expected = [TRIM_S * number for number in (1, 2, 3)] if can_trim else []
        if [round(at_s, 6) for at_s in trims] != expected or not is_function:
            self.problems.append(f"the heap is trimmed at {trims}, not {expected}")

    # -- pods -------------------------------------------------------------------------------------

    def _check_observers(self) -> None:
        """Compares what each observer of a group is called with, and what is logged."""
        rng, calls = self._rng, list[tuple[Any, ...]]()
        methods = ("moved", "attempted", "preempts", "waits", "allowed", "bound", "failed")

        def noting(number: int) -> Observer:
            noting: Any = Observer()
            for method in methods:
                call = lambda *args, method=method: calls.append((number, method, *args))  # noqa: E731
                setattr(noting, method, call)
            return noting  # type: ignore[no-any-return]

        group: Any = ObserverGroup(noting(0), LoggingObserver(), Observer(), noting(1))
        level = rng.choice((logging.DEBUG, logging.INFO))
        entry = SimpleNamespace(pod=SimpleNamespace(key="shop/web"))
        rejections = (
            Reject("Insufficient cpu"),
            Diagnosis(node_count=0),
            Diagnosis(node_count=3),
            Unreachable("away"),
        )
        victims = SimpleNamespace(node_name="a")
        for _ in range(12):
            method, why = rng.choice(methods), rng.choice(rejections)
            args = {
                "moved": ("queue", "why"),
                "attempted": ("attempt", "result"),
                "preempts": (victims,),
                "waits": ("a", "waiting"),
                "allowed": ("a",),
                "bound": ("a",),
                "failed": (why,),
            }[method]
            calls.clear()
            with logged(observer, level=level) as log:
                getattr(group, method)(entry, *args)
            if calls != [(0, method, entry, *args), (1, method, entry, *args)]:
                self.problems.append(f"{method} calls {calls}")
            expected = _line(method, why) if level == logging.DEBUG else []
            if log.lines != expected:
                self.problems.append(f"{method} logs {log.lines}, not {expected}")


class SimpleNamespaceWithHash(SimpleNamespace):
    """A namespace that can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _line(method: str, why: Any) -> list[Line]:
    fields: dict[str, Any] = {"pod": "shop/web", "v": 2}
    if method == "bound":
        text = "Successfully bound pod to node"
        fields["node"] = "a"
    elif method == "preempts":
        text = "the target node for the preemption is determined"
        fields["node"] = "a"
    elif method != "failed" or isinstance(why, SchedulerError):
        return []
    elif isinstance(why, Diagnosis) and why.node_count == 0:
        text = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
    else:
        text, fields["err"] = "Unable to schedule pod; no fit; waiting", why.message
    return [(logging.DEBUG, text, fields)]


def _state(failing: list[Any]) -> str:
    return "paused" if all(informer.has_synced for informer in failing) else "not started"


def run_health(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: something is logged, or not, against the reference.
    """
    check_run(HealthRun, seed)
