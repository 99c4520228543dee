"""Two equal real clusters, one with kube-scheduler and one with mooring."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
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


def on_both(
    play: Callable[[Client], Awaitable[Result]],
    gates: Mapping[str, bool] = MappingProxyType({}),
    **options: Any,
) -> tuple[Result, Result]:
    """Plays the same on both clusters; returns the results, that of kube-scheduler first.

    Args:
        play: Gets a client that is an administrator.
        gates: Feature gates of both schedulers, and of kube-apiserver.
        options: Of the control planes.
    """
    results: list[Result] = []

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(_play_on(plane, play))
            ours = tasks.create_task(_play_on(bare, play, gates))
        results.extend([theirs.result(), ours.result()])

    values = ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())
    flags = [f"--feature-gates={values}"] if gates else []
    options["apiserver_arguments"] = [*options.get("apiserver_arguments", ()), *flags]
    with ExitStack() as stack:
        plane, bare = (
            stack.enter_context(
                ControlPlane(
                    scheduler=has_scheduler,
                    controller_manager=True,
                    scheduler_configuration=PLAIN,
                    scheduler_arguments=flags,
                    **options,
                )
            )
            for has_scheduler in (True, False)
        )
        run(both)
    theirs, ours = results
    return theirs, ours


async def _play_on(
    plane: ControlPlane,
    play: Callable[[Client], Awaitable[Result]],
    mooring_gates: Mapping[str, bool] | None = None,
) -> Result:
    """Plays; with gates, mooring is the scheduler."""
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        client = Client(transport, rng=seeded_random(3))
        if mooring_gates is None:
            return await play(client)
        own = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
        async with transport_to(own) as way, scheduling(way, feature_gates=mooring_gates):
            return await play(client)
    finally:
        await transport.close()
