"""One program of a control plane as a process that can be killed and started again.

It never outlives the Python process that started it: between them sits a guard (``plane-tool
guard``), which sees a pipe close when its parent ends, however that happens, and takes the program
along. No thread and no code between fork and exec is needed here, so it is safe in programs that
have threads of their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mooring.testing.controlplane.certificates import Pair
from mooring.testing.controlplane.failures import ControlPlaneFailed

__all__ = ["Process", "Readiness"]

#: What of a log is shown in an error.
TAIL_LINES_MAX = 15
TAIL_BYTES_MAX = 16_384
LINE_LENGTH_MAX = 300

#: How often a start looks whether the program has died meanwhile.
LOOK_S = 0.1
#: SIGKILL takes milliseconds, unless the disk hangs.
KILL_S_MAX = 30.0
#: kube-apiserver lets requests end before it does.
TERMINATE_S_MAX = 90.0


@dataclass(frozen=True)
class Readiness:
    """How a program is asked whether it is ready: every path must answer 200."""

    url: str
    paths: Sequence[str]
    authority: Path
    client: Pair

    def flags(self) -> list[str]:
        """Returns the flags of ``plane-tool`` for this server."""
        client = [f"--cert={self.client.certificate}", f"--key={self.client.key}"]
        return [f"--url={self.url}", f"--ca={self.authority}", *client]


@dataclass
class Process:
    """A program: ``launch`` and ``wait_until_ready``, then ``kill`` and ``restart`` as one likes.

    ::

        stopped ── launch ──> running ── kill, terminate, its own end ──> stopped
                                │  ▲
                          pause └──┘ resume
    """

    name: str
    command: Sequence[str]
    tool: Path
    folder: Path
    readiness: Readiness
    environment: Mapping[str, str]
    #: Removed, if the Python process dies without stopping this one.
    litter: Path | None = None
    start_s_max: float = 60.0
    _guard: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """Everything that it ever wrote, all its lives in one file."""
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended since."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The program's process id, for measurements; signals go through the methods here.

        Raises:
            ControlPlaneFailed: it does not run, or was launched a millisecond ago.
        """
        if not self.is_running:
            raise ControlPlaneFailed("is not running", part=self.name)
        if not self._pid_file.exists():
            raise ControlPlaneFailed("has no process id yet", part=self.name)
        return int(self._pid_file.read_text("ascii"))

    def launch(self) -> None:
        """Starts it, and does not wait; its log goes on where it was."""
        assert not self.is_running, f"{self.name} runs already"
        self._pid_file.unlink(missing_ok=True)
        guard = [str(self.tool), "guard", f"--parent={os.getpid()}", f"--pid-file={self._pid_file}"]
        litter = [f"--remove={self.litter}"] if self.litter else []
        with self.log.open("ab") as log:
            # A session of its own: ^C at the terminal is for the parent, which then stops this.
            self._guard = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                [*guard, *litter, "--", *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=dict(self.environment),
                start_new_session=True,
                bufsize=0,
            )

    def wait_until_ready(self) -> None:
        """Returns when it serves.

        Raises:
            ControlPlaneFailed: it ended, or was not ready after ``start_s_max``; with the end of
                its log.
        """
        waiting = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            [
                *(str(self.tool), "wait", *self.readiness.flags()),
                *(f"--seconds={self.start_s_max}", *self.readiness.paths),
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(self.environment),
        )
        with waiting:
            try:
                problem = self._watched(waiting)
            finally:
                waiting.kill()
        if problem:
            problem = f"{problem}; log: {self.log}"
            raise ControlPlaneFailed(problem, part=self.name, log_tail=self.log_tail())

    def kill(self) -> None:
        """Ends it at once, as kill -9 does; returns when it is gone. Harmless when stopped."""
        self._end(b"k", KILL_S_MAX)

    def terminate(self) -> None:
        """Asks it to end (SIGTERM) and waits until it has; kills it if it does not.

        kube-apiserver takes a minute as long as clients have watches open.
        """
        try:
            self._end(b"t", TERMINATE_S_MAX)
        except ControlPlaneFailed:
            self.kill()

    def restart(self) -> None:
        """Starts it again, same port and same data; returns when it is ready. Kills it if it runs.

        Raises:
            ControlPlaneFailed: as ``wait_until_ready``.
        """
        self.kill()
        self.launch()
        self.wait_until_ready()

    def pause(self) -> None:
        """Freezes it (SIGSTOP): connections stay open and nothing answers."""
        self._order(b"s")

    def resume(self) -> None:
        """Lets it go on (SIGCONT)."""
        self._order(b"c")

    def log_tail(self) -> str:
        """Returns the last lines of its log, shortened to what fits on a screen."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL_BYTES_MAX))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(line[:LINE_LENGTH_MAX] for line in lines[-TAIL_LINES_MAX:])

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def _watched(self, waiting: subprocess.Popen[str]) -> str:
        """Waits for the answer, but not longer than the program lives; the problem, or nothing."""
        while True:
            try:
                _, said = waiting.communicate(timeout=LOOK_S)
            except subprocess.TimeoutExpired:
                if self.is_running:
                    continue
                return f"ended while starting (exit code {self._exit_code()})"
            if waiting.returncode == 0:
                return ""
            return said.strip().removeprefix("plane-tool wait: ")

    def _exit_code(self) -> int | None:
        return None if self._guard is None else self._guard.returncode

    def _order(self, order: bytes) -> None:
        if not self.is_running:
            raise ControlPlaneFailed("is not running", part=self.name)
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.write(order)

    def _end(self, order: bytes, limit_s: float) -> None:
        guard = self._guard
        if guard is None:
            return
        assert guard.stdin is not None
        try:
            if guard.poll() is None:
                guard.stdin.write(order)
        except BrokenPipeError:
            pass  # it ended by itself, just now
        try:
            guard.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise ControlPlaneFailed(f"did not end in {limit_s:g} s", part=self.name) from None
        # Closed last: the guard takes a closed pipe for the end of its parent.
        guard.stdin.close()
        self._guard = None
