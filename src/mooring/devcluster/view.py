"""Live view of a running scheduler: pod counts, utilization, and the latest decisions.

On a terminal it is redrawn five times a second; elsewhere changes are printed as lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from mooring.clock import Clock
from mooring.devcluster.observer import LatestDecision, ProgressObserver
from mooring.queue import QueueName
from mooring.simulation.progress import REDRAW_S
from mooring.simulation.report import percent
from mooring.simulation.utilization import PODS, ResourceNames

if TYPE_CHECKING:
    from rich.console import Console, Group

    from mooring.devcluster.cluster import InMemoryCluster

#: Length of the window in which "pods per second" is measured.
RATE_S: Final = 5.0
#: Interval of the lines without a terminal.
LINES_EVERY_S: Final = 1.0
TEXT_WIDTH: Final = 100


class PodCounts(NamedTuple):
    """Current numbers of pods by state, and of nodes."""

    bound: int
    pending: int
    waiting: int
    refused: int
    used_nodes: int
    nodes: int
    pods_per_s: float

    def line(self) -> str:
        """Returns the counts as one line."""
        waiting = f"{self.waiting} waiting for victims, " if self.waiting else ""
        return (
            f"pods: {self.bound} bound, {self.pending} pending, {waiting}{self.refused} refused"
            f"   nodes: {self.used_nodes} of {self.nodes} in use   {self.pods_per_s:,.0f} pods/s"
        )


class Sampler:
    """Samples the state of a running cluster.

    Args:
        cluster: The cluster to show.
        progress: The observer of its scheduler.
        clock: For the scheduling rate.
    """

    def __init__(
        self, cluster: InMemoryCluster, progress: ProgressObserver, *, clock: Clock
    ) -> None:
        self.cluster = cluster
        self.progress = progress
        self._clock = clock
        self._samples: list[tuple[float, int]] = []

    def now(self) -> PodCounts:
        """Returns the current counts; call it a few times a second for a steady rate."""
        queue, cache = self.cluster.service.queue, self.cluster.service.cache
        counts = queue.counts()
        # A pod that waits in Permit is assumed and in flight: it counts once.
        is_bound_next = [
            queue.queue_of(uid) is not QueueName.IN_FLIGHT for uid in cache.assumed_uids()
        ]
        unschedulable = counts[QueueName.UNSCHEDULABLE] + counts[QueueName.GATED]
        waiting = min(self.progress.waiting_count(), unschedulable)
        fill = self.progress.utilization
        return PodCounts(
            bound=len(cache.pods) - cache.assumed_count(),
            pending=sum(counts.values()) - unschedulable + sum(is_bound_next),
            waiting=waiting,
            refused=unschedulable - waiting,
            used_nodes=sum(bool(node.requested.get(PODS)) for node in fill.nodes.values()),
            nodes=len(fill.nodes),
            pods_per_s=self._rate(),
        )

    def _rate(self) -> float:
        now_s = self._clock.monotonic_s()
        self._samples.append((now_s, self.progress.decisions))
        while self._samples[0][0] < now_s - RATE_S and len(self._samples) > 2:
            self._samples.pop(0)
        (then_s, then), (now_s, now) = self._samples[0], self._samples[-1]
        return (now - then) / (now_s - then_s) if now_s > then_s else 0.0


@asynccontextmanager
async def watched(
    sampler: Sampler,
    *,
    title: str,
    out: IO[str],
    console: Console | None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[None]:
    """Shows the live view until the block ends.

    Args:
        sampler: The source of the counts.
        title: The title line, with the API server's address.
        out: Output for lines without a terminal.
        console: The terminal, or None.
        sleep: Sleeps between two updates.
    """
    if console is None:
        print(title, file=out, flush=True)
        show = _Lines(sampler, out)
        async with _repeating(show.step, LINES_EVERY_S, sleep):
            yield
        show.step()
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:

        def draw() -> None:
            live.update(picture(sampler, title), refresh=True)

        async with _repeating(draw, REDRAW_S, sleep):
            yield
        draw()


def picture(sampler: Sampler, title: str) -> Group:
    """Returns the view for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    counts, fill = sampler.now(), sampler.progress.utilization
    bars = Table.grid(padding=(0, 1))
    names = ResourceNames(fill.allocatable)
    for name, amount in fill.allocatable.items():
        if amount and name != PODS:
            share = fill.requested.get(name, 0) / amount
            bars.add_row(names.short(name), ProgressBar(1.0, share, width=40), percent(share))
    decisions = Table.grid(padding=(0, 1))
    for latest in reversed(sampler.progress.latest):
        style = "green" if latest.is_bound else "yellow"
        decisions.add_row(latest.pod, Text(_cut(latest.text), style=style))
    return Group(Text(title), Text(counts.line(), style="bold"), bars, decisions)


class _Lines:
    """Prints the decisions since the last call and the counts, if the counts changed."""

    def __init__(self, sampler: Sampler, out: IO[str]) -> None:
        self._watcher = sampler
        self._out = out
        self._last_counts: tuple[int, ...] = ()
        self._last_decision: LatestDecision | None = None

    def step(self) -> None:
        counts = self._watcher.now()
        if counts[:3] == self._last_counts:
            return
        self._last_counts = counts[:3]
        latest = list(self._watcher.progress.latest)
        if self._last_decision in latest:
            for decision in latest[latest.index(self._last_decision) + 1 :]:
                print(f"  {decision.pod}: {_cut(decision.text)}", file=self._out)
        self._last_decision = latest[-1] if latest else None
        print(counts.line(), file=self._out, flush=True)


@asynccontextmanager
async def _repeating(
    step: Callable[[], None], every_s: float, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    async def repeat() -> None:
        while True:
            step()
            await sleep(every_s)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_WIDTH else text[: TEXT_WIDTH - 3] + "..."
