"""What a person sees while pods are decided: a live view on a terminal, plain lines elsewhere.

Both cost little: a pod is one addition and one look at the clock, and the terminal is drawn at most
five times a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final, Protocol

from mooring.clock import Clock
from mooring.simulation.report import Tally, counted, percent
from mooring.simulation.utilization import PODS, Fill, short_name

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

#: Drawing takes 5 ms; a person cannot read faster anyway.
REDRAW_S: Final = 0.2
#: Lines between the first and the last where there is no terminal.
PLAIN_LINES: Final = 10


class View(Protocol):
    """Told after every pod."""

    def step(self) -> None:
        """One more pod is decided; the tally and the fill already know."""
        ...


class Silent:
    """Shows nothing: for JSON, and for callers that are programs."""

    def step(self) -> None:
        """Does nothing."""


class PlainView:
    """Prints a line at the start, about every tenth of the pods, and at the end."""

    def __init__(self, total: int, tally: Tally, fill: Fill, *, clock: Clock, out: IO[str]) -> None:
        """Shows ``total`` pods; ``tally`` and ``fill`` belong to the caller and changes."""
        self._total = total
        self._tally = tally
        self._fill = fill
        self._clock = clock
        self._out = out
        self._started_s = clock.monotonic_s()
        self._every = max(1, -(-total // PLAIN_LINES))
        self._print(f"scheduling {counted(total, 'pod')} on {counted(len(fill.nodes), 'node')}")

    def step(self) -> None:
        """Prints a line if a tenth is full or all is done."""
        done = self._tally.pods
        if done % self._every == 0 or done == self._total:
            self._print(progress_text(self._tally, self._total, self._fill, self._elapsed_s()))

    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._started_s

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


class LiveView:
    """Draws a progress bar, the numbers, and a bar for each resource; entered by ``live_view``."""

    def __init__(self, total: int, tally: Tally, fill: Fill, *, clock: Clock, live: Live) -> None:
        """Shows ``total`` pods; ``tally`` and ``fill`` belong to the caller and changes."""
        self._total = total
        self._tally = tally
        self._fill = fill
        self._clock = clock
        self._live = live
        self._started_s = self._drawn_s = clock.monotonic_s()

    def step(self) -> None:
        """Draws again if the last drawing is old enough."""
        now_s = self._clock.monotonic_s()
        if now_s - self._drawn_s >= REDRAW_S:
            self._drawn_s = now_s
            self.draw(now_s)

    def draw(self, now_s: float) -> None:
        """Draws what is true now."""
        self._live.update(self._picture(now_s - self._started_s), refresh=True)

    def _picture(self, elapsed_s: float) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bars = Table.grid(padding=(0, 1))
        bars.add_row(
            "pods",
            ProgressBar(max(self._total, 1), self._tally.pods, width=40),
            f"{self._tally.pods}/{self._total}",
        )
        for name, share in _shares(self._fill):
            bars.add_row(short_name(name), ProgressBar(1.0, share, width=40), percent(share))
        return Group(bars, _numbers(self._tally, elapsed_s))


@contextmanager
def live_view(
    total: int, tally: Tally, fill: Fill, *, clock: Clock, console: Console
) -> Iterator[LiveView]:
    """Returns a live view on a terminal; the last drawing stays there."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        view = LiveView(total, tally, fill, clock=clock, live=live)
        view.draw(clock.monotonic_s())
        yield view
        view.draw(clock.monotonic_s())


def progress_text(tally: Tally, total: int, fill: Fill, elapsed_s: float) -> str:
    """How far it is, in one line."""
    shares = ", ".join(f"{short_name(name)} {percent(share)}" for name, share in _shares(fill))
    done = percent(tally.pods / total if total else 1.0)
    return f"{done:>6}  {_numbers(tally, elapsed_s)}" + (f", fill: {shares}" if shares else "")


def _numbers(tally: Tally, elapsed_s: float) -> str:
    refused = tally.pods - tally.bound
    speed = f", {tally.pods / elapsed_s:,.0f} pods/s" if elapsed_s > 0 else ""
    return f"{tally.bound} placed, {refused} refused{speed}"


def _shares(fill: Fill) -> Iterator[tuple[str, float]]:
    for name, amount in fill.allocatable.items():
        if amount and name != PODS:
            yield name, fill.requested.get(name, 0) / amount
