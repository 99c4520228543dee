"""Scripted plugins, and drivers that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.clock import VirtualClock, seeded_random
from mooring.framework import Cycle
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.state.audit import audit

#: Calls: (plugin, extension point, pod).
Calls = list[tuple[str, str, str]]

#: The points that are coroutines.
WAITING = ("pre_bind", "bind")


class Scripted:
    """A plugin with prepared results for each point, which records every call.

    A result is a value, an exception to raise, or a function of the cycle.
    """

    def __init__(self, name: str, calls: Calls, **answers: Any) -> None:
        self.name = name
        self.calls = calls
        self.answers = answers
        for point in answers:
            setattr(self, point, self._later(point) if point in WAITING else self._now(point))

    def _answer(self, point: str, cycle: Cycle) -> Any:
        self.calls.append((self.name, point, cycle.pod.metadata.name))
        answer = self.answers[point]
        if isinstance(answer, BaseException):
            raise answer
        return answer(cycle) if callable(answer) else answer

    def _now(self, point: str) -> Callable[..., Any]:
        def method(cycle: Cycle, node_name: str) -> Any:
            return self._answer(point, cycle)

        return method

    def _later(self, point: str) -> Callable[..., Any]:
        async def method(cycle: Cycle, node_name: str) -> Any:
            return self._answer(point, cycle)

        return method


def driver(objects: Iterable[Node | Pod], *plugins: Any, **more: Any) -> Driver:
    """Returns a driver over these objects with the default plugins and these."""
    return Driver(
        list(objects), plugins=plugins, rng=seeded_random(0), clock=VirtualClock(), **more
    )


def usage(driver: Driver, node_name: str) -> tuple[int, int]:
    """Returns (pods, millicores of cpu) of a node; columns and objects must agree."""
    assert audit(driver.cache) == []
    nodes = driver.nodes
    row = nodes.row(node_name)
    cpu = nodes.resource_id("cpu")
    return int(nodes.pod_count[row]), int(nodes.requested[cpu, row]) if cpu >= 0 else 0
