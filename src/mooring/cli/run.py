"""``mooring run``: schedules the pods of a real cluster until it is interrupted."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from mooring.cli.options import file_option, log_level, plugins_option
from mooring.clock import SystemClock, seeded_random
from mooring.config import default_configuration, load

if TYPE_CHECKING:
    from mooring.client.transport.kubeconfig import Access
    from mooring.config import KubeSchedulerConfiguration


@click.command("run")
@file_option(
    "--kubeconfig",
    help="Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the service account of this "
    "pod.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@file_option("--config", help="KubeSchedulerConfiguration file.")
@plugins_option(help="Additional plugin for every profile; may be given several times.")
@log_level
def command(
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    log_level: str,
) -> None:
    """Schedule the pods of a cluster.

    Only pods whose schedulerName is that of a profile are scheduled. On SIGINT or SIGTERM,
    bindings in progress are finished before the command exits.
    """
    from mooring.client.transport.kubeconfig import find_access
    from mooring.event_loop import fresh_seed, loop_factory
    from mooring.log import configure

    configure(log_level.upper())
    configuration = load(config) if config is not None else default_configuration()
    path = kubeconfig or configuration.client_connection.kubeconfig or None
    access = find_access(path, context=context, environment=os.environ)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(access, configuration, plugins, fresh_seed()))


async def _run(
    access: Access, config: KubeSchedulerConfiguration, plugins: tuple[str, ...], seed: int
) -> None:
    from mooring.client import Client, no_fence
    from mooring.client.transport.auth import connect
    from mooring.scheduler.leader_election import make_elector
    from mooring.scheduler.service import Service, ServiceOptions
    from mooring.watchdog import Watchdog

    clock, rng = SystemClock(), seeded_random(seed)
    transport = connect(access, clock=clock, environment=os.environ)
    try:
        elector = make_elector(transport, config, clock=clock, rng=rng)
        fence = elector.fence if elector is not None else no_fence
        service = Service(
            Client(transport, rng=rng, fence=fence),
            config,
            clock=clock,
            rng=rng,
            options=ServiceOptions(plugins=plugins, instance=os.uname().nodename, elector=elector),
        )
        plugins_of_all = [
            plugin for profile in service.profiles.values() for plugin in profile.all_plugins()
        ]
        watchdog = Watchdog(lambda: plugins_of_all, clock=clock)
        watchdog.handle_signals(service.stop)
        names = ", ".join(service.profiles)
        click.echo(f"mooring run: scheduling for {names} on {access.server}", err=True)
        with watchdog.watch():
            await service.run()
    finally:
        await transport.close()
