"""``mooring replay``: replays recordings and reports differences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import click
import msgspec

from mooring.cli.inputs import print_note
from mooring.cli.options import feature_gates_option, file_names, file_option, output_option
from mooring.config import DEFAULT_FILTER_ORDER, KubeSchedulerConfiguration
from mooring.errors import ConfigError
from mooring.recordings.difference import Difference
from mooring.recordings.format import RecordingReader
from mooring.recordings.moves import ComparedStep, Moves
from mooring.simulation.build import configuration_of, driver_of
from mooring.simulation.inputs.gated_kinds import ignored_kinds
from mooring.simulation.replay import ReplayedStep, replay
from mooring.simulation.unsupported import NO_EXTENDERS, notes
from mooring.simulation.weights import score_weights

EXIT_SAME: Final = 0
EXIT_DIFFERENT: Final = 1

OWN: Final = "own"
#: Further differences of a recording are counted, not printed: one cause can make thousands.
DIFFERENCES_SHOWN: Final = 100


@click.command("replay")
@click.argument(
    "recordings", nargs=-1, required=True, metavar="RECORDING...", shell_complete=file_names
)
@click.option(
    "--only-plugins",
    metavar="A,B|own",
    help="Compare only these plugins; own = all plugins that mooring has.",
)
@file_option(
    "--config", "config_file", help="KubeSchedulerConfiguration to use instead of the recorded one."
)
@feature_gates_option
@output_option("text", "json")
def command(
    recordings: tuple[str, ...],
    only_plugins: str | None,
    config_file: str | None,
    gates: dict[str, bool],
    output: str,
) -> int:
    """Replay each step of a recording on the recorded state and report differences.

    Each difference names step, pod, field, plugin and node. A recording of kube-scheduler is a test
    of mooring; another configuration shows what it would have decided, and begins with a summary:
    which pods go to other nodes, and why the first one does.

    Exit code: 0 no difference, 1 differences, 2 invalid input.
    """
    reports = []
    for file in recordings:
        report, moves = _replay(file, only_plugins, config_file, gates)
        if config_file is not None:
            report["summary"] = moves.as_dict()
        reports.append(report)
        if output == "text":
            click.echo("\n".join(_text(report, moves if config_file else None)))
    count = sum(report["difference_count"] for report in reports)
    if output == "json":
        click.echo(json.dumps({"difference_count": count, "recordings": reports}, indent=2))
    elif len(reports) > 1:
        click.echo(_summary(reports, count))
    return EXIT_DIFFERENT if count else EXIT_SAME


def _replay(
    file: str, only_plugins: str | None, config_file: str | None, gates: dict[str, bool]
) -> tuple[dict[str, Any], Moves]:
    """Returns the report of a recording as JSON values, and where its pods go."""
    with RecordingReader(file) as reader:
        config = configuration_of(reader.header, config_file=config_file, file=file)
        if config is not None and config.extenders:
            click.echo(f"mooring replay: note: {file}: {NO_EXTENDERS}", err=True)
        kinds = [str(document.get("kind")) for document in reader.header.objects]
        for note in notes(None, ignored_kinds(kinds, gates)):
            print_note("replay", f"{file}: {note}")
        driver = driver_of(reader.header, config=config, file=file, gates=gates)
        only = _owned(only_plugins, driver.OWN, [*driver.weights, *DEFAULT_FILTER_ORDER])
        recorded_config = configuration_of(reader.header, file=file)
        moves = Moves()
        differences: list[Difference] = []
        n_steps = n_differences = 0
        steps = replay(
            reader,
            driver,
            objects=reader.header.objects,
            only=only,
            config=config,
        )
        for replayed in steps:
            n_steps += 1
            n_differences += len(replayed.differences)
            moves.add(_compared(replayed, recorded_config))
            room = max(0, DIFFERENCES_SHOWN - len(differences))
            differences += replayed.differences[:room]
    report = {
        "file": file,
        "name": reader.header.name,
        "steps": n_steps,
        "compared": sorted(only) if only is not None else "all",
        "difference_count": n_differences,
        "differences": msgspec.to_builtins(differences),
    }
    return report, moves


def _compared(replayed: ReplayedStep, recorded: KubeSchedulerConfiguration | None) -> ComparedStep:
    """Returns both decisions of a step, with the weights of both configurations."""
    step = replayed.step
    scheduler = str((step.pod.get("spec") or {}).get("schedulerName", ""))
    return ComparedStep(
        number=replayed.index,
        pod=step.pod_key,
        recorded=step.decision,
        decided=replayed.decided,
        recorded_weights={**replayed.weights, **score_weights(recorded, scheduler)},
        weights=replayed.weights,
    )


def _owned(text: str | None, own: frozenset[str], recorded: list[str]) -> frozenset[str] | None:
    """Returns the plugins to compare.

    Raises:
        ConfigError: a name is not that of a plugin.
    """
    if text is None:
        return None
    if text == OWN:
        return own
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    possible = sorted({*own, *recorded, "DefaultPreemption", "SchedulingGates"})
    for name in sorted(names):
        if name not in possible:
            near = get_close_matches(name, possible, n=1)
            raise ConfigError(
                f"unknown plugin {name!r}",
                path="--only-plugins",
                suggestion=near[0] if near else None,
            )
    if not names:
        raise ConfigError("no plugin is named", path="--only-plugins", value=text)
    return names


def _text(report: dict[str, Any], moves: Moves | None) -> Iterator[str]:
    count = report["difference_count"]
    yield f"{report['name']}: {_steps(report['steps'])}, {_differences(count)}"
    if moves is not None:
        yield from moves.lines()
        if count:
            yield "Differences:"
    for difference in report["differences"]:
        yield f"  {Difference(**difference)}"
    rest = count - len(report["differences"])
    if rest:
        yield f"  ... and {rest} more"


def _summary(reports: list[dict[str, Any]], count: int) -> str:
    steps = sum(report["steps"] for report in reports)
    return f"{len(reports)} recordings, {_steps(steps)}, {_differences(count)}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _differences(count: int) -> str:
    return {0: "no difference", 1: "1 difference"}.get(count, f"{count} differences")
