"""``mooring config``: check a scheduler configuration, and show it with everything filled in."""

from __future__ import annotations

import json

import click
import yaml

from mooring.config import default_configuration, load, to_document


@click.command("config")
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "none"]),
    default="yaml",
    show_default=True,
    help="How to show it; none: say only whether it is good.",
)
def command(file: str | None, output: str) -> None:
    """Check a KubeSchedulerConfiguration and show it complete, with all defaults.

    FILE is YAML or JSON, "-" is standard input; without FILE the default configuration is shown.
    Every fault is reported with its line, and the exit code is 2 then.
    """
    config = load(file) if file else default_configuration()
    document = to_document(config)
    if output == "json":
        click.echo(json.dumps(document, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
