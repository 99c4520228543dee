"""The command ``mooring``: a table of commands, each imported only when it is called.

The root is not a click group: importing click takes longer than everything that
``mooring --help`` does. Each command is a module of this package with a click command named
``command``. This module maps its exceptions to an exit code::

    0    done
    1    the command ran, and the result is negative (differences, a failed lesson, a lost lease),
         or `run` failed at its start, or ended without leader election
    2    invalid usage or input: one line on stderr says where and why
    70   a bug in mooring: any other exception
    130  interrupted
    129, 143  ended by SIGHUP or SIGTERM (as a shell reports them)
    141  the reader closed the output (as a shell reports SIGPIPE)
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from mooring import __version__
from mooring.cli.standard_streams import discard_output, is_output_error, open_missing_streams
from mooring.errors import InvariantViolation, LeaseLost, SchedulerError, exception_text
from mooring.garbage import without_collections

if TYPE_CHECKING:
    import click

EXIT_DONE = 0
EXIT_LEASE_LOST = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141

#: Set by the scripts of ``mooring completion``.
COMPLETE_VARIABLE = "_MOORING_COMPLETE"
HELP_NAMES = ["-h", "--help"]


class Entry(NamedTuple):
    """One command: its module, and its line in ``mooring --help``."""

    module: str
    help: str


#: In the order of ``mooring --help``.
COMMANDS = {
    "start": Entry(
        "mooring.cli.start", "Run an API server, a cluster and the scheduler in one process."
    ),
    "learn": Entry("mooring.cli.learn", "Learn how a scheduler works in eight steps."),
    "simulate": Entry(
        "mooring.cli.simulate", "Schedule pending pods offline and report placements."
    ),
    "scenario": Entry("mooring.cli.scenario", "Check and show scenario files."),
    "compare": Entry("mooring.cli.compare", "Compare scenarios and configurations over seeds."),
    "sweep": Entry("mooring.cli.sweep", "Run a scenario over a grid of values and seeds."),
    "report": Entry("mooring.cli.report", "Write an HTML report over results of runs and sweeps."),
    "explain": Entry("mooring.cli.explain", "Explain a placement or a pending pod."),
    "dump": Entry("mooring.cli.dump", "Write a live cluster's objects to one file."),
    "replay": Entry("mooring.cli.replay", "Replay a recording, or the bound pods of a cluster."),
    "ui": Entry("mooring.cli.ui", "Show a recording, results or a cluster in a browser."),
    "config": Entry(
        "mooring.cli.config", "Validate, complete or convert a scheduler configuration."
    ),
    "run": Entry("mooring.cli.run", "Schedule the pods of a real cluster."),
    "extender": Entry(
        "mooring.cli.extender", "Serve mooring plugins as a scheduler extender webhook."
    ),
    "apiserver": Entry("mooring.cli.apiserver", "Run a Kubernetes API server in memory."),
    "completion": Entry("mooring.cli.completion", "Print a shell completion script."),
}

OPTIONS = {
    "-h, --help": "Show this help, or the help of a command: mooring COMMAND --help.",
    "--version": "Show the version and exit.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. Errors of usage and input are not raised.

    Args:
        arguments: The words after ``mooring``; the process's own if None.
    """
    open_missing_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        instruction = os.environ.get(COMPLETE_VARIABLE) if arguments is None else None
        code = _complete(instruction) if instruction else _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever is not expected is a bug
        return _fail_of_output(error) if is_output_error(error) else _report_bug(error, words)


def help_text() -> str:
    """Returns the text of ``mooring --help``."""
    width = max(map(len, [*COMMANDS, *OPTIONS])) + 2
    commands = [f"  {name:<{width}}{entry.help}" for name, entry in COMMANDS.items()]
    options = [f"  {name:<{width}}{text}" for name, text in OPTIONS.items()]
    return "\n".join(
        [
            "Usage: mooring COMMAND [OPTIONS] [ARGUMENTS]",
            "",
            "A Kubernetes scheduler in Python that explains its decisions.",
            "",
            "Commands:",
            *commands,
            "",
            "Options:",
            *options,
        ]
    )


def _run(words: list[str]) -> int:
    first = words[0] if words else "--help"
    if first in ("-h", "--help", "help") and len(words) <= 1:
        print(help_text())
        return EXIT_DONE
    if first == "--version":
        print(f"mooring {__version__}")
        return EXIT_DONE
    if first in ("-h", "--help", "help"):
        return _run([words[1], "--help"])
    if first not in COMMANDS:
        return _refuse_unknown(first)
    return _call(first, words[1:])


def _fail_of_output(error: OSError) -> int:
    """Returns the exit code for an output that cannot be written."""
    discard_output()
    if isinstance(error, BrokenPipeError):
        return EXIT_PIPE_CLOSED
    print(f"mooring: the output cannot be written: {error.strerror}", file=sys.stderr)
    return EXIT_USAGE


def _report_bug(error: Exception, words: list[str]) -> int:
    import traceback  # here: importing it takes time

    traceback.print_exception(error)
    program = " ".join(["mooring", *words[:1]])
    print(f"{program}: a bug in mooring: {exception_text(error)}", file=sys.stderr)
    return EXIT_BUG


def _complete(instruction: str) -> int:
    from mooring.cli.completion import complete  # imports click, as _call does

    return complete(instruction)


def _refuse_unknown(word: str) -> int:
    kind = "option" if word.startswith("-") else "command"
    candidates = ["--help", "--version"] if kind == "option" else list(COMMANDS)
    near = get_close_matches(word, candidates, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    print(f"mooring: no such {kind}: {word!r}.{hint} See mooring --help.", file=sys.stderr)
    return EXIT_USAGE


def _takes_cluster(command: click.Command) -> bool:
    return any("--cluster" in param.opts for param in command.params)


def _call(name: str, words: list[str]) -> int:
    """Imports and runs a command, and maps its exceptions to an exit code."""
    import click  # here: importing it takes longer than `mooring --help`

    from mooring.log import configure_console

    with without_collections():  # modules are no garbage; a tenth of the time is saved
        command: click.Command = importlib.import_module(COMMANDS[name].module).command
    configure_console(f"mooring {name}")  # commands that run for long configure their own log
    try:
        # Not command.main(): it ends with exit code 1 when the pipe is closed.
        with command.make_context(
            f"mooring {name}", words, help_option_names=HELP_NAMES
        ) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.UsageError as error:
        if "extra argument" in error.message and _takes_cluster(command):
            hint = "A file of a cluster's objects is given with --cluster."
            error = click.UsageError(f"{error.message}. {hint}", error.ctx)
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except InvariantViolation as error:
        print(f"mooring {name}: a bug in mooring: {error}", file=sys.stderr)
        return EXIT_BUG
    except LeaseLost as error:
        print(f"mooring {name}: leader election lost: {error}", file=sys.stderr)
        return EXIT_LEASE_LOST
    except SchedulerError as error:
        print(f"mooring {name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    return code if isinstance(code, int) else EXIT_DONE
