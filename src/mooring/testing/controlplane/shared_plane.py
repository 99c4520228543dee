"""One control plane for several processes, such as the workers of a parallel test run.

The first that asks starts a keeper, which starts the control plane and holds it as long as anybody
uses it. Whoever uses it holds a named pipe open; the kernel closes that whatever happens to its
holder, and when the last one is closed the keeper reads the end of the file, and ends::

    worker 1 ──┐ writes nothing
    worker 2 ──┼──> lifeline (named pipe) ──> keeper ── ControlPlane
    worker 3 ──┘

A lock file orders those who come and the keeper that wants to go.
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

#: Of what a keeper says on its standard output: a description in JSON, or why there is none.
ANSWER_BYTES_MAX = 20_000


@contextmanager
def shared(folder: Path) -> Iterator[Access]:
    """Returns the control plane that all users of ``folder`` share; started by the first of them.

    It has no scheduler and no controllers, and nobody may kill its parts: whoever wants that takes
    a ``ControlPlane``. Users keep apart by namespaces.

    Args:
        folder: The meeting point, made if missing; any folder that only these processes use.

    Raises:
        ControlPlaneUnavailable: there are no programs, and they cannot be built.
        ControlPlaneFailed: it did not start.
    """
    programs = build(report=_say)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        lifeline = _join(folder)
        if lifeline is None:
            _start_keeper(folder)
            lifeline = _join(folder)
        if lifeline is None:
            raise ControlPlaneFailed("it went as soon as it came", part="keeper")
        found = _description(folder)
    try:
        yield Access(Path(found["folder"]), programs=programs, url=found["url"])
    finally:
        os.close(lifeline)


def keep(folder: Path) -> None:
    """Is the keeper: start a control plane, describe it, and holds it until nobody uses it.

    Whoever starts a keeper holds the lock of the folder until it has joined. If it dies before,
    nobody knows of the lifeline, and the keeper sees that nobody holds it.

    Raises:
        ControlPlaneUnavailable: as ``ControlPlane``.
        ControlPlaneFailed: likewise.
    """
    with ControlPlane() as plane:
        lifeline = plane.folder / "lifeline"
        os.mkfifo(lifeline, 0o600)
        # Not blocking: there is no writer yet, and to open it would wait for one.
        pipe = os.open(lifeline, os.O_RDONLY | os.O_NONBLOCK)
        found = {"folder": str(plane.folder), "url": plane.url, "lifeline": str(lifeline)}
        _answer(json.dumps(found))
        _wait_until_unused(folder, pipe)


def _join(folder: Path) -> int | None:
    """Holds the lifeline: a file descriptor; None if no keeper reads it. Under the lock only."""
    with suppress(OSError):
        return os.open(_description(folder)["lifeline"], os.O_WRONLY | os.O_NONBLOCK)
    return None


def _description(folder: Path) -> dict[str, str]:
    """What the last keeper said; it may be gone."""
    found = json.loads((folder / DESCRIPTION).read_text("utf-8"))
    return {name: str(found[name]) for name in ("folder", "url", "lifeline")}


def _start_keeper(folder: Path) -> None:
    """Starts a keeper, wait until its control plane is ready, and writes down what it says."""
    with (folder / KEEPER_LOG).open("ab") as log:
        keeper = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            [sys.executable, "-m", "mooring.testing.controlplane", "keep", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout as said:
        answer = said.read(ANSWER_BYTES_MAX).decode("utf-8", errors="replace").strip()
    if not answer.startswith("{"):
        keeper.wait()
        problem = answer or f"ended without a word; log: {folder / KEEPER_LOG}"
        raise ControlPlaneFailed(problem, part="keeper")
    # It may outlive us: others use it. Then nobody waits for it, and that is no mistake.
    keeper.returncode = 0
    partial = folder / f"{DESCRIPTION}.new"
    partial.write_text(answer, encoding="utf-8")
    partial.replace(folder / DESCRIPTION)


def _answer(text: str) -> None:
    """Says it and closes the standard output: the starter reads to its end."""
    sys.stdout.write(text)
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _wait_until_unused(folder: Path, pipe: int) -> None:
    """Return, the pipe closed, when its last writer is gone; nobody can join from then on.

    The first one opens it while it still holds the lock, so before this function gets it.
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
    """Whether somebody holds the other end; reading then says "later" instead of "the end"."""
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / LOCK).open("a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
