"""The command ``mooring``: a table of commands, each loaded only when it is called.

The root is not a click group, since importing click takes longer than everything that
``mooring --help`` does. Each command is a module of this package with a click command named
``command``; this file turns what it raises into an exit code::

    0    done
    1    done, and the answer is no (differences found, a pod that does not fit)
    2    bad usage or bad input: one line on stderr says where and what
    70   our own bug
    130  interrupted
    141  nobody reads the output any more (as a shell reports SIGPIPE)
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from mooring import __version__
from mooring.errors import InvariantViolation, SchedulerError

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141

#: Set by the scripts of ``mooring completion``.
COMPLETE_VARIABLE = "_MOORING_COMPLETE"
HELP_NAMES = ["-h", "--help"]


class Entry(NamedTuple):
    """One line of the table: where a command lives and what it does, in a few words."""

    module: str
    help: str


#: In the order in which a newcomer meets them.
COMMANDS = {
    "start": Entry("mooring.cli.start", "Start a cluster in memory, and schedule its pods."),
    "learn": Entry("mooring.cli.learn", "Learn how a scheduler works, in eight steps."),
    "simulate": Entry("mooring.cli.simulate", "Decide where pending pods go, offline."),
    "explain": Entry("mooring.cli.explain", "Say why a pod is where it is, or why it is nowhere."),
    "replay": Entry("mooring.cli.replay", "Decide a recording again and report each difference."),
    "config": Entry("mooring.cli.config", "Check a scheduler configuration; show all of it."),
    "run": Entry("mooring.cli.run", "Schedule the pods of a real cluster."),
    "extender": Entry("mooring.cli.extender", "Be a scheduler extender, with plugins."),
    "apiserver": Entry("mooring.cli.apiserver", "Run a Kubernetes API server in memory."),
    "completion": Entry("mooring.cli.completion", "Print a script for completion in a shell."),
}

OPTIONS = {
    "-h, --help": "Show this text, or a command's: mooring COMMAND --help.",
    "--version": "Show the version.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; never raises what a person caused.

    Args:
        arguments: The words after ``mooring``; the process's own if None.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        instruction = os.environ.get(COMPLETE_VARIABLE) if arguments is None else None
        code = _complete(instruction) if instruction else _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes stdout once more at exit, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def help_text() -> str:
    """What ``mooring --help`` prints."""
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


def _complete(instruction: str) -> int:
    from mooring.cli.completion import complete  # imports click, as _call does

    return complete(instruction)


def _refuse_unknown(word: str) -> int:
    kind = "option" if word.startswith("-") else "command"
    known = ["--help", "--version"] if kind == "option" else list(COMMANDS)
    near = get_close_matches(word, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    print(f"mooring: no such {kind}: {word!r}.{hint} See mooring --help.", file=sys.stderr)
    return EXIT_USAGE


def _call(name: str, words: list[str]) -> int:
    """Loads a command, run it, and turns its exceptions into an exit code."""
    import click  # here, since it takes longer than all that `mooring --help` does

    command: click.Command = importlib.import_module(COMMANDS[name].module).command
    try:
        # Not command.main(): it would answer a closed pipe with exit code 1.
        with command.make_context(
            f"mooring {name}", words, help_option_names=HELP_NAMES
        ) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except InvariantViolation as error:
        print(f"mooring {name}: a bug in mooring: {error}", file=sys.stderr)
        return EXIT_BUG
    except SchedulerError as error:
        print(f"mooring {name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    return code if isinstance(code, int) else EXIT_DONE
