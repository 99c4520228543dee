"""Runs a program to completion."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_program"]


def run_program(
    command: Sequence[str | Path],
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs a program; returns its output and exit code. A nonzero code is no error.

    Raises:
        OSError: the program could not be started.
        subprocess.TimeoutExpired: it ran longer than ``limit_s`` seconds and was killed.
    """
    return subprocess.run(  # noqa: S603 - a list of arguments, no shell; they come from this package
        command,
        input=stdin,
        env=None if environment is None else dict(environment),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
