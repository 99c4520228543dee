"""Progress of a simulation: a live view on a terminal, plain lines elsewhere.

Both cost little: one addition and one read of the clock per pod, and the terminal is redrawn at
most five times a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final, Protocol

from mooring.clock import Clock
from mooring.objects.counts import counted
from mooring.simulation.report import OutcomeCounts, percent
from mooring.simulation.utilization import PODS, ResourceNames, Utilization

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

#: Minimum interval; one redraw takes 5 ms.
REDRAW_S: Final = 0.2
#: Number of progress lines without a terminal.
PLAIN_LINES: Final = 10


class View(Protocol):
    """Shows progress; called after every pod."""

    def step(self) -> None:
        """Records one more pod; the outcome counts and the utilization are up to date."""
        ...


class Silent:
    """Shows nothing: for JSON output and for programs."""

    def step(self) -> None:
        """Does nothing."""


class PlainView:
    """Prints a line at the start, about every tenth of the pods, and at the end."""

    def __init__(
        self,
        total: int,
        counts: OutcomeCounts,
        utilization: Utilization,
        *,
        clock: Clock,
        out: IO[str],
    ) -> None:
        """Shows ``total`` pods; the caller owns and updates ``counts`` and ``utilization``."""
        self._total = total
        self._counts = counts
        self._utilization = utilization
        self._clock = clock
        self._out = out
        self._started_s = clock.monotonic_s()
        self._every = max(1, -(-total // PLAIN_LINES))
        self._print(
            f"scheduling {counted(total, 'pod')} on {counted(len(utilization.nodes), 'node')}"
        )

    def step(self) -> None:
        """Prints a line after every tenth of the pods, and after the last."""
        done = self._counts.pods
        if done % self._every == 0 or done == self._total:
            self._print(
                progress_text(self._counts, self._total, self._utilization, self._elapsed_s())
            )

    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._started_s

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


class LiveView:
    """Draws a progress bar, the numbers, and a bar per resource; see ``live_view``."""

    def __init__(
        self,
        total: int,
        counts: OutcomeCounts,
        utilization: Utilization,
        *,
        clock: Clock,
        live: Live,
    ) -> None:
        """Shows ``total`` pods; the caller owns and updates ``counts`` and ``utilization``."""
        self._total = total
        self._counts = counts
        self._utilization = utilization
        self._clock = clock
        self._live = live
        self._started_s = self._drawn_s = clock.monotonic_s()

    def step(self) -> None:
        """Redraws if the last drawing is older than ``REDRAW_S``."""
        now_s = self._clock.monotonic_s()
        if now_s - self._drawn_s >= REDRAW_S:
            self._drawn_s = now_s
            self.draw(now_s)

    def draw(self, now_s: float) -> None:
        """Draws the current state."""
        self._live.update(self._picture(now_s - self._started_s), refresh=True)

    def _picture(self, elapsed_s: float) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bars = Table.grid(padding=(0, 1))
        bars.add_row(
            "pods",
            ProgressBar(max(self._total, 1), self._counts.pods, width=40),
            f"{self._counts.pods}/{self._total}",
        )
        for name, share in _shares(self._utilization):
            bars.add_row(name, ProgressBar(1.0, share, width=40), percent(share))
        return Group(bars, _numbers(self._counts, elapsed_s))


@contextmanager
def live_view(
    total: int, counts: OutcomeCounts, utilization: Utilization, *, clock: Clock, console: Console
) -> Iterator[LiveView]:
    """Yields a live view on a terminal; the last drawing stays visible."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        view = LiveView(total, counts, utilization, clock=clock, live=live)
        view.draw(clock.monotonic_s())
        yield view
        view.draw(clock.monotonic_s())


def progress_text(
    counts: OutcomeCounts, total: int, utilization: Utilization, elapsed_s: float
) -> str:
    """Returns the progress as one line."""
    shares = ", ".join(f"{name} {percent(share)}" for name, share in _shares(utilization))
    done = percent(counts.pods / total if total else 1.0)
    return f"{done:>6}  {_numbers(counts, elapsed_s)}" + (f", used: {shares}" if shares else "")


def _numbers(counts: OutcomeCounts, elapsed_s: float) -> str:
    refused = counts.pods - counts.bound
    speed = f", {counts.pods / elapsed_s:,.0f} pods/s" if elapsed_s > 0 else ""
    return f"{counts.bound} placed, {refused} refused{speed}"


def _shares(utilization: Utilization) -> Iterator[tuple[str, float]]:
    """Yields the short name and the used share of each resource."""
    names = ResourceNames(utilization.allocatable)
    for name, amount in utilization.allocatable.items():
        if amount and name != PODS:
            yield names.short(name), utilization.requested.get(name, 0) / amount
