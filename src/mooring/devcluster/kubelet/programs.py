"""Programs of containers that are simple enough to know when they end, and with which exit code.

No program is run. A few commands are understood: ``sleep 30``, ``true``, ``false``, ``exit 3`` and
those that print something, also several of them in a shell script::

    sh -c 'date; echo Hello; sleep 5 && exit 1'   ends after 5 s with exit code 1

Every other program runs until its pod is deleted, but the pod can say more in two annotations:
``mooring.dev/run-seconds`` and ``mooring.dev/exit-code``.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

RUN_SECONDS: Final = "mooring.dev/run-seconds"
EXIT_CODE: Final = "mooring.dev/exit-code"

#: Images whose arguments are a command, since they have no entry point; without any, a shell.
_PLAIN_IMAGES: Final = frozenset({"busybox", "alpine", "debian", "ubuntu", "bash"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
#: Commands that print something, and succeed at once.
_PRINTERS: Final = frozenset({"echo", "printf", "date", "hostname", "pwd", "whoami", "uname"})

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([smhd]?)")
_EXIT_CODE_MAX: Final = 255
#: Exit code of a command with an invalid argument.
_USAGE: Final = 1
_OPERATORS: Final = frozenset({";", "&&", "||"})


class Program(NamedTuple):
    """A program whose end is known.

    Attributes:
        seconds: How long it runs; infinity = until it is killed.
        exit_code: The status with which it ends, 0 to 255.
    """

    seconds: float
    exit_code: int


class InvalidAnnotation(ValueError):
    """An annotation about a pod's programs is not a number in its range."""


def annotated(annotations: Mapping[str, str]) -> Program | None:
    """Returns the program that the annotations of a pod describe; None = there are none.

    Raises:
        InvalidAnnotation: a value is not a number in its range; the text names both.
    """
    seconds, code = annotations.get(RUN_SECONDS), annotations.get(EXIT_CODE)
    if seconds is None and code is None:
        return None
    return Program(
        0.0 if seconds is None else _number(RUN_SECONDS, seconds, math.inf),
        0 if code is None else int(_number(EXIT_CODE, code, _EXIT_CODE_MAX)),
    )


def _number(name: str, text: str, highest: float) -> float:
    is_whole = name == EXIT_CODE
    if re.fullmatch(r"[0-9]{1,9}" if is_whole else r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        value = float(text)
        if value <= highest:
            return value
    limits = f"a whole number from 0 to {highest}" if is_whole else "a number of seconds"
    raise InvalidAnnotation(f"annotation {name} is {text!r}, not {limits}")


def program_of(
    image: str, command: Sequence[str], arguments: Sequence[str], *, has_input: bool = False
) -> Program | None:
    """Returns the program of a container; None = its end is not known.

    Args:
        image: The image, with which the arguments alone may be a command.
        command: The container's command.
        arguments: The container's arguments.
        has_input: Whether a client may write to its standard input.

    Example:
        >>> program_of("nginx", ["sh", "-c", "sleep 2m; exit 3"], [])
        Program(seconds=120.0, exit_code=3)
        >>> program_of("nginx", ["nginx"], []) is None
        True
    """
    if command:
        return _command([*command, *arguments])
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    if name not in _PLAIN_IMAGES:
        return None
    # A shell without input ends at once.
    return _command(list(arguments) or [":"]) if arguments or not has_input else None


def _command(words: list[str]) -> Program | None:
    if not words:
        return None
    script = _script_of(words)
    if script is not None:
        return _run_script(*script)
    outcome = _simple(words)
    return outcome if outcome is not None and words[0] != "exit" else None


def _script_of(words: list[str]) -> tuple[str, bool] | None:
    """Returns the script of ``sh -c``, and whether it ends at the first failure (``-e``)."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return None
    flags = ""
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return (word, "e" in flags) if "c" in flags else None
        flags += word[1:]
        if index + 1 == len(words):
            break
    return None


def _run_script(script: str, ends_at_failure: bool) -> Program | None:
    """Returns when and how a script ends; None if it has anything but lists of known commands."""
    steps = _steps(script)
    if steps is None:
        return None
    seconds, status = 0.0, 0
    for index, (operator, words) in enumerate(steps):
        if (operator == "&&" and status) or (operator == "||" and not status):
            continue
        step = _simple(words)
        if step is None:
            return None
        if words[0] == "exit":
            return Program(seconds, step.exit_code if len(words) > 1 else status)
        seconds, status = seconds + step.seconds, step.exit_code
        is_guarded = index + 1 < len(steps) and steps[index + 1][0] != ";"
        if status and ends_at_failure and not is_guarded:
            break
    return Program(seconds, status)


def _steps(script: str) -> list[tuple[str, list[str]]] | None:
    """Returns the commands of a script, each with the operator before it."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation mark that is not closed
        return None
    steps: list[tuple[str, list[str]]] = []
    operator, words, is_comment = ";", [], False
    for token in [*tokens, "\n"]:
        is_comment = (is_comment or token.startswith("#")) and "\n" not in token
        if is_comment:
            continue
        if not set(token) <= set(";&|<>()\n") or not token:
            words.append(token)
            continue
        next_operator = token.replace("\n", "") or ";"
        if next_operator not in _OPERATORS:
            return None
        if words:
            steps.append((operator, words))
            operator, words = next_operator, []
        elif next_operator != ";":
            return None
    return steps


def _simple(words: list[str]) -> Program | None:
    """Returns how long one command runs, and its status; None if it is not known."""
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in _PRINTERS:
        return Program(0.0, 0)
    if any(set(word) & set("$`*") for word in words):
        return None
    if name in ("true", ":", "false"):
        return Program(0.0, int(name == "false"))
    if name == "sleep":
        return _sleep(arguments)
    if words[0] == "exit":
        return _exit(arguments)
    return None


def _sleep(arguments: list[str]) -> Program:
    seconds = 0.0
    for argument in arguments:
        match = _DURATION.fullmatch(argument)
        if argument in ("infinity", "inf"):
            seconds = math.inf
        elif match is None:
            return Program(0.0, _USAGE)
        else:
            seconds += float(match[1]) * _UNITS[match[2] or "s"]
    return Program(seconds, 0) if arguments else Program(0.0, _USAGE)


def _exit(arguments: list[str]) -> Program | None:
    if not arguments:
        return Program(0.0, 0)
    is_number = re.fullmatch(r"[0-9]{1,9}", arguments[0])
    return Program(0.0, int(arguments[0]) % 256) if is_number else None
