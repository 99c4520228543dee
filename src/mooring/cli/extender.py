"""``mooring extender serve``: serves mooring plugins as a scheduler extender webhook."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.event_loops import interruption
from mooring.cli.options import file_option, log_level, plugins_option
from mooring.clock import SystemClock, VirtualClock, seeded_random

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mooring.client import Client
    from mooring.clock import Clock, Rng
    from mooring.extender_server.options import ServeOptions
    from mooring.scheduler.plugin_handle import PluginHandle
    from mooring.simulation.offline import OfflineHandle
    from mooring.state.cache import Cache
    from mooring.state.listers import Listers

PORT = 8888


@click.group("extender")
def command() -> None:
    """Serve mooring plugins as a scheduler extender webhook."""


@command.command("serve")
@plugins_option(required=True, help="Filter or score plugin; may be given several times.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 = any free port.",
)
@file_option("--tls-cert-file", default="", help="Server certificate; enables HTTPS.")
@file_option("--tls-private-key-file", default="", help="Private key of the server certificate.")
@file_option(
    "--client-ca-file", default="", help="Require client certificates signed by this CA (mTLS)."
)
@file_option(
    "--token-file",
    default="",
    help="Require the token in this file: Authorization: Bearer TOKEN, or http://x:TOKEN@HOST.",
)
@file_option(
    "--kubeconfig",
    help="Watch this cluster, so that plugins see its pods and pods can be bound; "
    '"in-cluster" = service account of this pod.',
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for plugins.")
@log_level
def serve(
    plugins: tuple[str, ...],
    host: str,
    port: int,
    tls_cert_file: str,
    tls_private_key_file: str,
    client_ca_file: str,
    token_file: str,
    kubeconfig: str | None,
    seed: int,
    log_level: str,
) -> None:
    """Answer filter, prioritize, preempt and bind with plugins, until interrupted.

    Without --kubeconfig, plugins see the nodes of the request, without pods on them. With it pods
    can be bound, so --client-ca-file or --token-file is required, as it is for other addresses than
    loopback.
    """
    from mooring.event_loop import loop_factory
    from mooring.extender_server.options import ServeOptions
    from mooring.log import configure

    configure(log_level.upper())
    options = ServeOptions(
        host=host,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
        token_file=token_file,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(plugins, options, kubeconfig, seed))


async def _serve(
    specs: tuple[str, ...], options: ServeOptions, kubeconfig: str | None, seed: int
) -> None:
    from mooring.extender_server.http import serve as serve_extender
    from mooring.extender_server.plugin_extender import Extender
    from mooring.framework.runtime.registry import load_plugin
    from mooring.state.cache import Cache

    stopped = interruption()
    clock, rng, cache = SystemClock(), seeded_random(seed), Cache()
    async with AsyncExitStack() as stack:
        client = await _connected(stack, kubeconfig) if kubeconfig else None
        handle = _handle(cache, client, clock, rng)
        plugins = [load_plugin(spec, handle) for spec in specs]
        works, is_ready = _background_work(plugins, client, cache, handle.listers, clock, rng)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for work in works:
            stack.callback(tasks.create_task(work).cancel)
        extender = Extender(
            plugins,
            clock=clock,
            cluster=cache if client is not None else None,
            bind=client.bind if client is not None else None,
        )
        url = await stack.enter_async_context(
            serve_extender(extender, options, clock=clock, is_ready=is_ready)
        )
        names = ", ".join(plugin.name for plugin in plugins)
        click.echo(f"mooring extender: {names} on {url}", err=True)
        await stopped.wait()


def _background_work(
    plugins: list[Any],
    client: Client | None,
    cache: Cache,
    listers: Listers,
    clock: Clock,
    rng: Rng,
) -> tuple[list[Coroutine[Any, Any, None]], Callable[[], bool]]:
    """Returns the background coroutines, and a readiness check: True once caches have synced."""
    from mooring.extender_server.cluster_cache import ClusterCache
    from mooring.scheduler.plugin_tasks import run_background

    works = [
        run_background(plugin, asyncio.sleep) for plugin in plugins if hasattr(plugin, "background")
    ]
    if client is None:
        return works, lambda: True
    kinds = [kind for plugin in plugins for kind in getattr(plugin, "needs", ())]
    following = ClusterCache(client, kinds, clock=clock, rng=rng, cache=cache, listers=listers)
    return [following.run(), *works], lambda: following.has_synced


def _handle(
    cache: Cache, client: Client | None, clock: Clock, rng: Rng
) -> PluginHandle | OfflineHandle:
    """Returns the plugin handle: with a cluster a scheduler's, else an offline one in real time."""
    from mooring.scheduler.plugin_handle import PluginHandle
    from mooring.simulation.offline import OfflineHandle

    if client is not None:
        return PluginHandle(cache, client, clock=clock, rng=rng)
    return OfflineHandle(cache, _RealTime(), rng)


class _RealTime(VirtualClock):
    """The system time as a ``VirtualClock``, which the offline handle requires."""

    def __init__(self) -> None:
        super().__init__()
        self._real = SystemClock()

    def monotonic_s(self) -> float:
        """Returns the monotonic time of the system, in seconds."""
        return self._real.monotonic_s()


async def _connected(stack: AsyncExitStack, kubeconfig: str) -> Client:
    from mooring.client import Client
    from mooring.client.transport.auth import connect
    from mooring.client.transport.kubeconfig import find_access

    path: Any = None if kubeconfig == "in-cluster" else kubeconfig
    access = find_access(path, environment=os.environ)
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    stack.push_async_callback(transport.close)
    return Client(transport, rng=seeded_random(0))
