"""``mooring ui``: serves the page over a recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from mooring.cli.event_loops import interruption, loop_factory_for
from mooring.cli.options import file_option
from mooring.clock import SystemClock
from mooring.errors import ConfigError

if TYPE_CHECKING:
    from mooring.ui.board import Board


@click.command("ui")
@file_option("--recording", required=True, help="The recording to play back.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; 0 = any free port."
)
def command(recording: str, port: int) -> None:
    """Show a recording in a browser: the cluster at each step, and why.

    It prints the address to open, and runs until it is interrupted. Nothing can be changed.
    """
    from mooring.ui.recorded.board import RecordingBoard

    board = RecordingBoard(recording, SystemClock())
    with asyncio.Runner(loop_factory=loop_factory_for(is_virtual=False)) as runner:
        runner.run(_serve(board, port))


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
