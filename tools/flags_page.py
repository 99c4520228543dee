"""Writes docs/reference/flags.md: every flag of ``mooring run`` and every feature gate that matters.

``python tools/flags_page.py`` writes the page; a test compares it with the tables in the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mooring.component.feature_gates import known_gates
from mooring.component.flag_table import FLAGS, GROUPS, Flag
from mooring.component.gate_support import DEFAULTS_MISSING, MISSING, PARTIAL
from mooring.component.version import BINARY

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "flags.md"

INTRODUCTION = """\
# Flags and feature gates

<!-- Written by tools/flags_page.py. -->

`mooring run` has the flags of kube-scheduler v1.36.3, with their names, types and defaults, and four
of its own. They are parsed as kube-scheduler parses them: `_` and `-` are the same, names are never
abbreviated, `--flag value` and `--flag=value` are the same, and a boolean takes its value only after
`=`. A command line that cannot be parsed prints the usage text, then `Error: ...`; everything else
that prevents the start is the last line of the log, `"command failed" err="..."`. The exit code is 1.

## Which value is in effect

| Flags | Without `--config` | With `--config` |
|---|---|---|
| `--kube-api-*`, `--profiling`, `--contention-profiling` | in effect if given | ignored |
| `--kubeconfig` | in effect if given | in effect if the file names no kubeconfig; kube-scheduler fails then |
| `--leader-elect*` | in effect if given | in effect if given, field by field |
| all others | in effect | in effect |

Without a kubeconfig in flag or file, mooring uses `$KUBECONFIG`, then `~/.kube/config`, then the
service account of its pod. kube-scheduler reads the last one only.

`--write-config-to` writes the configuration in effect, checks the profiles, and exits with 0.
"""

GATES = """\
## Feature gates

`--feature-gates` accepts the 241 gates of kube-scheduler v1.36.3 and refuses what it refuses, with
the same text. Most of them concern other components of Kubernetes, and setting them changes nothing,
as in kube-scheduler. `--emulated-version` gives the gates the defaults of an older version, 1.33 to
1.35; gates with a default that mooring does not implement are logged as warnings.

Values that mooring does not implement are refused if they are set:

| Gate | Default | Refused | Why |
|---|---|---|---|
"""

IN_PART = """
Accepted, and logged as a warning:

| Gate | Value | What mooring does all the same |
|---|---|---|
"""

DEFAULTS = """
On by default, although mooring lacks what they add; switching them off is accepted:

| Gate | What is missing |
|---|---|
"""


def page() -> str:
    """Returns the text of the page."""
    return "\n".join([INTRODUCTION, *_flag_tables(), GATES + "\n".join(_gates()), ""])


def _flag_tables() -> Iterator[str]:
    yield "## Flags\n"
    for group in GROUPS:
        flags = sorted(
            (flag for flag in FLAGS.values() if flag.group == group), key=lambda flag: flag.name
        )
        yield f"### {group.capitalize()} flags\n"
        yield "| Flag | Default | Meaning |\n|---|---|---|"
        yield from map(_row, flags)
        yield ""


def _row(flag: Flag) -> str:
    short = f"`-{flag.short}`, " if flag.short else ""
    kind = f" {flag.kind.name}" if flag.kind.name and flag.kind.without_value is None else ""
    default = flag.kind.text(flag.default)
    shown = "" if default in ("", "[]") else f"`{default}`"
    note = f" **No effect**: {flag.note}; giving it is logged as a warning." if flag.note else ""
    text = f"{flag.help}{note}".replace("|", "\\|")
    return f"| {short}`--{flag.name}`{kind} | {shown} | {text} |"


def _gates() -> Iterator[str]:
    for (name, value), reason in sorted(MISSING.items()):
        default = str(known_gates()[name].at(BINARY).default).lower()
        yield f"| `{name}` | {default} | {str(value).lower()} | {reason} |"
    yield IN_PART.rstrip("\n")
    for (name, value), reason in sorted(PARTIAL.items()):
        yield f"| `{name}` | {str(value).lower()} | {reason} |"
    yield DEFAULTS.rstrip("\n")
    for name, reason in sorted(DEFAULTS_MISSING.items()):
        yield f"| `{name}` | {reason} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
