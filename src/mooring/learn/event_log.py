"""Everything that has happened since a scenario began, in order, and a way to wait for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.clock import Clock
from mooring.errors import InvariantViolation
from mooring.learn.observer import WORDS
from mooring.objects import Pod
from mooring.state import PodInfo


class Line(NamedTuple):
    """One thing that happened to a pod.

    Attributes:
        time_s: Seconds since the scenario began.
        pod: "namespace/name".
        what: One of ``WORDS``.
        node: Where; "" if nowhere in particular.
        detail: Why, or how well; "" if there is no more to say.
    """

    time_s: float
    pod: str
    what: str
    node: str
    detail: str


class Board:
    """Takes lines in, and passes each on.

    Args:
        clock: The scenario's.
        on_line: Called with every line.
    """

    def __init__(self, clock: Clock, on_line: Callable[[Line], None] = lambda _: None) -> None:
        self.lines: list[Line] = []
        self._clock = clock
        self._on_line = on_line
        self._started_s = clock.monotonic_s()
        self._changed = asyncio.Event()

    def start(self) -> None:
        """The scenario begins now."""
        self._started_s = self._clock.monotonic_s()

    def time_s(self) -> float:
        """Seconds since the scenario began."""
        return self._clock.monotonic_s() - self._started_s

    def tell(self, what: str, pod: Pod | PodInfo, node: str = "", detail: str = "") -> None:
        """Takes a line in; this is what a scheduler is given as ``Tell``."""
        if what not in WORDS:
            raise InvariantViolation(f"{what!r} is no word of the lessons")
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        line = Line(self.time_s(), key, what, node, detail)
        self.lines.append(line)
        self._on_line(line)
        self._changed.set()

    def last(self, pod: str, *whats: str) -> Line | None:
        """The newest line about a pod with one of these words; with any word if none is given."""
        for line in reversed(self.lines):
            if line.pod == pod and (not whats or line.what in whats):
                return line
        return None

    def node_of(self, pod: str) -> str:
        """Returns the node that the pod is bound to; "" if it is not."""
        line = self.last(pod, "bound")
        return line.node if line is not None else ""

    async def wait_until(self, is_so: Callable[[], bool], within_s: float) -> bool:
        """Waits for something to be so; whether it was in time."""
        try:
            async with asyncio.timeout(within_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return is_so()
        return True


class JsonLines:
    """Writes lines as JSON, one object each; a pod's scores are the detail of what follows."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._scores: dict[str, list[str]] = {}

    def __call__(self, line: Line) -> None:
        """Writes one line, or keeps its score for the next one."""
        if line.what == "scored":
            self._scores.setdefault(line.pod, []).append(f"{line.node} {line.detail}")
            return
        scores = self._scores.pop(line.pod, None)
        if scores:
            told = f"scores: {', '.join(scores)}"
            line = line._replace(detail=f"{line.detail}; {told}" if line.detail else told)
        line = line._replace(time_s=round(line.time_s, 6))
        self._write(msgspec.json.encode(line._asdict()).decode())
