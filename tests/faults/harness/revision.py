"""The commit of the tree: a seed reproduces its run only with the same code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def commit(root: Path = ROOT) -> str:
    """Returns the commit hash, with "+" if files are changed; "unknown" without git."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    try:
        head = _output(git, root, "rev-parse", "--short=12", "HEAD")
        changes = _output(git, root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}+" if changes else head


def _output(git: str, root: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [git, "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return answer.stdout.strip()
