"""What a person sees while a scheduler lives: who is where, how full it is, what was decided last.

On a terminal it is drawn five times a second; elsewhere lines tell what changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from mooring.clock import Clock
from mooring.devcluster.observer import Latest, Tracker
from mooring.queue import QueueName
from mooring.simulation.progress import REDRAW_S
from mooring.simulation.report import percent
from mooring.simulation.utilization import PODS, short_name

if TYPE_CHECKING:
    from rich.console import Console, Group

    from mooring.devcluster.cluster import World

#: Over how long "pods per second" is measured.
RATE_S: Final = 5.0
#: Lines about single pods, where there is no terminal, come at most so often.
LINES_EVERY_S: Final = 1.0
TEXT_WIDTH: Final = 100


class Situation(NamedTuple):
    """Where all pods are now."""

    bound: int
    pending: int
    refused: int
    used_nodes: int
    nodes: int
    pods_per_s: float

    def line(self) -> str:
        """In one line."""
        return (
            f"pods: {self.bound} bound, {self.pending} pending, {self.refused} refused"
            f"   nodes: {self.used_nodes} of {self.nodes} in use   {self.pods_per_s:,.0f} pods/s"
        )


class Watcher:
    """Looks at a world now and then.

    Args:
        world: The scheduler that is shown.
        tracker: What it has done.
        clock: To measure how fast it is.
    """

    def __init__(self, world: World, tracker: Tracker, *, clock: Clock) -> None:
        self.world = world
        self.tracker = tracker
        self._clock = clock
        self._seen: list[tuple[float, int]] = []

    def now(self) -> Situation:
        """Returns the situation; call it a few times a second for a steady rate."""
        counts = self.world.service.queue.counts()
        refused = counts[QueueName.UNSCHEDULABLE] + counts[QueueName.GATED]
        fill = self.tracker.fill
        return Situation(
            bound=len(self.world.service.cache.pods) - self.world.service.cache.assumed_count(),
            pending=sum(counts.values()) - refused + self.world.service.cache.assumed_count(),
            refused=refused,
            used_nodes=sum(bool(node.requested.get(PODS)) for node in fill.nodes.values()),
            nodes=len(fill.nodes),
            pods_per_s=self._rate(),
        )

    def _rate(self) -> float:
        now_s = self._clock.monotonic_s()
        self._seen.append((now_s, self.tracker.decisions))
        while self._seen[0][0] < now_s - RATE_S and len(self._seen) > 2:
            self._seen.pop(0)
        (then_s, then), (now_s, now) = self._seen[0], self._seen[-1]
        return (now - then) / (now_s - then_s) if now_s > then_s else 0.0


@asynccontextmanager
async def watched(
    watcher: Watcher,
    *,
    title: str,
    out: IO[str],
    console: Console | None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[None]:
    """Shows what happens for as long as the block lasts.

    Args:
        watcher: Says what there is to show.
        title: Stands above it: where the API server is.
        out: For lines, where there is no terminal.
        console: The terminal; None if there is none.
        sleep: Waits between two pictures.
    """
    if console is None:
        print(title, file=out, flush=True)
        show = _Lines(watcher, out)
        async with _repeating(show.step, LINES_EVERY_S, sleep):
            yield
        show.step()
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:

        def draw() -> None:
            live.update(picture(watcher, title), refresh=True)

        async with _repeating(draw, REDRAW_S, sleep):
            yield
        draw()


def picture(watcher: Watcher, title: str) -> Group:
    """Returns all of it, for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    situation, fill = watcher.now(), watcher.tracker.fill
    bars = Table.grid(padding=(0, 1))
    for name, amount in fill.allocatable.items():
        if amount and name != PODS:
            share = fill.requested.get(name, 0) / amount
            bars.add_row(short_name(name), ProgressBar(1.0, share, width=40), percent(share))
    decisions = Table.grid(padding=(0, 1))
    for latest in reversed(watcher.tracker.latest):
        style = "green" if latest.is_bound else "yellow"
        decisions.add_row(latest.pod, Text(_cut(latest.text), style=style))
    return Group(Text(title), Text(situation.line(), style="bold"), bars, decisions)


class _Lines:
    """Prints the situation when it has changed, and then what was decided since."""

    def __init__(self, watcher: Watcher, out: IO[str]) -> None:
        self._watcher = watcher
        self._out = out
        self._last: tuple[int, ...] = ()
        self._last_latest: Latest | None = None

    def step(self) -> None:
        situation = self._watcher.now()
        if situation[:3] == self._last:
            return
        self._last = situation[:3]
        latest = list(self._watcher.tracker.latest)
        if self._last_latest in latest:
            for each in latest[latest.index(self._last_latest) + 1 :]:
                print(f"  {each.pod}: {_cut(each.text)}", file=self._out)
        self._last_latest = latest[-1] if latest else None
        print(situation.line(), file=self._out, flush=True)


@asynccontextmanager
async def _repeating(
    step: Callable[[], None], every_s: float, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    async def again() -> None:
        while True:
            step()
            await sleep(every_s)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(again())
        try:
            yield
        finally:
            task.cancel()


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_WIDTH else text[: TEXT_WIDTH - 3] + "..."
