"""The events of a scenario, in order, and a way to wait for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.clock import Clock
from mooring.errors import InvariantViolation
from mooring.learn.observer import EVENTS
from mooring.objects import Pod
from mooring.state import PodInfo


class Line(NamedTuple):
    """An event of a pod.

    Attributes:
        time_s: Seconds since the start of the scenario.
        pod: "namespace/name".
        what: One of ``EVENTS``.
        node: The node's name; "" if the event has no node.
        detail: A reason or a score; may be "".
    """

    time_s: float
    pod: str
    what: str
    node: str
    detail: str


class EventLog:
    """Records events and forwards them.

    Args:
        clock: The scenario's clock.
        on_line: Called with every event.
    """

    def __init__(self, clock: Clock, on_line: Callable[[Line], None] = lambda _: None) -> None:
        self.lines: list[Line] = []
        self._clock = clock
        self._on_line = on_line
        self._started_s = clock.monotonic_s()
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Sets the start of the scenario to the current time."""
        self._started_s = self._clock.monotonic_s()

    def time_s(self) -> float:
        """Returns the seconds since the start of the scenario."""
        return self._clock.monotonic_s() - self._started_s

    def emit(self, what: str, pod: Pod | PodInfo, node: str = "", detail: str = "") -> None:
        """Records an event; this is the ``EventSink`` of the scheduler."""
        if what not in EVENTS:
            raise InvariantViolation(f"unknown event {what!r}")
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        line = Line(self.time_s(), key, what, node, detail)
        self.lines.append(line)
        self._on_line(line)
        self._changed.set()

    def last(self, pod: str, *whats: str) -> Line | None:
        """Returns the pod's latest event, or its latest one of ``whats``."""
        for line in reversed(self.lines):
            if line.pod == pod and (not whats or line.what in whats):
                return line
        return None

    def node_of(self, pod: str) -> str:
        """Returns the node that the pod is bound to; "" if it is not."""
        line = self.last(pod, "bound")
        return line.node if line is not None else ""

    async def wait_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Waits until a condition holds. Returns False on timeout."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True


class JsonLines:
    """Writes each event as a JSON object; a pod's scores become a detail of its next event."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._scores: dict[str, list[str]] = {}

    def __call__(self, line: Line) -> None:
        """Writes one event; buffers a score until the pod's next event."""
        if line.what == "scored":
            self._scores.setdefault(line.pod, []).append(f"{line.node} {line.detail}")
            return
        scores = self._scores.pop(line.pod, None)
        if scores:
            text = f"scores: {', '.join(scores)}"
            line = line._replace(detail=f"{line.detail}; {text}" if line.detail else text)
        line = line._replace(time_s=round(line.time_s, 6))
        self._write(msgspec.json.encode(line._asdict()).decode())
