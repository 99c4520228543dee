"""``mooring start --scenario``: a scenario in real time, times a speed, for kubectl to watch."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from click.core import ParameterSource

from mooring.cli.event_loops import interruption, loop_factory_for
from mooring.cli.inputs import print_note
from mooring.cli.kubeconfig_out import listening, write_kubeconfig
from mooring.cli.scenario import EXPECTATION_FAILED, scenario_view
from mooring.clock import SystemClock, seeded_random
from mooring.devcluster.pace import Pace, Stopped

if TYPE_CHECKING:
    from mooring.devcluster.mirror import Mirror
    from mooring.scenario.results import Result
    from mooring.scenario.run import ScenarioRun
    from mooring.scenario.scenario import Scenario

#: The options of ``start`` that a scenario has a use for.
_USED: Final = frozenset(
    {
        *("scenario", "speed", "port", "kubeconfig", "once", "config_file", "plugins", "seed"),
        "stages",
    }
)
READ_ONLY: Final = "this cluster shows a scenario: it can be read, and not written"


class Options(NamedTuple):
    """Options of the command.

    Attributes:
        file: The scenario.
        speed: Virtual seconds in a second.
        port: On 127.0.0.1; 0 = any free port.
        kubeconfig: The file that is written; None = the default.
        once: Whether to exit at the end of the scenario.
        config_file: A KubeSchedulerConfiguration; None = the scenario's own.
        plugins: Further plugins.
        stages: Files of stages.
        seed: Of all chance; None = the scenario's own.
    """

    file: str
    speed: float
    port: int
    kubeconfig: Path | None
    once: bool
    config_file: str | None
    plugins: tuple[str, ...]
    stages: tuple[str, ...]
    seed: int | None


def options_of(context: click.Context) -> Options:
    """Returns the options of the command line.

    Raises:
        UsageError: there is one that a scenario has no use for.
    """
    chosen = {
        parameter.name or "": parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    for name, option in chosen.items():
        if name not in _USED:
            raise click.UsageError(f"{option} cannot be combined with --scenario")
    values = {name: context.params[name] for name in _USED - {"scenario"}}
    values["seed"] = values["seed"] if "seed" in chosen else None
    return Options(context.params["scenario"], **values)


def start_scenario(context: click.Context, kubeconfig_name: str) -> int:
    """Runs a scenario while an API server shows it; returns 1 if an expectation does not hold."""
    from mooring.config import load
    from mooring.errors import first_error
    from mooring.log import configure
    from mooring.scenario.read import read_scenario

    options = options_of(context)
    configure("WARNING")
    scenario = read_scenario(options.file, seed=options.seed, stages=options.stages)
    for note in scenario.notes:
        print_note("start", note)
    if options.config_file is not None:
        scenario = replace(scenario, config=load(options.config_file))
    scenario = replace(scenario, plugins=(*scenario.plugins, *options.plugins))
    with asyncio.Runner(loop_factory=loop_factory_for(is_virtual=False)) as runner:
        try:
            result = runner.run(_show(scenario, options, kubeconfig_name))
        except BaseExceptionGroup as group:
            raise first_error(group) from None
    return EXPECTATION_FAILED if result is not None and not result.holds else 0


async def _show(scenario: Scenario, options: Options, kubeconfig_name: str) -> Result | None:
    """Serves the API while the scenario runs, and until it is stopped.

    Raises:
        ConfigError: the port is in use, or the kubeconfig cannot be written.
    """
    from mooring.apiserver import ApiServer, serve
    from mooring.apiserver.auth.authentication import ADMIN
    from mooring.client import Client, InProcessTransport
    from mooring.devcluster.mirror import Mirror
    from mooring.devcluster.read_only import ReadOnlyEndpoint
    from mooring.scenario.run import group_nodes

    clock, rng = SystemClock(), seeded_random(scenario.seed)
    api = ApiServer(clock, rng)
    transport = InProcessTransport(api.handle, headers=ADMIN.headers(), is_cooperative=True)
    mirror = Mirror(Client(transport, rng=rng))
    await mirror.create([*scenario.objects, *group_nodes(scenario)])
    interrupted = interruption()
    endpoint = ReadOnlyEndpoint(api, READ_ONLY)
    async with listening(serve(endpoint, port=options.port), options.port) as server:
        api.publish_authority(server.authority)
        export = write_kubeconfig(options.kubeconfig, kubeconfig_name, server.kubeconfig())
        click.echo(f"mooring start: {server.url}\n{export}")
        result = await _watched(scenario, options.speed, mirror, interrupted)
        if result is not None:
            _print(result, mirror)
        if result is not None and not options.once:
            click.echo("the scenario has ended: its cluster can be read until Ctrl-C")
            await interrupted.wait()
        return result


async def _watched(
    scenario: Scenario, speed: float, mirror: Mirror, interrupted: asyncio.Event
) -> Result | None:
    """Runs a scenario at a speed, and writes its changes; None = it was interrupted."""
    from mooring.devcluster.mirror import BACKLOG_MAX
    from mooring.scenario.hooks import RunHooks
    from mooring.scenario.run import ScenarioRun

    pace = Pace(speed, clock=SystemClock(), backlog=lambda: mirror.backlog, backlog_max=BACKLOG_MAX)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(mirror.run())
        with scenario_view(scenario, is_shown=sys.stdout.isatty()) as view:
            hooks = RunHooks(
                before_instant=pace.wait_until,
                on_instant=view.on_instant,
                on_change=mirror.on_change,
                on_running=mirror.on_running,
                on_workload=mirror.on_workload,
            )
            view.run = run = ScenarioRun(scenario, hooks)
            running = tasks.create_task(_run(run))
            stopping = tasks.create_task(interrupted.wait())
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            pace.stop()
            result = await running
        await mirror.flush()
        stopping.cancel()
        writing.cancel()
    return result


async def _run(run: ScenarioRun) -> Result | None:
    """Runs a scenario in a thread; None = it was stopped."""
    try:
        return await asyncio.to_thread(run.run)
    except Stopped:
        return None


def _print(result: Result, mirror: Mirror) -> None:
    from mooring.scenario.text import check_text, result_text

    click.echo(result_text(result))
    if mirror.n_refused:
        print_note("start", f"the API server refused {mirror.n_refused} writes; the first of them:")
        for problem in mirror.problems:
            print_note("start", problem)
    for expectation, value in result.checks:
        if not expectation.holds(value):
            click.echo(check_text(expectation, value), err=True)
