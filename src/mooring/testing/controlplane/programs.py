"""Runs one program to its end. The only thing that the rest must know about ``subprocess.run``."""

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
    """What the program wrote, and its exit code, whatever that is.

    Raises:
        OSError: it could not be started.
        subprocess.TimeoutExpired: it ran longer than ``limit_s`` seconds, and was killed.
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
