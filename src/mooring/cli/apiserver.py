"""``mooring apiserver``: a Kubernetes API server in memory, for learning and for tests."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.event_loops import interruption
from mooring.cli.kubeconfig_out import (
    OTHER_FILE,
    kubeconfig_out,
    kubeconfig_path,
    listening,
    write_kubeconfig,
)
from mooring.cli.options import feature_gates_option
from mooring.clock import SystemClock, seeded_random
from mooring.config.durations import parse_duration_s
from mooring.errors import ConfigError
from mooring.garbage import short_collections

if TYPE_CHECKING:
    from mooring.apiserver import ApiServer
    from mooring.apiserver.persistence import SnapshotFile

#: Where kube-apiserver listens.
PORT = 6443
KUBECONFIG = "apiserver.kubeconfig"
#: At most this much is lost in a crash. A normal exit saves everything.
SAVE_EVERY_S = 30.0


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    try:
        seconds = parse_duration_s(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"must be greater than 0, got {value}")
    return seconds


def _not_empty(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Returns the name of a file; an empty one would stand for the current folder."""
    del context, parameter
    if value == Path():
        raise click.BadParameter("must name a file, got ''")
    return value


@click.command("apiserver")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on 127.0.0.1; 0 = any free port.",
)
@kubeconfig_out(KUBECONFIG)
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_not_empty,
    metavar="FILE",
    help="Load all objects from FILE if it exists, and save them to it.",
)
@click.option(
    "--instant-deletion",
    is_flag=True,
    help="Remove deleted pods at once, without waiting for their grace period.",
)
@click.option(
    "--event-ttl",
    metavar="DURATION",
    default="1h0m0s",
    show_default=True,
    callback=_seconds,
    help="Remove Events so long after their last write.",
)
@feature_gates_option
def command(
    port: int,
    kubeconfig: Path | None,
    data: Path | None,
    instant_deletion: bool,
    event_ttl: float,
    gates: dict[str, bool],
) -> None:
    """Run a Kubernetes API server in memory until it is interrupted.

    kubectl, kube-scheduler and other clients can use it. No kubelet runs the pods.
    """
    from mooring.apiserver import ApiServer
    from mooring.apiserver.http_server.health_probes import health_probes
    from mooring.apiserver.persistence import SnapshotFile
    from mooring.event_loop import fresh_seed, loop_factory
    from mooring.objects.kinds import GATED_KINDS

    if unused := sorted(gates.keys() - GATED_KINDS.values()):
        note = f"feature gates without effect on the API server: {', '.join(unused)}"
        click.echo(f"mooring apiserver: note: {note}", err=True)
    api = ApiServer(
        SystemClock(),
        seeded_random(fresh_seed()),
        instant_deletion=instant_deletion,
        with_taint_rules=gates.get(GATED_KINDS["DeviceTaintRule"], False),
        event_ttl_s=event_ttl,
        health_checks=health_probes(),
    )
    snapshot_file = None
    if data is not None:
        snapshot_file = SnapshotFile(api, data)
        _check_other_file(snapshot_file, kubeconfig)
    with nullcontext() if snapshot_file is None else snapshot_file.locked():
        with short_collections(SystemClock().monotonic_s):
            if snapshot_file is not None:
                snapshot_file.load()
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(_serve(api, snapshot_file, port, kubeconfig))
        if snapshot_file is not None:
            snapshot_file.save()
            click.echo(f"mooring apiserver: saved to {data}", err=True)


def _check_other_file(snapshot_file: SnapshotFile, kubeconfig: Path | None) -> None:
    """Raises a ConfigError if the kubeconfig would replace the objects that were saved."""
    target = snapshot_file.target
    if os.path.realpath(kubeconfig_path(kubeconfig, KUBECONFIG)) == str(target):
        problem = f"the data file cannot be the kubeconfig as well; {OTHER_FILE}"
        raise ConfigError(problem, file=str(target))


async def _serve(
    api: ApiServer, snapshot_file: SnapshotFile | None, port: int, kubeconfig: Path | None
) -> None:
    from mooring.apiserver import serve

    stopped = interruption()
    if snapshot_file is not None:
        # Before clients read a version: only if there is a file the next start skips versions.
        await _try_to_save(snapshot_file)
    async with listening(serve(api, port=port), port) as server:
        export = write_kubeconfig(kubeconfig, KUBECONFIG, server.kubeconfig())
        print(f"mooring apiserver: listening on {server.url}")
        print(export, flush=True)
        await _wait_until_stopped(stopped, snapshot_file)


async def _wait_until_stopped(stopped: asyncio.Event, snapshot_file: SnapshotFile | None) -> None:
    """Waits for the signal, and saves every ``SAVE_EVERY_S``."""
    while not stopped.is_set():
        try:
            async with asyncio.timeout(SAVE_EVERY_S):
                await stopped.wait()
        except TimeoutError:
            if snapshot_file is not None:
                await _try_to_save(snapshot_file)


async def _try_to_save(snapshot_file: SnapshotFile) -> None:
    """Saves; if that fails, the server goes on, and retries at the next save."""
    try:
        await snapshot_file.save_async()
    except ConfigError as error:
        retry = f"the latest changes are in memory only, next try in {SAVE_EVERY_S:g} s"
        click.echo(f"mooring apiserver: cannot save to {error}; {retry}", err=True)
