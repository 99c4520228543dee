"""Options that mean the same in several commands."""

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
    """Makes a shell complete the value as the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def workload_options(command: Command) -> Command:
    """What is decided about, and by what: cluster, pods, configuration, plugins, seed."""
    for option in reversed(
        (
            click.option(
                "--cluster",
                multiple=True,
                metavar="FILE",
                shell_complete=file_names,
                help="Nodes and all else: YAML, JSON, a folder, or openb:LIST. Default: openb:gpu.",
            ),
            click.option(
                "--pods",
                multiple=True,
                metavar="FILE",
                shell_complete=file_names,
                help="Pods to place, the same way. "
                "Default: the cluster's pending pods, or openb:default.",
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
                help="A KubeSchedulerConfiguration.",
            ),
            click.option(
                "--plugin",
                "plugins",
                multiple=True,
                metavar="MODULE:ATTRIBUTE",
                help="A plugin of your own; the current folder is searched first.",
            ),
            click.option(
                "--seed", default=0, show_default=True, help="For whatever is left to chance."
            ),
        )
    ):
        command = option(command)
    return command


log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="What to write to stderr.",
)
