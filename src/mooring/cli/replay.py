"""``mooring replay``: replays recordings, or the bound pods of a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import click
import msgspec

from mooring.cli.inputs import Live, for_plugins, print_note, read_live
from mooring.cli.options import (
    feature_gates_option,
    file_names,
    file_option,
    output_option,
    plugins_option,
)
from mooring.cli.outputs import progress_bar
from mooring.config import DEFAULT_FILTER_ORDER, KubeSchedulerConfiguration, load
from mooring.errors import ConfigError
from mooring.objects.counts import counted
from mooring.recordings.difference import Difference
from mooring.recordings.format import RecordingReader
from mooring.recordings.moves import ComparedStep, Moves, why
from mooring.simulation.build import configuration_of, driver_of
from mooring.simulation.inputs.gated_kinds import gated_kinds, ignored_kinds
from mooring.simulation.inputs.missing_objects import missing_objects, notes_of
from mooring.simulation.inputs.plugin_kinds import generic_kinds
from mooring.simulation.inputs.unsupported import NO_EXTENDERS, notes
from mooring.simulation.placements import ReplayedPlacements, replay_placements
from mooring.simulation.replay import ReplayedStep, replay
from mooring.simulation.weights import score_weights
from mooring.simulation.workload import Workload, read_workload

EXIT_SAME: Final = 0
EXIT_DIFFERENT: Final = 1

OWN: Final = "own"
#: The word before the node that a pod of a cluster has.
BOUND_TO: Final = "bound to"
#: Further differences of a recording are counted, not printed: one cause can make thousands.
DIFFERENCES_SHOWN: Final = 100


@click.command("replay")
@click.argument("recordings", nargs=-1, metavar="[RECORDING]...", shell_complete=file_names)
@click.option(
    "--only-plugins",
    metavar="A,B|own",
    help="Compare only these plugins; own = all plugins that mooring has.",
)
@file_option("--kubeconfig", help="Replay the bound pods of this live cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@file_option(
    "--cluster",
    multiple=True,
    help="Replay the bound pods of this cluster: YAML or JSON file, folder, or -.",
)
@click.option(
    "--skip-validation",
    is_flag=True,
    help="Accept unknown fields and invalid values in files of --cluster.",
)
@file_option(
    "--config",
    "config_file",
    help="KubeSchedulerConfiguration to use instead of the recorded one. For a cluster: default,"
    " all defaults.",
)
@plugins_option(help="Additional plugin, for a cluster; the current folder is searched first.")
@click.option("--seed", default=0, show_default=True, help="Random seed, for a cluster.")
@feature_gates_option
@output_option("text", "json")
def command(
    recordings: tuple[str, ...],
    only_plugins: str | None,
    kubeconfig: str | None,
    context: str | None,
    cluster: tuple[str, ...],
    skip_validation: bool,
    config_file: str | None,
    plugins: tuple[str, ...],
    seed: int,
    gates: dict[str, bool],
    output: str,
) -> int:
    """Replay each step of a recording on the recorded state and report differences.

    Each difference names step, pod, field, plugin and node. A recording of kube-scheduler is a test
    of mooring; another configuration shows what it would have decided, and begins with a summary:
    which pods go to other nodes, and why the first one does.

    With --kubeconfig or --cluster instead of recordings, the bound pods of a cluster are decided
    again, in the order in which they were bound, and compared with the nodes that they have.

    Exit code: 0 no difference, 1 differences, 2 invalid input.
    """
    if kubeconfig is not None or cluster:
        if recordings or only_plugins is not None:
            problem = "--kubeconfig and --cluster cannot be combined with "
            raise click.UsageError(problem + ("recordings" if recordings else "--only-plugins"))
        config = load(config_file) if config_file else None
        if kubeconfig is None:
            if context is not None:
                raise click.UsageError("--context needs --kubeconfig")
            workload = read_workload(cluster, skip_validation=skip_validation)
        elif cluster or skip_validation:
            problem = "--kubeconfig cannot be combined with --cluster or --skip-validation"
            raise click.UsageError(problem)
        else:
            kinds = (*generic_kinds(config, plugins), *gated_kinds(gates))
            live = Live("replay", kubeconfig, context, kinds)
            workload = read_live(live, (), skip_validation=False)
        workload = for_plugins(workload, config, plugins, command="replay", gates=gates)
        for note in notes_of(missing_objects(workload)):
            print_note("replay", note)
        return _replay_cluster(workload, Decider(config, plugins, seed, gates), output)
    if not recordings:
        raise click.UsageError("a RECORDING, --kubeconfig or --cluster is needed")
    if plugins or context is not None or skip_validation:
        raise click.UsageError(
            "--plugin, --context and --skip-validation need --kubeconfig or --cluster"
        )
    return _replay_recordings(recordings, only_plugins, config_file, gates, output)


# ---- clusters ----


class Decider(NamedTuple):
    """Configuration, plugins, seed and feature gates that decide pods again."""

    config: KubeSchedulerConfiguration | None
    plugins: tuple[str, ...]
    seed: int
    gates: dict[str, bool]


def _replay_cluster(workload: Workload, decider: Decider, output: str) -> int:
    """Decides the bound pods of a cluster again, prints how that ends, and returns the exit code.

    Raises:
        ConfigError: the configuration or a plugin cannot be used.
    """
    config, plugins, seed, gates = decider
    replayed = replay_placements(workload, config=config, plugins=plugins, seed=seed, gates=gates)
    moves = Moves(past=BOUND_TO)
    differences: list[ComparedStep] = []
    total = len(replayed.pods)
    with progress_bar(is_shown=sys.stderr.isatty(), name="pods") as on_progress:
        for step in replayed.steps:
            moves.add(step)
            if step.is_other_node:
                differences.append(step)
            on_progress(step.number + 1, total)
    if output == "json":
        document = {
            "cluster": workload.name,
            "pods": total,
            "difference_count": len(differences),
            "not_decided": replayed.not_decided,
            "summary": moves.as_dict(),
            "differences": [_placement(step) for step in differences],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n".join(_text_of_cluster(workload.name, replayed, moves, differences)))
    return EXIT_DIFFERENT if differences else EXIT_SAME


def _placement(step: ComparedStep) -> dict[str, Any]:
    decided = step.decided
    return {
        "pod": step.pod,
        "node": step.recorded.node,
        "decided": decided.node,
        "tied": list(decided.tied),
        "why": why(step, BOUND_TO),
    }


def _text_of_cluster(
    name: str,
    replayed: ReplayedPlacements,
    moves: Moves,
    differences: list[ComparedStep],
) -> Iterator[str]:
    decided = counted(len(replayed.pods), "pod")
    yield f"{name}: {decided} decided again, {_differences(len(differences))}"
    for reason, count in replayed.not_decided.items():
        yield f"  not decided: {counted(count, 'pod')} {reason}"
    if not differences:
        return
    yield from moves.lines()
    yield "Differences:"
    for step in differences[:DIFFERENCES_SHOWN]:
        yield f"  pod {step.pod}: {why(step, BOUND_TO)}"
    rest = len(differences) - DIFFERENCES_SHOWN
    if rest > 0:
        yield f"  ... and {rest} more"


# ---- recordings ----


def _replay_recordings(
    recordings: tuple[str, ...],
    only_plugins: str | None,
    config_file: str | None,
    gates: dict[str, bool],
    output: str,
) -> int:
    """Replays recordings, prints their differences, and returns the exit code.

    Raises:
        ConfigError: a recording or the configuration cannot be used.
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
            file=file,
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
