"""A scheduler process that is killed again and again: no pod is lost, none is bound twice.

``python -m bench kills --count 1000``: the API server is a process of its own and stays. Pods are
created all the time in a cluster that is nearly full, and the oldest bound ones are deleted.
``mooring run`` is killed by SIGKILL at a drawn moment, while it starts, lists, or binds, and is
started again. The last one is left alone; afterwards a watch must have seen each pod bound once, to
one node, and no node with more pods than it can have.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Final

from bench.machine import machine
from bench.soak import api_server
from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.clock import SystemClock, seeded_random
from mooring.event_loop import loop_factory
from tests.integration.failover_load import Load
from tests.integration.processes import Program, mooring

#: Every third process is killed at any moment from its start on, the others after some bindings.
EARLY_EVERY: Final = 3
EARLY_S_MAX: Final = 2.0
BINDINGS_MAX: Final = 12
#: After the last of these bindings: within the next one, or between two.
LATE_S_MAX: Final = 0.05
STEP_S: Final = 0.002
#: Pods that wait for the next scheduler: more come than the short-lived ones can bind.
WAITING_MAX: Final = 100
#: A scheduler that starts has bound something by then.
BOUND_S_MAX: Final = 60.0
PROGRESS_EVERY: Final = 50


def main(arguments: list[str]) -> int:
    """Runs the kills; raises AssertionError if a pod was lost or bound twice."""
    parser = argparse.ArgumentParser(prog="python -m bench kills", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", choices=("embedded", "real"), default="embedded")
    options = parser.parse_args(arguments)
    print(machine())
    with (
        tempfile.TemporaryDirectory(prefix="mooring-kills-") as folder,
        api_server(options.server, Path(folder)) as kubeconfig,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        print(runner.run(kill_often(kubeconfig, Path(folder), options.count, Random(options.seed))))
    return 0


async def kill_often(kubeconfig: Path, folder: Path, count: int, rng: Random) -> str:
    """Starts and kills schedulers.

    Args:
        kubeconfig: Of the administrator.
        folder: For the output of the schedulers.
        count: The number of kills.
        rng: Draws the moments.

    Returns:
        What happened, in a line.

    Raises:
        AssertionError: A pod was lost, or bound twice; or a scheduler bound nothing.
    """
    clock = SystemClock()
    access = find_access(str(kubeconfig), environment=os.environ)
    transport = connect(access, clock=clock, environment=os.environ)
    load = Load(Client(transport, rng=seeded_random(3)), waiting_max=WAITING_MAX)
    begun_s = time.monotonic()
    with ExitStack() as stack:
        async with load.running():
            for number in range(1, count + 1):
                await _kill_once(number, load, kubeconfig, folder, rng)
            # The last one is left alone until all pods are bound.
            stack.enter_context(_scheduler(kubeconfig, folder))
    load.assert_sound()
    await transport.close()
    return (
        f"{count} kills in {time.monotonic() - begun_s:.0f} s: {len(load.created)} pods, "
        "each bound once, no node overcommitted"
    )


async def _kill_once(number: int, load: Load, kubeconfig: Path, folder: Path, rng: Random) -> None:
    with _scheduler(kubeconfig, folder) as program:
        await _wait(load, rng, is_early=number % EARLY_EVERY == 0)
        assert program.process.poll() is None, program.said()
        assert "Traceback" not in program.said(), program.said()
    if number % PROGRESS_EVERY == 0:
        print(f"{number} kills, {load.bound_count()} bindings", flush=True)


async def _wait(load: Load, rng: Random, *, is_early: bool) -> None:
    """Waits for the moment at which a scheduler is killed."""
    if is_early:
        await asyncio.sleep(rng.uniform(0.0, EARLY_S_MAX))
    else:
        await _bindings(load, rng.randint(1, BINDINGS_MAX))
        await asyncio.sleep(rng.uniform(0.0, LATE_S_MAX))


@contextmanager
def _scheduler(kubeconfig: Path, folder: Path) -> Iterator[Program]:
    """Runs a scheduler without leader election, which is killed at the end of the block."""
    flags = (f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    with mooring(folder, "run", *flags) as program:
        yield program


async def _bindings(load: Load, count: int) -> None:
    """Waits until so many more pods are bound."""
    enough = load.bound_count() + count
    async with asyncio.timeout(BOUND_S_MAX):
        while load.bound_count() < enough:  # noqa: ASYNC110 - the counter has no event
            await asyncio.sleep(STEP_S)
