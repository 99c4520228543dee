"""``mooring config``: validates, completes and converts scheduler configurations."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mooring.cli import EXIT_DONE
from mooring.cli.options import file_names, output_option, plugins_option
from mooring.config import (
    KubeSchedulerConfiguration,
    default_configuration,
    loads,
    located,
    upstream_document,
    upstream_yaml,
)
from mooring.config.legacy_policy import convert_policy
from mooring.errors import ConfigError
from mooring.objects.files.limits import CONFIG_BYTES_MAX
from mooring.objects.files.paths import read_bytes, shown_name
from mooring.objects.files.yaml_text import yaml_text

_output = output_option("yaml", "json", help="Output format.")


@click.group("config", invoke_without_command=False)
def command() -> None:
    """Validate, complete or convert a scheduler configuration."""


@command.command("view")
@click.argument("file", required=False, metavar="[FILE]", shell_complete=file_names)
@_output
def view(file: str | None, output: str) -> None:
    """Print a configuration with all defaults, exactly as kube-scheduler --write-config-to does.

    FILE is YAML or JSON; "-" is standard input. Without FILE the default configuration is printed.
    """
    config = _loaded(file)[0] if file else default_configuration()
    if output == "json":
        click.echo(json.dumps(upstream_document(config), indent=2, sort_keys=True))
    else:
        click.echo(upstream_yaml(config), nl=False)


@command.command("check")
@click.argument("file", metavar="FILE", shell_complete=file_names)
@plugins_option(help="Additional plugin, as for mooring run; may be given several times.")
def check(file: str, plugins: tuple[str, ...]) -> int:
    """Validate a configuration and build its profiles. Exit code: 0 valid, 2 invalid.

    All errors are reported at once. FILE is YAML or JSON; "-" is standard input.
    """
    config, data = _loaded(file)
    try:
        _put_together(config, plugins)
    except ConfigError as error:
        raise located(error, data, file=shown_name(file)) from error
    names = [profile.scheduler_name or "" for profile in config.profiles]
    count = "1 profile" if len(names) == 1 else f"{len(names)} profiles"
    click.echo(f"{shown_name(file)}: valid: {count}, {', '.join(names)}")
    return EXIT_DONE


@command.command("convert")
@click.argument("file", metavar="FILE", shell_complete=file_names)
@_output
def convert(file: str, output: str) -> None:
    """Convert a Policy file of kube-scheduler v1.22 or older to a KubeSchedulerConfiguration.

    FILE is YAML or JSON; "-" is standard input. The result has only the fields that differ from the
    defaults. Notes on standard error name what was removed or has another meaning today.
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


def _put_together(config: KubeSchedulerConfiguration, plugins: tuple[str, ...]) -> None:
    """Builds the profiles as a scheduler does: this finds unknown plugins and invalid arguments.

    Also reads the files that the configuration names.
    """
    from mooring.client.transport.kubeconfig import read_kubeconfig
    from mooring.extenders.tls import check_trust
    from mooring.simulation.offline import check_profiles  # here: keeps --help fast

    check_trust(config.extenders)
    kubeconfig = config.client_connection.kubeconfig
    if kubeconfig and not Path(kubeconfig).exists():
        # The configuration may be for another machine.
        text = (
            f"mooring config: note: clientConnection.kubeconfig does not exist here: {kubeconfig}"
        )
        click.echo(text, err=True)
    elif kubeconfig:
        try:
            read_kubeconfig([kubeconfig])
        except ConfigError as error:
            raise ConfigError(str(error), path="clientConnection.kubeconfig") from error
    check_profiles(config, plugins)
