"""``mooring report``: one HTML file over the results of runs and sweeps."""

from __future__ import annotations

import os

import click

from mooring.cli.options import file_option
from mooring.files import write_text


@click.command("report")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path())
@file_option("--out", default="report.html", show_default=True, help="The HTML file.")
@click.option("--title", default="Report", show_default=True, help="Title of the report.")
def command(folders: tuple[str, ...], out: str, title: str) -> None:
    """Write one HTML file over the results of several runs and sweeps.

    A FOLDER is what `mooring simulate SCENARIO --out FOLDER` or `mooring sweep SWEEP` has written.
    The file needs no network.
    """
    # Imported here: it carries a library of charts.
    from mooring.experiments.report_of_folders import folders_report
    from mooring.experiments.result_folders import read_folder

    names = [folder.rstrip(os.sep) or folder for folder in folders]
    write_text(out, folders_report([read_folder(name) for name in names], title=title))
    click.echo(f"report in {out}")
