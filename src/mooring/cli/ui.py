"""``mooring ui``: serves the page over a recording, results, or a cluster elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mooring.cli.event_loops import interruption, loop_factory_for
from mooring.cli.options import file_option
from mooring.clock import SystemClock, seeded_random
from mooring.errors import ConfigError

if TYPE_CHECKING:
    from mooring.ui.board import Board
    from mooring.ui.watched_cluster import WatchedClusterBoard

#: The objects of a cluster must be listed within this time.
LIST_S_MAX: Final = 60.0


class _Source(NamedTuple):
    kubeconfig: str
    context: str | None
    scheduler: str | None


@click.command("ui")
@file_option("--recording", help="The recording to play back.")
@click.option(
    "--result",
    metavar="DIR",
    type=click.Path(),
    help="The results to play back: what `mooring simulate SCENARIO --out DIR` has written.",
)
@file_option("--kubeconfig", help="The cluster to follow; nothing is written to it.")
@click.option("--context", metavar="NAME", help="Context of --kubeconfig.")
@click.option(
    "--scheduler",
    metavar="URL",
    help="Ask the mooring run at this address, with the identity of --kubeconfig. "
    "Default: one on port 10259 of this machine, if it answers.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; 0 = any free port."
)
def command(
    recording: str | None,
    result: str | None,
    kubeconfig: str | None,
    context: str | None,
    scheduler: str | None,
    port: int,
) -> None:
    """Show a recording, results of a scenario, or a cluster in a browser, read-only.

    It prints the address to open, and runs until it is interrupted.
    """
    if sum(source is not None for source in (recording, result, kubeconfig)) != 1:
        raise click.UsageError("needs one of --recording, --result and --kubeconfig")
    if kubeconfig is None and (context or scheduler):
        raise click.UsageError("--context and --scheduler need --kubeconfig")
    if scheduler is not None and not scheduler.startswith("https://"):
        text = f"must begin with https://, got {scheduler!r}"
        raise click.BadParameter(text, param_hint="--scheduler")
    if recording is not None:
        from mooring.ui.recorded.board import RecordingBoard

        _run(_serve(RecordingBoard(recording, SystemClock()), port))
    elif result is not None:
        from mooring.ui.results.board import ResultBoard

        _run(_serve(ResultBoard(result, SystemClock()), port))
    elif kubeconfig is not None:
        _run(_follow(_Source(kubeconfig, context, scheduler), port))


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine to its end; an error of a task is raised alone."""
    with asyncio.Runner(loop_factory=loop_factory_for(is_virtual=False)) as runner:
        try:
            runner.run(work)
        except BaseExceptionGroup as group:
            from mooring.errors import first_error

            raise first_error(group) from None


async def _follow(source: _Source, port: int) -> None:
    """Serves the page of a cluster until the process is interrupted.

    Raises:
        ConfigError: the cluster cannot be listed, or the port is in use.
    """
    from mooring.client import Client
    from mooring.client.transport.auth import connect
    from mooring.client.transport.kubeconfig import find_access
    from mooring.explain.remote import SchedulerAddress
    from mooring.ui.watched_cluster import RemoteCluster, WatchedClusterBoard

    clock, rng = SystemClock(), seeded_random(0)
    access = find_access(source.kubeconfig, context=source.context, environment=os.environ)
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        client = Client(transport, rng=rng)
        remote = RemoteCluster(client, access, SchedulerAddress(source.scheduler))
        board = WatchedClusterBoard(remote, clock, rng)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(board.run())
            await _listed(board, access.server)
            await _serve(board, port)
            following.cancel()
    finally:
        await transport.close()


async def _listed(board: WatchedClusterBoard, server: str) -> None:
    try:
        async with asyncio.timeout(LIST_S_MAX):
            await board.wait_until_synced()
    except TimeoutError:
        problem = f"nodes and pods cannot be listed: {board.last_error or 'no answer'}"
        raise ConfigError(problem, path=server) from None


async def _serve(board: Board, port: int) -> None:
    """Serves a page until the process is interrupted.

    Raises:
        ConfigError: the port is in use.
    """
    from mooring.ui.server import PageServer

    server, stopped = PageServer(board), interruption()
    try:
        await server.start(port)
    except OSError as error:
        raise ConfigError(error.strerror or str(error), path=f"--port {port}") from error
    try:
        click.echo(f"page: {server.guard.address}")
        await stopped.wait()
    finally:
        await server.stop()
