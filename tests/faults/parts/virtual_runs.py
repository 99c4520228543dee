"""Runs a seed of a part on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from mooring.clock import seeded_random
from tests.helpers.virtual_loop import run_virtually

#: The order of tasks is drawn apart from what a run draws.
_ORDER: int = 1_000_000


class PartRun(Protocol):
    """One run of a part.

    Attributes:
        problems: Differences to the model.
    """

    problems: list[str]

    async def run(self) -> Any:
        """Runs to the end."""
        ...


def check_run(part: Callable[[int], PartRun], seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the run has a problem.
    """

    async def run() -> list[str]:
        one_run = part(seed)
        await one_run.run()
        return one_run.problems

    problems = run_virtually(run(), seeded_random(seed + _ORDER))
    assert not problems, problems[0]


def check_run_of_tasks(part: Callable[[int, asyncio.TaskGroup], PartRun], seed: int) -> None:
    """Runs a seed of a part that starts tasks.

    Raises:
        AssertionError: the run has a problem.
    """

    async def run() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            one_run = part(seed, tasks)
            await one_run.run()
        return one_run.problems

    problems = run_virtually(run(), seeded_random(seed + _ORDER))
    assert not problems, problems[0]
