"""One control plane for several processes, such as the workers of a parallel test run.

The first user starts a keeper process, which runs the control plane while it has users. Each user
keeps a named pipe open for writing; the kernel closes it when the user's process ends. When the
last writer is closed, the keeper reads the end of the file and exits::

    worker 1 ──┐ writes nothing
    worker 2 ──┼──> keepalive pipe ──> keeper ── ControlPlane
    worker 3 ──┘

A lock file serializes joining users and an exiting keeper.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mooring.testing.controlplane.binaries import build
from mooring.testing.controlplane.control_plane import ControlPlane
from mooring.testing.controlplane.failures import ControlPlaneFailed
from mooring.testing.controlplane.kubeconfig import Access

__all__ = ["keep", "shared"]

LOCK, DESCRIPTION, KEEPER_LOG = "lock", "plane.json", "keeper.log"

#: Size limit of a keeper's standard output: a JSON description, or an error.
OUTPUT_BYTES_MAX = 20_000


@contextmanager
def shared(folder: Path) -> Iterator[Access]:
    """Yields the control plane shared by all users of ``folder``; the first user starts it.

    It has no scheduler and no controllers, and its parts must not be killed; use a ``ControlPlane``
    for that. Users separate their objects by namespaces.

    Args:
        folder: A folder that only these processes use; created if missing.

    Raises:
        ControlPlaneUnavailable: the programs are missing and cannot be built.
        ControlPlaneFailed: it did not start.
    """
    programs = build(report=_print_progress)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        keepalive_pipe = _open_keepalive_pipe(folder)
        if keepalive_pipe is None:
            _start_keeper(folder)
            keepalive_pipe = _open_keepalive_pipe(folder)
        if keepalive_pipe is None:
            raise ControlPlaneFailed("exited right after its start", part="keeper")
        description = _description(folder)
    try:
        yield Access(Path(description["folder"]), programs=programs, url=description["url"])
    finally:
        os.close(keepalive_pipe)


def keep(folder: Path) -> None:
    """Runs the keeper: starts a control plane, prints its description, waits for its last user.

    The starter of a keeper holds the folder's lock until it has joined. If it dies before that, the
    pipe has no writer, and the keeper exits.

    Raises:
        ControlPlaneUnavailable: see ``ControlPlane``.
        ControlPlaneFailed: see ``ControlPlane``.
    """
    with ControlPlane() as plane:
        keepalive_pipe = plane.folder / "keepalive_pipe"
        os.mkfifo(keepalive_pipe, 0o600)
        # Nonblocking: opening would wait for a writer, and there is none yet.
        pipe = os.open(keepalive_pipe, os.O_RDONLY | os.O_NONBLOCK)
        description = {
            "folder": str(plane.folder),
            "url": plane.url,
            "keepalive_pipe": str(keepalive_pipe),
        }
        _print_description(json.dumps(description))
        _wait_until_unused(folder, pipe)


def _open_keepalive_pipe(folder: Path) -> int | None:
    """Opens the keepalive pipe; None if no keeper reads it. Call with the lock held."""
    with suppress(OSError):
        return os.open(_description(folder)["keepalive_pipe"], os.O_WRONLY | os.O_NONBLOCK)
    return None


def _description(folder: Path) -> dict[str, str]:
    """Returns the last keeper's description; that keeper may have exited."""
    description = json.loads((folder / DESCRIPTION).read_text("utf-8"))
    return {name: str(description[name]) for name in ("folder", "url", "keepalive_pipe")}


def _start_keeper(folder: Path) -> None:
    """Starts a keeper, waits until its control plane is ready, and stores its description."""
    with (folder / KEEPER_LOG).open("ab") as log:
        keeper = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            [sys.executable, "-m", "mooring.testing.controlplane", "keep", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout as stdout:
        output = stdout.read(OUTPUT_BYTES_MAX).decode("utf-8", errors="replace").strip()
    if not output.startswith("{"):
        keeper.wait()
        problem = output or f"exited without output; log: {folder / KEEPER_LOG}"
        raise ControlPlaneFailed(problem, part="keeper")
    # The keeper may outlive this process; set a returncode to avoid a ResourceWarning.
    keeper.returncode = 0
    partial = folder / f"{DESCRIPTION}.new"
    partial.write_text(output, encoding="utf-8")
    partial.replace(folder / DESCRIPTION)


def _print_description(text: str) -> None:
    """Writes the description and closes standard output, which the starter reads to its end."""
    sys.stdout.write(text)
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _print_progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _wait_until_unused(folder: Path, pipe: int) -> None:
    """Waits until the pipe has no writer, then closes it, so that no user can join.

    The first user opens the pipe with the lock held, thus before this function gets the lock.
    """
    while True:
        with _locked(folder):
            if not _has_writers(pipe):
                os.close(pipe)
                return
        os.set_blocking(pipe, True)
        while os.read(pipe, 1):
            pass
        os.set_blocking(pipe, False)


def _has_writers(pipe: int) -> bool:
    """Returns True if the pipe has a writer: a read then would block."""
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / LOCK).open("a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
