"""``mooring simulate``: schedules pending pods offline, on virtual time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from mooring import __version__
from mooring.cli.inputs import Live, for_plugins, print_note, read_live
from mooring.cli.options import (
    devices_option,
    feature_gates_option,
    file_option,
    output_option,
    stages_option,
    workload_options,
)
from mooring.cli.outputs import json_text
from mooring.clock import Clock, SystemClock
from mooring.config import load, to_document
from mooring.recordings.format import RecordingWriter
from mooring.simulation.answers import (
    NAMED,
    Progress,
    count,
    csv_text,
    document_of,
    named_pods,
)
from mooring.simulation.engine.recorder import StepRecorder
from mooring.simulation.engine.workload_controllers import CRON_RUNS
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.inputs.gated_kinds import gated_kinds
from mooring.simulation.inputs.missing_objects import missing_objects, notes_of
from mooring.simulation.inputs.plugin_kinds import generic_kinds
from mooring.simulation.inputs.workloads import with_replicas
from mooring.simulation.progress import PlainView, Silent, View, live_view
from mooring.simulation.report import (
    OutcomeCounts,
    Section,
    Summary,
    plain_text,
    print_tables,
    summarize,
)
from mooring.simulation.run import ORDERS, Simulation, SimulationOptions, SimulationRun
from mooring.simulation.simulate import node_order, peak_rss_bytes, recording_header
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload, read_workload

if TYPE_CHECKING:
    from mooring.config import KubeSchedulerConfiguration

#: Every minute for a day.
CRON_RUNS_MAX: Final = 1440


class ScaleParameter(click.ParamType[tuple[str, int]]):
    """A workload and its replicas: KIND/NAME=REPLICAS."""

    name = "KIND/[NAMESPACE/]NAME=REPLICAS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Returns name and replicas."""
        name, _, replicas = str(value).rpartition("=")
        if not name or not (replicas.isascii() and replicas.isdigit()):
            self.fail(f"{value!r} is not {self.name}", param, ctx)
        return name, int(replicas)


#: Options that go with a scenario; the others are said in its file.
_OF_SCENARIOS: Final = frozenset(
    {
        *("scenario", "config_file", "plugins", "seed", "output", "out", "table_format", "report"),
        "stages",
    }
)
_ONLY_OF_SCENARIOS: Final = frozenset({"out", "report", "stages", "table_format"})


class SimulateCommand(click.Command):
    """Runs a scenario if one is given, else schedules the pending pods of files."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        values = ctx.params
        scenario, out = values.pop("scenario"), values.pop("out")
        report, stages = values.pop("report"), values.pop("stages")
        table_format = values.pop("table_format")
        chosen = [
            param
            for param in self.params
            if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        ]
        if scenario is None:
            for param in chosen:
                if param.name in _ONLY_OF_SCENARIOS:
                    raise click.UsageError(f"{param.opts[0]} needs a scenario", ctx)
            return super().invoke(ctx)
        # Imported here: a simulation without time needs none of it.
        from mooring.cli.scenario import run_scenario
        from mooring.objects.files.paths import Text
        from mooring.scenario.read import check_holds_scenario

        check_holds_scenario(Text(scenario))
        for param in chosen:
            if param.name not in _OF_SCENARIOS:
                problem = f"{param.opts[0]} does not go with a scenario, whose file says it"
                raise click.UsageError(problem, ctx)
        if values["output"] not in ("table", "json"):
            raise click.UsageError(f"-o {values['output']} does not go with a scenario: --out", ctx)
        return run_scenario(
            scenario,
            seed=values["seed"] if any(param.name == "seed" for param in chosen) else None,
            config_file=values["config_file"],
            plugins=values["plugins"],
            stages=stages,
            out=out,
            table_format=table_format,
            report=report,
            output=values["output"],
        )


@click.command("simulate", cls=SimulateCommand)
@click.argument("scenario", required=False, type=click.Path())
@workload_options
@devices_option
@feature_gates_option
@file_option("--kubeconfig", help="Read the objects of this live cluster instead of --cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option(
    "--scale",
    type=ScaleParameter(),
    multiple=True,
    help="Give a workload other replicas; may be given several times. "
    "Example: --scale deployment/shop/web=10.",
)
@click.option(
    "--cron-runs",
    type=click.IntRange(min=0, max=CRON_RUNS_MAX),
    default=CRON_RUNS,
    show_default=True,
    help="For how many instants of its schedule each CronJob creates a Job.",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default=ORDERS[0],
    show_default=True,
    help="In which order pods arrive: by priority and file, or at random, by --seed.",
)
@file_option(
    "--save", metavar="RECORDING", help="Save every decision to this file; .gz = compressed."
)
@stages_option
@file_option("--out", help="Folder for the tables of a scenario; it is created.")
@file_option("--report", help="HTML file with plots and tables of a scenario's results.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(("csv", "arrow", "parquet")),
    default="csv",
    show_default=True,
    help="Format of these tables; all but csv need pyarrow.",
)
@output_option(
    "table",
    "wide",
    "json",
    "csv",
    help="wide: names every pod. json: the summary and every pod. csv: a line for each pod.",
)
def command(
    cluster: tuple[str, ...],
    pods: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    devices_file: str | None,
    gates: dict[str, bool],
    kubeconfig: str | None,
    context: str | None,
    scale: tuple[tuple[str, int], ...],
    cron_runs: int,
    order: str,
    save: str | None,
    output: str,
) -> None:
    """Schedule pending pods offline, and report placements, refusals, evictions and utilization.

    With a SCENARIO file, pods come, run and leave over time; see `mooring scenario`. Without:

    Time is virtual: a pod that waits for its victims to leave is bound when their grace period has
    passed. Default input: the openb trace, 1 213 nodes and 8 152 pods of a real GPU cluster.
    """
    config = load(config_file) if config_file else None
    if kubeconfig is None:
        workload = read_workload(cluster, pods, skip_validation=skip_validation)
    elif cluster:
        raise click.UsageError("--kubeconfig cannot be combined with --cluster")
    else:
        kinds = (*generic_kinds(config, plugins), *gated_kinds(gates))
        live = Live("simulate", kubeconfig, context, kinds)
        workload = read_live(live, pods, skip_validation=skip_validation)
    workload = with_replicas(workload, scale)
    workload = with_controller_results(_with_devices(workload, devices_file))
    workload = for_plugins(workload, config, plugins, command="simulate", gates=gates)
    for note in notes_of(missing_objects(workload)):
        print_note("simulate", note)
    utilization, counts, clock = Utilization(workload.objects), OutcomeCounts(), SystemClock()
    progress = Progress(counts, utilization)
    options = SimulationOptions(
        config=config,
        plugins=plugins,
        seed=seed,
        order=order,
        with_scores=output != "table",
        on_change=progress.on_change,
        on_result=progress.on_result,
        gates=gates,
        cron_runs=cron_runs,
    )
    with ExitStack() as stack:
        if save:
            writer = stack.enter_context(_writer(save, workload, seed, config))
            options = options._replace(recorder=StepRecorder(writer))
        run = SimulationRun(workload, options)
        view = _view(output, workload.expected_pods, counts, utilization, clock)
        progress.view = stack.enter_context(view)
        started_s = clock.monotonic_s()
        simulation = run.run()
        duration_s = clock.monotonic_s() - started_s
    count(simulation, counts)
    summary = summarize(
        workload.name, utilization, counts, duration_s=duration_s, peak_rss_bytes=peak_rss_bytes()
    )
    _print_simulation(summary, simulation, output)


def _with_devices(workload: Workload, file: str | None) -> Workload:
    """Returns a workload with the devices of a file; None = as it is."""
    if file is None:
        return workload
    # Imported here: it needs the API server's validation, and the trace does not.
    from mooring.simulation.device_file import read_device_file, with_devices

    return with_devices(workload, read_device_file(file))


def _print_simulation(summary: Summary, simulation: Simulation, output: str) -> None:
    """Prints the end of a simulation in the chosen format."""
    if output == "csv":
        click.echo(csv_text(simulation.results), nl=False)
    elif output == "json":
        click.echo(json_text(document_of(summary, simulation)))
    else:
        limit = None if output == "wide" else NAMED
        print_summary(summary, "table", named_pods(simulation, limit=limit))


def _writer(
    path: str, workload: Workload, seed: int, config: KubeSchedulerConfiguration | None
) -> RecordingWriter:
    header = recording_header(
        workload,
        upstream=f"mooring {__version__}",
        seed=seed,
        node_order=node_order(workload),
        config=None if config is None else to_document(config),
    )
    return RecordingWriter(path, header)


@contextmanager
def _view(
    output: str, total: int, counts: OutcomeCounts, utilization: Utilization, clock: Clock
) -> Iterator[View]:
    if output in ("json", "csv"):
        yield Silent()
    elif sys.stdout.isatty():
        from rich.console import Console

        with live_view(total, counts, utilization, clock=clock, console=Console()) as view:
            yield view
    else:
        yield PlainView(total, counts, utilization, clock=clock, out=sys.stdout)


def print_summary(summary: Summary, output: str, named: Sequence[Section] = ()) -> None:
    """Prints a summary as JSON, or as tables: for a terminal or as plain text."""
    if output == "json":
        click.echo(json_text(summary))
    elif sys.stdout.isatty():
        from rich.console import Console

        print_tables(summary, Console(), named)
    else:
        click.echo("\n" + plain_text(summary, named))
