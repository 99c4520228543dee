"""``mooring sweep``: a scenario over a grid of values and seeds."""

from __future__ import annotations

import sys

import click

from mooring.cli.options import file_option, output_option
from mooring.cli.outputs import json_text, progress_bar
from mooring.files import write_text


@click.command("sweep")
@click.argument("file", metavar="SWEEP")
@file_option("--out", help="Folder for the runs; a second call goes on there. Default: SWEEP.runs.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many runs at once; default: one for each processor.",
)
@click.option(
    "--on",
    "place",
    default="processes",
    show_default=True,
    metavar="WHERE",
    help="processes of this machine, or the workers of dask[:ADDRESS] or ray[:ADDRESS].",
)
@click.option("--retry-failed", is_flag=True, help="Make runs again that failed.")
@click.option("--check", "is_check", is_flag=True, help="Read everything, and run nothing.")
@file_option("--report", help="HTML file with the results.")
@output_option("table", "json", help="json: all numbers.")
def command(
    file: str,
    out: str | None,
    jobs: int | None,
    place: str,
    retry_failed: bool,
    is_check: bool,
    report: str | None,
    output: str,
) -> int:
    """Run a scenario with every combination of some values, and with several seeds.

    Every run is kept in a folder as soon as it is done; a sweep that was interrupted goes on there,
    and none is made twice.
    """
    from mooring.experiments.executors import pools_of
    from mooring.experiments.sweep import Store, default_measures, results_of, run_sweep
    from mooring.experiments.sweep_file import read_sweep
    from mooring.experiments.sweep_text import sweep_document, sweep_report, sweep_text

    pools = pools_of(place)
    sweep = read_sweep(file)
    if is_check:
        seeds = f"{sweep.seeds}" if sweep.until is None else f"at least {sweep.seeds}"
        click.echo(f"{file}: ok, {len(sweep.cells)} cells with {seeds} seeds")
        return 0
    is_shown = output == "table" and sys.stderr.isatty()
    with Store(out or f"{file}.runs") as store, progress_bar(is_shown=is_shown) as on_done:
        run_sweep(
            sweep,
            store,
            jobs=jobs or 0,
            retry_failed=retry_failed,
            pools=pools,
            on_done=on_done,
        )
    results = results_of(sweep, store)
    measures = list(sweep.measures) or default_measures(results)
    if report is not None:
        write_text(report, sweep_report(sweep, results, measures, sweep.source))
    if output == "json":
        click.echo(json_text(sweep_document(sweep, results, measures)))
    else:
        click.echo(sweep_text(sweep, results, measures))
        if report is not None:
            click.echo(f"report in {report}")
    failed = [run for run in store.runs.values() if run.error]
    for run in failed[:5]:
        click.echo(f"failed with seed {run.seed}: {run.error}", err=True)
    return 1 if failed else 0
