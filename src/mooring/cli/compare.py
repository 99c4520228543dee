"""``mooring compare``: scenarios, configurations and plugins side by side, over several seeds."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from mooring.cli.options import file_option, output_option, plugins_option
from mooring.cli.outputs import json_text, progress_bar
from mooring.files import write_text

if TYPE_CHECKING:
    from mooring.experiments.compare import Comparison
    from mooring.experiments.text import FirstDecision
    from mooring.experiments.trials import Variant

#: Exit code if a limit is broken.
LIMIT_BROKEN: Final = 1


@click.command("compare")
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@file_option(
    "--config",
    "configs",
    multiple=True,
    help="Configuration to compare; several times for several. With one, the scenario as it is"
    " written is the baseline; else the first.",
)
@plugins_option(help="Plugin of the candidates; the current folder is searched first.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=10_000),
    default=1,
    show_default=True,
    help="How many seeds, from that of the scenario on; every variant runs with all.",
)
@click.option("--measure", "measures", multiple=True, help="Compare this measure; several times.")
@click.option(
    "--fail-if",
    "limits",
    multiple=True,
    metavar="'MEASURE +CHANGE'",
    help="Exit with 1 if a measure changes by more than this: 'wait.p99 +5%', 'wait.mean +30s'.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many runs at once; default: one for each processor.",
)
@file_option("--report", help="HTML file with the comparison.")
@output_option("table", "json", help="json: all numbers.")
def command(
    scenarios: tuple[str, ...],
    configs: tuple[str, ...],
    plugins: tuple[str, ...],
    seeds: int,
    measures: tuple[str, ...],
    limits: tuple[str, ...],
    jobs: int | None,
    report: str | None,
    output: str,
) -> int:
    """Run scenarios with several configurations, and tell differences from chance.

    All variants see the same draws, so runs are compared pair by pair. The first variant is the
    baseline: several SCENARIOs are variants of each other; else configurations or plugins are.
    """
    from mooring.experiments.compare import broken_limits, compare, limit_from
    from mooring.experiments.text import (
        comparison_document,
        comparison_text,
        first_decision_text,
    )
    from mooring.experiments.trials import run_trials

    variants = variants_of(scenarios, configs, plugins)
    own_limits = [limit_from(text) for text in limits]
    # What is wrong is said before anything runs.
    first_seed, *_ = [variant.scenario().seed for variant in variants]
    numbers = range(first_seed, first_seed + seeds)
    with progress_bar(is_shown=output == "table" and sys.stderr.isatty()) as on_done:
        trials = run_trials(variants, numbers, jobs=jobs or 0, on_done=on_done)
    comparisons = [compare(trials[0], own, measures, limits=own_limits) for own in trials[1:]]
    decisions = [
        _first_decision(own, variants) for own in comparisons if output == "table" or report
    ]
    if report is not None:
        from mooring.experiments.report import comparison_report

        write_text(report, comparison_report(comparisons, decisions))
    if output == "json":
        documents = [comparison_document(comparison) for comparison in comparisons]
        click.echo(json_text(documents))
    else:
        for number, (comparison, decision) in enumerate(zip(comparisons, decisions, strict=True)):
            click.echo(("\n" if number else "") + comparison_text(comparison))
            if decision is not None:
                click.echo(f"\n{first_decision_text(decision)}")
        if report is not None:
            click.echo(f"report in {report}")
    broken = [
        (comparison, limit, row)
        for comparison in comparisons
        for limit, row in broken_limits(comparison, own_limits)
    ]
    for comparison, limit, row in broken:
        sentence = row.difference.sentence(row.measure)
        click.echo(f"FAILED {comparison.candidate}: {limit.text}: {sentence}", err=True)
    return LIMIT_BROKEN if broken else 0


def variants_of(
    scenarios: Sequence[str], configs: Sequence[str], plugins: tuple[str, ...]
) -> list[Variant]:
    """Returns what is compared, the baseline first.

    Raises:
        click.UsageError: there is nothing to compare.
    """
    from mooring.experiments.trials import Variant

    if len(scenarios) > 1:
        if len(configs) > 1:
            raise click.UsageError("compare several scenarios or several configurations, not both")
        config = configs[0] if configs else ""
        return [
            Variant(name, file, config, plugins)
            for name, file in zip(_short_names(scenarios), scenarios, strict=True)
        ]
    [file] = scenarios
    names = _short_names(configs)
    if len(configs) > 1:
        return [
            Variant(name, file, config, plugins)
            for name, config in zip(names, configs, strict=True)
        ]
    if not configs and not plugins:
        raise click.UsageError("give a second scenario, --config or --plugin to compare with")
    name = ", ".join([*names, *(plugin.partition(":")[2] or plugin for plugin in plugins)])
    config = configs[0] if configs else ""
    return [Variant("as written", file), Variant(name, file, config, plugins)]


def _short_names(files: Sequence[str]) -> list[str]:
    """Returns the names of files without folders, unless two are called the same."""
    short = [os.path.basename(file) for file in files]
    counts = Counter(short)
    return [name if counts[name] == 1 else file for name, file in zip(short, files, strict=True)]


def _first_decision(comparison: Comparison, variants: Sequence[Variant]) -> FirstDecision | None:
    """Returns the first decision that differs; None = none does."""
    from mooring.experiments.compare import decision_of
    from mooring.experiments.text import FirstDecision

    moves = comparison.moves
    if not moves.first:
        return None
    names = comparison.baseline, comparison.candidate
    by_name = {variant.name: variant for variant in variants}
    decisions = [decision_of(by_name[name], moves.seed, moves.first) for name in names]
    return FirstDecision(moves, names, (decisions[0], decisions[1]))
