"""The usage text: every flag in its group, as ``--help`` and a command line error print it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from mooring.component.feature_gates import known_gates
from mooring.component.flag_table import FLAGS, GROUPS, Flag
from mooring.component.version import BINARY

WIDTH: Final = 100
_SHOWN_STAGES: Final = ("ALPHA", "BETA")

INTRODUCTION: Final = """\
Schedules the pods of a Kubernetes cluster in place of kube-scheduler, with its configuration, its
flags and its decisions. Only pods whose schedulerName is that of a profile are scheduled.
"""


def help_text(program: str) -> str:
    """Returns the text of --help."""
    return f"{INTRODUCTION}\n{usage_text(program)}"


def usage_text(program: str) -> str:
    """Returns the text that comes before an error of the command line."""
    lines = ["Usage:", f"  {program} [flags]", ""]
    for group in GROUPS:
        lines += [f"{group.capitalize()} flags:", ""]
        for flag in sorted((flag for flag in FLAGS.values() if flag.group == group), key=_order):
            lines += _flag_lines(flag)
        lines.append("")
    return "\n".join(lines)


def _order(flag: Flag) -> str:
    return flag.name


def _flag_lines(flag: Flag) -> Iterator[str]:
    short = f"-{flag.short}, " if flag.short else "    "
    yield f"  {short}--{flag.name} {flag.kind.name}".rstrip()
    note = f" No effect: {flag.note}." if flag.note else ""
    text = f"{flag.help}{_default(flag)}{note}"
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10, break_on_hyphens=False
    )
    if flag.name == "feature-gates":
        yield from (f"{' ' * 10}{line}" for line in _gate_lines())


def _default(flag: Flag) -> str:
    text = flag.kind.text(flag.default)
    if text in ("", "false", "0", "[]"):
        return ""
    return f' (default "{text}")' if flag.kind.name == "string" else f" (default {text})"


def _gate_lines() -> Iterator[str]:
    """Yields the gates that are neither GA nor deprecated."""
    for gate in known_gates().values():
        stage = gate.at(BINARY)
        if stage.stage in _SHOWN_STAGES:
            default = str(stage.default).lower()
            yield f"kube:{gate.name}=true|false ({stage.stage} - default={default})"
