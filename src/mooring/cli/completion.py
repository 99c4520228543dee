"""``mooring completion``: scripts that make a shell complete commands, options and files.

The script calls ``mooring`` with ``_MOORING_COMPLETE`` and the words typed so far in its
environment, and ``complete`` prints the candidates. Only the module of the command that is being
typed is imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, ShellComplete, get_completion_class

from mooring.cli import COMMANDS, COMPLETE_VARIABLE, EXIT_DONE, EXIT_USAGE, HELP_NAMES

SHELLS: Final = ("bash", "zsh", "fish")

#: click leaves the lines of a paragraph as they are after a line with ``\b``.
_HELP: Final = """\
Print a script that makes a shell complete commands, options and files.

\b
bash, in ~/.bashrc (bash 4.4 or newer):
  eval "$(mooring completion bash)"

\b
zsh, in ~/.zshrc, after compinit:
  eval "$(mooring completion zsh)"

\b
fish, once:
  mooring completion fish > ~/.config/fish/completions/mooring.fish
"""


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Prints the completion script of a shell."""
    click.echo(_completer(shell).source())


def complete(instruction: str) -> int:
    """Answers a completion script; returns the exit code.

    Args:
        instruction: The value of ``_MOORING_COMPLETE``, such as ``bash_complete``.
    """
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what != "complete":
        message = f"mooring: no completion for {COMPLETE_VARIABLE}={instruction}"
        print(message, file=sys.stderr)
        return EXIT_USAGE
    print(_completer(shell).complete())
    return EXIT_DONE


class _Bash(BashComplete):
    """bash splits ``--pods=a.yaml`` into three words; click expects two."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], incomplete


class _Root(click.Group):
    """All commands, for completion only: ``mooring.cli`` runs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - as click has it
        cmd_name: str,
    ) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Completes names from the table: click would import every command for its help."""
        items = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


def _completer(shell: str) -> ShellComplete:
    root = _Root("mooring", params=[click.Option(["--version"], is_flag=True)])
    completer = _Bash if shell == "bash" else get_completion_class(shell)
    assert completer is not None, f"click does not know {shell}"
    return completer(root, {"help_option_names": HELP_NAMES}, "mooring", COMPLETE_VARIABLE)
