"""``mooring config``: is a configuration good, what does it say in full, what did a Policy mean?"""

from __future__ import annotations

import json
from typing import Any

import click

from mooring.cli import EXIT_DONE
from mooring.cli.options import file_names
from mooring.clock import SystemClock, VirtualClock, seeded_random
from mooring.config import (
    KubeSchedulerConfiguration,
    convert_policy,
    default_configuration,
    loads,
    located,
    upstream_document,
    upstream_yaml,
)
from mooring.errors import ConfigError
from mooring.objects.files.limits import CONFIG_BYTES_MAX
from mooring.objects.files.paths import read_bytes, shown_name
from mooring.objects.files.yaml_text import yaml_text

_plugins = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:ATTRIBUTE",
    help="A plugin that is run besides, as mooring run has it.",
)

_output = click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to show it.",
)


@click.group("config", invoke_without_command=False)
def command() -> None:
    """Check a KubeSchedulerConfiguration, show all that it says, or make one of a Policy."""


@command.command("view")
@click.argument("file", required=False, metavar="[FILE]", shell_complete=file_names)
@_output
def view(file: str | None, output: str) -> None:
    """Show a configuration complete, exactly as kube-scheduler --write-config-to writes it.

    FILE is YAML or JSON, "-" is standard input; without FILE the default configuration is shown.
    """
    config = _loaded(file)[0] if file else default_configuration()
    if output == "json":
        click.echo(json.dumps(upstream_document(config), indent=2, sort_keys=True))
    else:
        click.echo(upstream_yaml(config), nl=False)


@command.command("check")
@click.argument("file", metavar="FILE", shell_complete=file_names)
@_plugins
def check(file: str, plugins: tuple[str, ...]) -> int:
    """Say whether a scheduler can run with a configuration: exit code 0, or 2 and every fault.

    FILE is YAML or JSON, "-" is standard input.
    """
    config, data = _loaded(file)
    try:
        _put_together(config, plugins)
    except ConfigError as error:
        raise located(error, data, file=shown_name(file)) from error
    names = [profile.scheduler_name or "" for profile in config.profiles]
    counted = "1 profile" if len(names) == 1 else f"{len(names)} profiles"
    click.echo(f"{shown_name(file)}: good: {counted}, {', '.join(names)}")
    return EXIT_DONE


@command.command("convert")
@click.argument("file", metavar="FILE", shell_complete=file_names)
@_output
def convert(file: str, output: str) -> None:
    """Make a KubeSchedulerConfiguration of a Policy file, which kube-scheduler read up to v1.22.

    FILE is YAML or JSON, "-" is standard input. The result says only what differs from the
    defaults. What is gone, or means something else now, is said on standard error.
    """
    data = read_bytes(file, bytes_max=CONFIG_BYTES_MAX)
    converted = convert_policy(data, file=shown_name(file))
    for note in converted.notes:
        click.echo(f"mooring config: note: {note}", err=True)
    if output == "json":
        click.echo(json.dumps(converted.document, indent=2, sort_keys=True))
    else:
        click.echo(yaml_text(converted.document), nl=False)


def _loaded(file: str) -> tuple[KubeSchedulerConfiguration, bytes]:
    data = read_bytes(file, bytes_max=CONFIG_BYTES_MAX)
    return loads(data, file=shown_name(file)), data


def _put_together(config: KubeSchedulerConfiguration, plugins: tuple[str, ...]) -> Any:
    """Builds the profiles as a scheduler would: only then it shows which plugins there are.

    The files that it names are read, too.
    """
    from mooring.client.transport.kubeconfig import read_kubeconfig
    from mooring.extenders.tls import check_trust
    from mooring.scheduler.profiles import load_profiles  # late: they take longer than --help may
    from mooring.simulation.offline import OfflineHandle
    from mooring.state import Cache

    check_trust(config.extenders)
    kubeconfig = config.client_connection.kubeconfig
    if kubeconfig:
        try:
            read_kubeconfig([kubeconfig])
        except ConfigError as error:
            raise ConfigError(str(error), path="clientConnection.kubeconfig") from error
    handle = OfflineHandle(Cache(), VirtualClock(), seeded_random(0))
    return load_profiles(
        config, handle, clock=SystemClock(), waiting=handle.waiting, plugins=plugins
    )
