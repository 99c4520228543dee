"""``mooring scenario``: checks and shows scenario files; ``mooring simulate SCENARIO`` runs one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from mooring.cli import EXIT_DONE, EXIT_USAGE
from mooring.cli.inputs import print_note
from mooring.cli.options import stages_option
from mooring.cli.outputs import json_text
from mooring.clock import SystemClock
from mooring.errors import ConfigError
from mooring.files import write_text

if TYPE_CHECKING:
    from mooring.scenario.results import Result
    from mooring.scenario.run import ScenarioRun
    from mooring.scenario.scenario import Scenario

#: Exit code of a run whose expectations do not hold.
EXPECTATION_FAILED: Final = 1
#: Seconds between two updates of the live view.
_VIEW_S: Final = 0.1


@click.group("scenario")
def command() -> None:
    """Check and show scenario files.

    A scenario says what arrives, runs, leaves and fails over time; `mooring simulate SCENARIO` runs
    it.
    """


@command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="SCENARIO...")
def check(files: tuple[str, ...]) -> int:
    """Check scenario files, with all objects, traces and configurations that they name.

    Files of KWOK's Stage documents are checked, too. A file with errors does not end the check.
    """
    from mooring.scenario.read import read_scenario
    from mooring.scenario.stages.reading import are_stages, read_stages

    code = EXIT_DONE
    for file in files:
        try:
            is_stage = are_stages(file)
            notes = (
                read_stages([file]).notes_of_simulation if is_stage else read_scenario(file).notes
            )
        except ConfigError as error:
            click.echo(f"mooring scenario: {error.located(file=file)}", err=True)
            code = EXIT_USAGE
            continue
        for note in notes:
            print_note("scenario check", note)
        click.echo(f"{file}: ok")
    return code


@command.command("show")
@click.argument("file", metavar="SCENARIO")
@click.option("--seed", type=int, help="Seed of all chance; default: the scenario's.")
@stages_option
def show(file: str, seed: int | None, stages: tuple[str, ...]) -> None:
    """Show what a scenario has, and what arrives when."""
    from mooring.scenario.read import read_scenario
    from mooring.scenario.show import shown

    scenario = read_scenario(file, seed=seed, stages=stages)
    for note in scenario.notes:
        print_note("scenario show", note)
    click.echo(shown(scenario))


@command.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from mooring.scenario.schema import schema

    click.echo(json.dumps(schema(), indent=2))


def run_scenario(
    file: str,
    *,
    seed: int | None,
    config_file: str | None,
    plugins: Sequence[str],
    stages: Sequence[str],
    out: str | None,
    table_format: str,
    report: str | None,
    output: str,
) -> int:
    """Runs a scenario, prints its results, and returns 1 if an expectation does not hold."""
    from mooring.config import load
    from mooring.scenario.read import read_scenario
    from mooring.scenario.results import write_results
    from mooring.scenario.text import check_text, result_text

    scenario = read_scenario(file, seed=seed, stages=stages)
    for note in scenario.notes:
        print_note("simulate", note)
    if config_file is not None:
        scenario = replace(scenario, config=load(config_file))
    scenario = replace(scenario, plugins=(*scenario.plugins, *plugins))
    result = run_withscenario_view(scenario, is_shown=output != "json" and sys.stdout.isatty())
    if out is not None:
        write_results(result, out, table_format=table_format)
    if report is not None:
        # Imported here: it carries a library of charts.
        from mooring.experiments.report import result_report

        write_text(report, result_report(result))
    if output == "json":
        click.echo(json_text(result.document()))
    else:
        click.echo(result_text(result))
        if out is not None:
            click.echo(f"tables in {out}")
        if report is not None:
            click.echo(f"report in {report}")
    for expectation, value in result.checks:
        if not expectation.holds(value):
            click.echo(check_text(expectation, value), err=True)
    return 0 if result.holds else EXPECTATION_FAILED


def run_withscenario_view(scenario: Scenario, *, is_shown: bool) -> Result:
    """Runs a scenario; on a terminal with a line that tells how far it is."""
    from mooring.scenario.hooks import RunHooks
    from mooring.scenario.run import ScenarioRun

    with scenario_view(scenario, is_shown=is_shown) as connect:
        run = ScenarioRun(scenario, RunHooks(on_instant=connect.on_instant))
        connect.run = run
        return run.run()


class View:
    """A line with virtual time and counts.

    Args:
        update: Shows a text.
        end_s: The end of the run; None = open.
    """

    def __init__(self, update: Callable[[str], None] | None, end_s: float | None) -> None:
        self.run: ScenarioRun | None = None
        self._update = update
        self._end_s = end_s
        self._clock = SystemClock()
        self._next_s = 0.0

    @property
    def on_instant(self) -> Callable[[float], None] | None:
        """Called with virtual seconds; None = nothing is shown."""
        return None if self._update is None else self._on_instant

    def _on_instant(self, now_s: float) -> None:
        from mooring.config.durations import duration_text

        if self._clock.monotonic_s() < self._next_s or self.run is None or self._update is None:
            return
        self._next_s = self._clock.monotonic_s() + _VIEW_S
        usage = self.run.usage
        share = "" if self._end_s is None else f" ({now_s / self._end_s:.0%})"
        self._update(
            f"{duration_text(float(round(now_s)))}{share}: {len(self.run.history.pods)} pods came,"
            f" {usage.n_bound} run, {usage.n_waiting} wait, {usage.n_nodes} nodes"
        )


@contextmanager
def scenario_view(scenario: Scenario, *, is_shown: bool) -> Iterator[View]:
    """Gives a view of a run; it is shown during the block."""
    if not is_shown:
        yield View(None, scenario.end_s)
        return
    from rich.console import Console

    with Console().status("starting") as status:
        yield View(status.update, scenario.end_s)
