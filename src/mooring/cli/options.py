"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

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


def workload_options(command: Command) -> Command:
    """Adds the options of the workload: cluster, pods, configuration, plugins, seed."""
    for option in reversed(
        (
            click.option(
                "--cluster",
                multiple=True,
                metavar="FILE",
                shell_complete=file_names,
                help="Nodes and other objects: YAML or JSON file, folder, - or openb:LIST. "
                "Default: openb:gpu.",
            ),
            click.option(
                "--pods",
                multiple=True,
                metavar="FILE",
                shell_complete=file_names,
                help="Pods to place, in the same formats. "
                "Default: pending pods of the cluster, or openb:default.",
            ),
            click.option(
                "--skip-validation",
                is_flag=True,
                help="Accept unknown fields and invalid values, for dumps of other versions of"
                " Kubernetes.",
            ),
            click.option(
                "--config",
                "config_file",
                metavar="FILE",
                shell_complete=file_names,
                help="KubeSchedulerConfiguration file.",
            ),
            click.option(
                "--plugin",
                "plugins",
                multiple=True,
                metavar="MODULE:ATTRIBUTE",
                help="Additional plugin; the current folder is searched first.",
            ),
            click.option("--seed", default=0, show_default=True, help="Random seed."),
        )
    ):
        command = option(command)
    return command


log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="Lowest level of the messages on stderr.",
)
