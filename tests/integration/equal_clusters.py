"""Two equal real clusters, one with kube-scheduler and one with mooring."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.testing.controlplane import ControlPlane
from tests.integration.schedulers import run, scheduling, transport_to

#: One node after the other, and all of them: then nothing is left to chance.
PLAIN = {"parallelism": 1, "percentageOfNodesToScore": 100}

Result = TypeVar("Result")


def on_both(play: Callable[[Client], Awaitable[Result]], **options: Any) -> tuple[Result, Result]:
    """Plays the same on both clusters; returns the results, that of kube-scheduler first.

    Args:
        play: Gets a client that is an administrator.
        options: Of the control planes.
    """
    results: list[Result] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(_play_on(plane, play, with_mooring=False))
            ours = tasks.create_task(_play_on(bare, play, with_mooring=True))
        results.extend([theirs.result(), ours.result()])

    with ExitStack() as stack:
        plane, bare = (
            stack.enter_context(
                ControlPlane(
                    scheduler=has_scheduler,
                    controller_manager=True,
                    scheduler_configuration=PLAIN,
                    **options,
                )
            )
            for has_scheduler in (True, False)
        )
        run(both)
    theirs, ours = results
    return theirs, ours


async def _play_on(
    plane: ControlPlane, play: Callable[[Client], Awaitable[Result]], *, with_mooring: bool
) -> Result:
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        client = Client(transport, rng=seeded_random(3))
        if not with_mooring:
            return await play(client)
        own = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
        async with transport_to(own) as way, scheduling(way):
            return await play(client)
    finally:
        await transport.close()
