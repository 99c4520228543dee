"""Scripted plugins for tests of a running scheduler."""

from __future__ import annotations

from typing import Any

from mooring.framework.status import Skip
from tests.helpers.running_scheduler import Life


class ReservePlugin:
    """Records Reserve and Unreserve; ``answer`` is the result of Reserve."""

    name = "ReservePlugin"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.calls: list[str] = []

    def reserve(self, cycle: Any, node_name: str) -> Any:
        self.calls.append(f"reserve {cycle.pod.metadata.name}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def unreserve(self, cycle: Any, node_name: str) -> None:
        self.calls.append(f"unreserve {cycle.pod.metadata.name}")

    def events(self) -> list[Any]:
        return []


class Permits:
    """Permit returns or raises ``answer``."""

    name = "Permits"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def permit(self, cycle: Any, node_name: str) -> Any:
        answer = self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def events(self) -> list[Any]:
        return []


class Prepares:
    """PreBind runs the next of ``steps``."""

    name = "Prepares"

    def __init__(self, *steps: Any, in_flight: Any = None) -> None:
        self.steps = list(steps)
        self.in_flight = in_flight
        self.done: list[str] = []

    def pre_bind_pre_flight(self, cycle: Any, node_name: str) -> Any:
        return self.in_flight

    async def pre_bind(self, cycle: Any, node_name: str) -> Any:
        self.done.append(cycle.pod.metadata.name)
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, BaseException):
            raise step
        return await step() if callable(step) else step


class Binds:
    """Bind returns or raises the next of ``answers``; Skip without any."""

    name = "Binds"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def bind(self, cycle: Any, node_name: str) -> Any:
        answer = self.answers.pop(0) if self.answers else Skip.SKIP
        if isinstance(answer, BaseException):
            raise answer
        return answer


def held(life: Life, name: str) -> Any:
    """Returns the pod's wait in Permit."""
    waiting = life.service.handle.waiting
    return next((pod for pod in waiting if pod.pod.metadata.name == name), None)


async def nominated(life: Life, name: str) -> str:
    return str((await life.raw(name))["status"].get("nominatedNodeName", ""))
