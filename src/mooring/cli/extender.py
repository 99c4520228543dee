"""``mooring extender serve``: plugins of mooring for any kube-scheduler, over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from mooring.clock import SystemClock, VirtualClock, seeded_random

if TYPE_CHECKING:
    from mooring.client import Client
    from mooring.serving.extender_http import ServeOptions

LEVELS = ("debug", "info", "warning", "error")
PORT = 8888


@click.group("extender")
def command() -> None:
    """Be a scheduler extender: a webhook that kube-scheduler asks."""


@command.command("serve")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    required=True,
    metavar="MODULE:ATTRIBUTE",
    help="What filters and scores; may be given several times.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="0 = any that is free.",
)
@click.option("--tls-cert-file", metavar="FILE", default="", help="Its certificate: HTTPS.")
@click.option("--tls-private-key-file", metavar="FILE", default="", help="The key of it.")
@click.option(
    "--client-ca-file",
    metavar="FILE",
    default="",
    help="Serve only clients with a certificate of this authority.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Follow this cluster, so that plugins see its pods, and pods can be bound; "
    '"in-cluster" = the service account of the pod that this runs in.',
)
@click.option("--seed", type=int, default=0, show_default=True, help="For plugins that play dice.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="What to write to stderr.",
)
def serve(
    plugins: tuple[str, ...],
    host: str,
    port: int,
    tls_cert_file: str,
    tls_private_key_file: str,
    client_ca_file: str,
    kubeconfig: str | None,
    seed: int,
    log_level: str,
) -> None:
    """Answer filter, prioritize, preempt and bind with plugins, until interrupted.

    Without --kubeconfig plugins see the nodes that are sent, and no pods on them.
    """
    from mooring.apiserver.loop import loop_factory
    from mooring.log import configure
    from mooring.serving.extender_http import ServeOptions

    configure(log_level.upper())
    options = ServeOptions(
        host=host,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(plugins, options, kubeconfig, seed))


async def _serve(
    specs: tuple[str, ...], options: ServeOptions, kubeconfig: str | None, seed: int
) -> None:
    from mooring.framework.registry import load_plugin
    from mooring.serving.extender import Extender
    from mooring.serving.extender_http import serve as serving
    from mooring.serving.following import Following
    from mooring.sim.offline import OfflineHandle
    from mooring.state import Cache

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clock, rng = SystemClock(), seeded_random(seed)
    async with AsyncExitStack() as stack:
        client = await _connected(stack, kubeconfig) if kubeconfig else None
        handle = OfflineHandle(Cache(), VirtualClock(), rng)
        plugins = [load_plugin(spec, handle) for spec in specs]
        following = None
        if client is not None:
            kinds = [kind for plugin in plugins for kind in getattr(plugin, "needs", ())]
            following = Following(client, kinds, clock=clock, rng=rng)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            work = tasks.create_task(following.run())
            stack.callback(work.cancel)
        extender = Extender(
            plugins,
            clock=clock,
            cluster=following.cache if following is not None else None,
            bind=client.bind if client is not None else None,
        )
        ready = (lambda: following.has_synced) if following is not None else (lambda: True)
        url = await stack.enter_async_context(
            serving(extender, options, clock=clock, is_ready=ready)
        )
        names = ", ".join(plugin.name for plugin in plugins)
        click.echo(f"mooring extender: {names} on {url}", err=True)
        await stopped.wait()


async def _connected(stack: AsyncExitStack, kubeconfig: str) -> Client:
    from mooring.client import Client
    from mooring.client.auth import connect
    from mooring.client.kubeconfig import find_access

    path: Any = None if kubeconfig == "in-cluster" else kubeconfig
    access = find_access(path, environment=os.environ)
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    stack.push_async_callback(transport.close)
    return Client(transport, rng=seeded_random(0))
