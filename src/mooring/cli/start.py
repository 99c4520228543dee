"""``mooring start``: runs an API server, a cluster and the scheduler in one process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mooring.cli.event_loops import interruption, loop_factory_for
from mooring.cli.inputs import Live, list_live, print_note
from mooring.cli.kubeconfig_out import kubeconfig_out, listening, write_kubeconfig
from mooring.cli.options import (
    devices_option,
    feature_gates_option,
    file_option,
    output_option,
    stages_option,
    workload_options,
)
from mooring.cli.start_page import PageSource, served_page
from mooring.clock import Clock, SystemClock, seeded_random
from mooring.config import load
from mooring.errors import ConfigError
from mooring.garbage import short_collections
from mooring.objects.counts import counted
from mooring.objects.files.paths import STANDARD_INPUT
from mooring.simulation.inputs.gated_kinds import gated_kinds

if TYPE_CHECKING:
    from mooring.client import Client
    from mooring.config import KubeSchedulerConfiguration
    from mooring.devcluster.cluster import InMemoryCluster
    from mooring.devcluster.observer import ProgressObserver
    from mooring.devcluster.seeding import Seed
    from mooring.objects.meta import KubernetesObject
    from mooring.scenario.actors.live_stages import LiveStages
    from mooring.scenario.stages.stage import Stage
    from mooring.simulation.device_file import DeviceFile
    from mooring.simulation.workload import Workload

KUBECONFIG = "start.kubeconfig"


class Options(NamedTuple):
    """Options of the command."""

    port: int
    kubeconfig: Path | None
    once: bool
    virtual: bool
    kubelets: bool
    controllers: bool
    begins_at_once: bool
    output: str
    devices: DeviceFile | None
    stages: Sequence[Stage]
    gates: dict[str, bool]
    page_port: int | None


@click.command("start")
@workload_options
@devices_option
@feature_gates_option
@file_option(
    "--scenario",
    help="Run a scenario in real time, times --speed, instead of --cluster; kubectl can watch it.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds of the scenario in a second.",
)
@stages_option
@file_option(
    "--kubeconfig",
    "live",
    help="Copy the objects of this live cluster instead of --cluster; nothing is written to it.",
)
@click.option("--context", metavar="NAME", help="Context of --kubeconfig.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; 0 = any free port."
)
@kubeconfig_out(KUBECONFIG)
@click.option(
    "--kubelets/--no-kubelets",
    default=None,
    help="Simulate kubelets: nodes are Ready, and bound pods become Running. "
    "Default: from when the pods of the files are scheduled; --kubelets: from the start.",
)
@click.option(
    "--controllers/--no-controllers",
    default=True,
    help="Run the controllers of workloads, such as Deployments. Default: they run.",
)
@click.option(
    "--once",
    is_flag=True,
    help="Exit when every pod is scheduled or unschedulable, and print a summary.",
)
@click.option("--virtual", is_flag=True, help="As --once, without a network and on virtual time.")
@click.option(
    "--page/--no-page", default=True, help="Serve a page that shows the cluster in a browser."
)
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page on 127.0.0.1; 0 = any free port.",
)
@output_option("table", "json")
def command(
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    devices_file: str | None,
    gates: dict[str, bool],
    scenario: str | None,
    speed: float,  # noqa: ARG001 - only with a scenario
    stages: tuple[str, ...],
    live: str | None,
    context: str | None,
    port: int,
    kubeconfig: Path | None,
    kubelets: bool | None,
    controllers: bool,
    once: bool,
    virtual: bool,
    page: bool,
    page_port: int,
    output: str,
) -> int:
    """Run an API server, a cluster and the scheduler in one process, for use with kubectl.

    Default input: the openb trace, 1 213 nodes and 8 152 pods of a real GPU cluster.
    """
    if scenario is not None:
        from mooring.cli.start_scenario import start_scenario

        return start_scenario(click.get_current_context(), KUBECONFIG)
    if STANDARD_INPUT in (*cluster, *pods, *stages, devices_file):
        raise click.UsageError("standard input (-) is not supported: the files are read twice")
    _check_options(output, ends=once or virtual)
    _check_sources(live, context, cluster)
    from mooring.log import configure
    from mooring.simulation.controllers.objects import WORKLOAD_KINDS
    from mooring.simulation.device_file import read_device_file

    configure("WARNING")
    config = _config(config_file, is_virtual=virtual)
    source = Live("start", live, context, _more_kinds(config, plugins, gates)) if live else None
    workload, seeds = _input(source, cluster, pods, skip_validation=skip_validation)
    devices = read_device_file(devices_file) if devices_file else None
    seeds += _device_seeds(devices, workload)
    has_workloads = controllers and any(seed.kind in WORKLOAD_KINDS for seed in seeds)
    options = Options(
        port,
        kubeconfig,
        once=once or virtual,
        virtual=virtual,
        kubelets=kubelets is not False,
        controllers=controllers,
        begins_at_once=bool(kubelets) or has_workloads,
        output=output,
        devices=devices,
        stages=_stages(stages),
        gates=gates,
        page_port=page_port if page and not once else None,
    )
    _run(_start(workload, seeds, config, plugins, seed, options), is_virtual=virtual)
    return 0


def _config(file: str | None, *, is_virtual: bool) -> KubeSchedulerConfiguration | None:
    """Returns the configuration; without extenders on virtual time: they answer in real time."""
    from mooring.simulation.inputs.unsupported import notes, without_extenders

    config = load(file) if file else None
    for text in notes(config, {}, is_offline=is_virtual):
        print_note("start", text)
    return without_extenders(config) if is_virtual and config is not None else config


def _more_kinds(
    config: KubeSchedulerConfiguration | None, plugins: tuple[str, ...], gates: dict[str, bool]
) -> tuple[str, ...]:
    """Returns the kinds that are copied from a live cluster only for plugins or gates."""
    from mooring.simulation.inputs.plugin_kinds import generic_kinds

    return (*generic_kinds(config, plugins), *gated_kinds(gates))


def _check_options(output: str, *, ends: bool) -> None:
    """Checks options that exclude each other.

    Raises:
        UsageError: they do.
    """
    if output == "json" and not ends:
        raise click.UsageError("-o json requires --once: only a run that ends has a summary")


def _check_sources(live: str | None, context: str | None, cluster: tuple[str, ...]) -> None:
    """Checks where the cluster comes from.

    Raises:
        UsageError: there are two sources.
    """
    if live is None and context is not None:
        raise click.UsageError("--context needs --kubeconfig")
    if live is not None and cluster:
        raise click.UsageError("--kubeconfig cannot be combined with --cluster")


def _run(work: Coroutine[Any, Any, None], *, is_virtual: bool) -> None:
    """Runs a coroutine to its end; an error of a task is raised alone."""
    loops = loop_factory_for(is_virtual=is_virtual)
    with short_collections(SystemClock().monotonic_s), asyncio.Runner(loop_factory=loops) as runner:
        try:
            runner.run(work)
        except BaseExceptionGroup as group:
            from mooring.errors import first_error

            raise first_error(group) from None


def _stages(files: Sequence[str]) -> Sequence[Stage]:
    """Reads files of stages; none without files."""
    if not files:
        return ()
    from mooring.scenario.stages.reading import read_stages

    read = read_stages(files)
    for note in read.notes:
        print_note("start", note)
    return read.stages


def _device_seeds(devices: DeviceFile | None, workload: Workload) -> list[Seed]:
    """Returns the objects of a device file; none without a file."""
    if devices is None:
        return []
    from mooring.devcluster.seeding import seeds_of_objects
    from mooring.objects.node import Node
    from mooring.simulation.device_file import device_objects

    nodes = [obj for obj in workload.objects if isinstance(obj, Node)]
    return seeds_of_objects(device_objects(devices, nodes))


def _input(
    source: Live | None,
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    *,
    skip_validation: bool,
) -> tuple[Workload, list[Seed]]:
    """Reads files and lists, or a live cluster."""
    from mooring.simulation.workload import read_workload

    if source is not None:
        return _live_input(source, pods, skip_validation=skip_validation)
    workload = read_workload(cluster, pods, skip_validation=skip_validation)
    return workload, _seeds(workload, cluster, pods)


def _live_input(
    source: Live, pods: tuple[str, ...], *, skip_validation: bool
) -> tuple[Workload, list[Seed]]:
    """Lists the objects of a live cluster, and reads pods; notes what is not listed.

    Raises:
        ConfigError: the cluster cannot be read, or a file.
    """
    from mooring.devcluster.seeding import Seed
    from mooring.objects.codec.decode import convert
    from mooring.objects.kinds import KINDS
    from mooring.simulation.inputs.live_cluster import list_raw
    from mooring.simulation.workload import read_sources, workload_of

    access, live = list_live(source, list_raw)
    objects = [convert(raw, raw["kind"]) for raw in live.objects if raw["kind"] in KINDS]
    added = read_sources(pods, skip_validation=skip_validation)
    workload = workload_of(", ".join([access.server, *pods]), [*objects, *added])
    return workload, [*(Seed(raw) for raw in live.objects), *_seeds_of((), pods)]


def _seeds(workload: Workload, cluster: tuple[str, ...], pods: tuple[str, ...]) -> list[Seed]:
    """Returns the objects of files as written there, and those of the trace as generated."""
    from mooring.devcluster.seeding import seeds_of_objects
    from mooring.traces.openb import OPENB_PREFIX

    if all(source.startswith(OPENB_PREFIX) for source in (*cluster, *pods)):
        return seeds_of_objects([*workload.objects, *workload.pending])
    return _seeds_of(cluster or (f"{OPENB_PREFIX}gpu",), pods)


def _seeds_of(cluster: Sequence[str], pods: Sequence[str]) -> list[Seed]:
    """Returns the objects of files and lists.

    By source, not by name: the file reader names objects that have only a generateName.
    """
    from mooring.devcluster.seeding import seeds_of_files, seeds_of_objects
    from mooring.traces.openb import OPENB_PREFIX, read_nodes, read_pods

    generated: list[KubernetesObject] = []
    for sources, read in ((cluster, read_nodes), (pods, read_pods)):
        lists = [name for name in sources if name.startswith(OPENB_PREFIX)]
        for name in lists:
            generated += read(name.removeprefix(OPENB_PREFIX))
    files = [name for name in (*cluster, *pods) if not name.startswith(OPENB_PREFIX)]
    return (seeds_of_files(files) if files else []) + seeds_of_objects(generated)


async def _start(
    workload: Workload,
    seeds: list[Seed],
    config: KubeSchedulerConfiguration | None,
    plugins: tuple[str, ...],
    seed: int,
    options: Options,
) -> None:
    from mooring.devcluster.cluster import InMemoryCluster
    from mooring.devcluster.observer import ProgressObserver
    from mooring.scheduler.observer import ObserverGroup
    from mooring.scheduler.service import ServiceOptions
    from mooring.simulation.utilization import Utilization
    from mooring.ui.attempts import AttemptLog
    from mooring.ui.cluster_copy import SchedulerSettings
    from mooring.virtual_loop import LoopClock

    clock: Clock = LoopClock(asyncio.get_running_loop()) if options.virtual else SystemClock()
    progress = ProgressObserver(Utilization(workload.objects), clock)
    settings = SchedulerSettings(config, plugins, seed, options.gates)
    page = PageSource(options.page_port, AttemptLog(clock), settings)
    observer = progress if page.port is None else ObserverGroup(progress, page.log)
    cluster = InMemoryCluster(
        config,
        clock=clock,
        rng=seeded_random(seed),
        options=ServiceOptions(plugins=plugins, observer=observer, feature_gates=options.gates),
        with_kubelets=options.kubelets,
        stages=_staging(options.stages, clock, seed),
        with_volumes=True,
        with_claims=True,
        with_controllers=options.controllers,
        with_taint_rules="DeviceTaintRule" in gated_kinds(options.gates),
        waits_to_begin=True,
        devices=options.devices,
    )
    pending = await cluster.seed(seeds)
    if skipped := cluster.seeder.skipped:
        counts = ", ".join(counted(count, kind) for kind, count in sorted(skipped.items()))
        print_note("start", f"ignored, since the API server does not serve these kinds: {counts}")
    if options.once:
        await _check_served(cluster)
    async with _served(cluster, options, clock, page) as title, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        await cluster.service.wait_until_synced()
        started_s, wall = clock.monotonic_s(), SystemClock()
        wall_started_s = wall.monotonic_s()
        async with _live_view(cluster, progress, title, options, clock):
            if options.once:
                await _submit_and_settle(cluster, pending, options)
            else:
                submitting = tasks.create_task(_submit_and_settle(cluster, pending, options))
                await interruption().wait()
                submitting.cancel()
        duration_s = max(0.0, progress.last_s - started_s)
        if options.virtual:  # virtual seconds do not measure speed
            duration_s = wall.monotonic_s() - wall_started_s
        cluster.service.stop()
        await running
    _print(workload.name, progress, duration_s, options)


def _staging(
    stages: Sequence[Stage], clock: Clock, seed: int
) -> Callable[[Client], LiveStages] | None:
    """Returns what makes the part that leads objects through stages; None without stages."""
    if not stages:
        return None
    from mooring.chance import Streams
    from mooring.scenario.actors.live_stages import LiveStages

    rng, streams = seeded_random(seed), Streams(seed)
    return lambda client: LiveStages(client, stages, clock=clock, rng=rng, streams=streams)


async def _check_served(cluster: InMemoryCluster) -> None:
    """Checks that the API server has the resources that plugins list.

    Without --once the scheduler waits for them, as kube-scheduler does.

    Raises:
        ConfigError: it does not serve one of them.
    """
    from mooring.errors import NotFound

    for informer in cluster.service.informers.values():
        if informer.kind.is_generic:
            try:
                await cluster.client.list(informer.kind)
            except NotFound as error:
                problem = "is listed by a plugin, but not served; add its CustomResourceDefinition"
                raise ConfigError(problem, path="--cluster", value=informer.kind.name) from error


async def _submit_and_settle(
    cluster: InMemoryCluster, pending: list[Seed], options: Options
) -> None:
    """Creates the pods of the files; kubelets and controllers that are not needed begin after it.

    Controllers begin when all pods exist, so that they adopt them and create no others.
    """
    await cluster.submit(pending)
    if options.begins_at_once:
        cluster.begin()
    await cluster.settle()
    if not options.once:
        cluster.begin()


@asynccontextmanager
async def _served(
    cluster: InMemoryCluster, options: Options, clock: Clock, page: PageSource
) -> AsyncIterator[str]:
    """Serves the API on a socket; yields the text that says where."""
    if options.virtual:
        yield "mooring start: virtual time, no network"
        return
    from mooring.apiserver import serve
    from mooring.explain.endpoint import ExplainEndpoint

    endpoint = ExplainEndpoint(cluster.api, lambda: cluster.service, clock)
    async with listening(serve(endpoint, port=options.port), options.port) as server:
        cluster.api.publish_authority(server.authority)
        export = write_kubeconfig(options.kubeconfig, KUBECONFIG, server.kubeconfig())
        async with served_page(cluster, clock, page, export) as lines:
            yield "\n".join([f"mooring start: {server.url}", export, *lines])


@asynccontextmanager
async def _live_view(
    cluster: InMemoryCluster, progress: ProgressObserver, title: str, options: Options, clock: Clock
) -> AsyncIterator[None]:
    from mooring.devcluster.view import Sampler, watched

    if options.output == "json":
        yield
        return
    console = None
    if sys.stdout.isatty():
        from rich.console import Console

        console = Console()
    sampler = Sampler(cluster, progress, clock=clock)
    async with watched(sampler, title=title, out=sys.stdout, console=console):
        yield


def _print(name: str, progress: ProgressObserver, duration_s: float, options: Options) -> None:
    from mooring.cli.simulate import print_summary
    from mooring.simulation.report import summarize
    from mooring.simulation.simulate import peak_rss_bytes

    summary = summarize(
        name,
        progress.utilization,
        progress.outcome_counts(),
        duration_s=duration_s,
        peak_rss_bytes=peak_rss_bytes(),
    )
    print_summary(summary, options.output)
