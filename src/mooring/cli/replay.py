"""``mooring replay``: decide a recording again and report every difference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import click
import msgspec

from mooring.cli.options import file_names
from mooring.errors import ConfigError
from mooring.recordings.compare import DEFAULT_FILTER_ORDER
from mooring.recordings.difference import Difference
from mooring.recordings.format import RecordingReader
from mooring.recordings.skipped import why_not_compared
from mooring.simulation.build import configuration_of, driver_of
from mooring.simulation.replay import replay
from mooring.simulation.unsupported import NO_EXTENDERS

EXIT_SAME: Final = 0
EXIT_DIFFERENT: Final = 1

OWN: Final = "own"
#: Further differences of one recording are counted, not printed: one slip can make thousands.
DIFFERENCES_SHOWN: Final = 100


@click.command("replay")
@click.argument(
    "recordings", nargs=-1, required=True, metavar="RECORDING...", shell_complete=file_names
)
@click.option(
    "--only-plugins",
    metavar="A,B|own",
    help="Compare what these plugins say; own: those that mooring has.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    shell_complete=file_names,
    help="In place of the recorded one.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(
    recordings: tuple[str, ...], only_plugins: str | None, config_file: str | None, output: str
) -> int:
    """Decide each step of a recording again, on the recorded state.

    Every difference is told by step, plugin, node and field. With kube-scheduler's recordings that
    is a test, with another configuration it answers "what if".

    Exit code: 0 no difference, 1 differences, 2 bad input.
    """
    reports = []
    for file in recordings:
        report = _replay(file, only_plugins, config_file)
        reports.append(report)
        if output == "text":
            click.echo("\n".join(_text(report)))
    count = sum(report["difference_count"] for report in reports)
    if output == "json":
        click.echo(json.dumps({"difference_count": count, "recordings": reports}, indent=2))
    elif len(reports) > 1:
        click.echo(_summary(reports, count))
    return EXIT_DIFFERENT if count else EXIT_SAME


def _replay(file: str, only_plugins: str | None, config_file: str | None) -> dict[str, Any]:
    with RecordingReader(file) as reader:
        config = configuration_of(reader.header, config_file=config_file, file=file)
        if config is not None and config.extenders:
            click.echo(f"mooring replay: note: {file}: {NO_EXTENDERS}", err=True)
        driver = driver_of(reader.header, config=config, file=file)
        only = _owned(only_plugins, driver.OWN, [*driver.weights, *DEFAULT_FILTER_ORDER])
        shown: list[Difference] = []
        n_steps = n_differences = 0
        steps = replay(
            reader,
            driver,
            objects=reader.header.objects,
            only=only,
            config=config,
            why_not=lambda pod: why_not_compared(driver.cache, pod),
        )
        not_compared: Counter[str] = Counter()
        for replayed in steps:
            n_steps += 1
            not_compared.update([replayed.not_compared] if replayed.not_compared else [])
            n_differences += len(replayed.differences)
            shown += replayed.differences[: max(0, DIFFERENCES_SHOWN - len(shown))]
    return {
        "file": file,
        "name": reader.header.name,
        "steps": n_steps,
        "compared": sorted(only) if only is not None else "all",
        "steps_not_compared": dict(not_compared),
        "difference_count": n_differences,
        "differences": msgspec.to_builtins(shown),
    }


def _owned(text: str | None, own: frozenset[str], known: list[str]) -> frozenset[str] | None:
    """Returns the plugins to compare.

    Raises:
        ConfigError: a name is none of a plugin.
    """
    if text is None:
        return None
    if text == OWN:
        return own
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    possible = sorted({*own, *known, "DefaultPreemption", "SchedulingGates"})
    for name in sorted(names):
        if name not in possible:
            near = get_close_matches(name, possible, n=1)
            raise ConfigError(
                "is no plugin",
                path="--only-plugins",
                value=name,
                suggestion=near[0] if near else None,
            )
    if not names:
        raise ConfigError("names no plugin", path="--only-plugins", value=text)
    return names


def _text(report: dict[str, Any]) -> Iterator[str]:
    count = report["difference_count"]
    yield f"{report['name']}: {report['steps']} steps, {_differences(count)}"
    for why, steps in report["steps_not_compared"].items():
        yield f"  note: {steps} steps were followed but not compared: {why}"
    for difference in report["differences"]:
        yield f"  {Difference(**difference)}"
    rest = count - len(report["differences"])
    if rest:
        yield f"  ... and {rest} more"


def _summary(reports: list[dict[str, Any]], count: int) -> str:
    steps = sum(report["steps"] for report in reports)
    left_out = sum(sum(report["steps_not_compared"].values()) for report in reports)
    compared = f" ({left_out} of them not compared)" if left_out else ""
    return f"{len(reports)} recordings, {steps} steps{compared}, {_differences(count)}"


def _differences(count: int) -> str:
    return {0: "no difference", 1: "1 difference"}.get(count, f"{count} differences")
