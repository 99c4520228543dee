"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.clock import SystemClock
from mooring.errors import ConfigError
from mooring.watchdog import PLUGIN_CALL_S_MAX, PluginDeadline

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LEVELS = ("debug", "info", "warning", "error")

Command = TypeVar("Command", bound=Callable[..., Any])


def file_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Tells a shell to complete the value as a file name."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def file_option(
    *names: str, metavar: str = "FILE", **attributes: Any
) -> Callable[[Command], Command]:
    """Returns an option for a file name, which shells complete."""
    return click.option(*names, metavar=metavar, shell_complete=file_names, **attributes)


def stages_option(command: Command) -> Command:
    """Adds the option that names files of stages for a scenario."""
    return file_option(
        "--stages",
        multiple=True,
        help="File or folder with KWOK's Stage documents, which start and end the pods of a "
        "scenario, or change its nodes; may be given several times.",
    )(command)


def plugins_option(**attributes: Any) -> Callable[[Command], Command]:
    """Returns the option that names plugins."""
    return click.option(
        "--plugin", "plugins", multiple=True, metavar="MODULE:ATTRIBUTE", **attributes
    )


def output_option(*formats: str, **attributes: Any) -> Callable[[Command], Command]:
    """Returns the option that chooses the output format; the first one is the default."""
    choice = click.Choice(formats)
    return click.option(
        "-o", "--output", type=choice, default=formats[0], show_default=True, **attributes
    )


def _limit_plugins(context: click.Context, _parameter: click.Parameter, limit_s: float) -> None:
    """Watches the plugins until the command ends."""
    if limit_s:
        context.with_resource(PluginDeadline(limit_s, clock=SystemClock()).watch())


def workload_options(command: Command) -> Command:
    """Adds the options of the workload: cluster, pods, configuration, plugins, seed."""
    for option in reversed(
        (
            file_option(
                "--cluster",
                multiple=True,
                help="Nodes and other objects: YAML or JSON file, folder, - or openb:LIST. "
                "Default: openb:gpu.",
            ),
            file_option(
                "--pods",
                multiple=True,
                help="Pods to place, in the same formats. "
                "Default: pending pods of the cluster, or openb:default.",
            ),
            click.option(
                "--skip-validation",
                is_flag=True,
                help="Accept unknown fields and invalid values, for dumps of other versions of"
                " Kubernetes.",
            ),
            file_option("--config", "config_file", help="KubeSchedulerConfiguration file."),
            plugins_option(help="Additional plugin; the current folder is searched first."),
            click.option(
                "--plugin-timeout",
                type=click.FloatRange(min=0),
                default=PLUGIN_CALL_S_MAX,
                show_default=True,
                expose_value=False,
                callback=_limit_plugins,
                help="Seconds after which a call of an additional plugin ends the command;"
                " 0 = never.",
            ),
            click.option("--seed", default=0, show_default=True, help="Random seed."),
        )
    ):
        command = option(command)
    return command


devices_option = file_option(
    "--devices",
    "devices_file",
    help="Simulated drivers: which nodes have which devices (YAML or JSON).",
)


def _parse_gates(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, bool]:
    """Returns the gates whose value is not the default; notes those without a full effect."""
    if not texts:
        return {}
    # Imported here: few use it, and all commands would load the table of gates.
    from mooring.component.gate_settings import parse_feature_gates

    try:
        gates = parse_feature_gates(texts)
    except ConfigError as error:
        raise click.BadParameter(error.problem, context, parameter) from None
    for gate, reason in (gates.missing() | gates.partial()).items():
        command = context.info_name
        click.echo(f"mooring {command}: note: feature gate {gate}: {reason}", err=True)
    return gates.changed


feature_gates_option = click.option(
    "--feature-gates",
    "gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    callback=_parse_gates,
    help="Feature gates of kube-scheduler, as of `mooring run`: DRADeviceTaintRules=true.",
)

log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="Lowest level of the messages on stderr.",
)
