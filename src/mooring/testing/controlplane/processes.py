"""A program of a control plane as a process that can be killed and restarted.

It never outlives the Python process that started it: its parent is a guard (``plane-tool guard``),
which kills the program when a pipe from the Python process closes. That needs no thread and no code
between fork and exec, so it is safe in programs with threads.
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

#: Limits of the log tail in an error.
TAIL_LINES_MAX = 15
TAIL_BYTES_MAX = 16_384
LINE_LENGTH_MAX = 300

#: Interval at which a start checks whether the program has exited.
POLL_INTERVAL_S = 0.1
#: SIGKILL takes milliseconds, unless the disk hangs.
KILL_S_MAX = 30.0
#: kube-apiserver waits for running requests.
TERMINATE_S_MAX = 90.0


@dataclass(frozen=True)
class Readiness:
    """The readiness check of a program: every path must return 200."""

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
    """A program: ``launch``, ``wait_until_ready``, then any of ``kill``, ``restart`` and so on.

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
    #: A folder that the guard removes if the Python process dies without stopping the program.
    temporary_folder: Path | None = None
    start_s_max: float = 60.0
    _guard: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """The log file, with the output of all starts."""
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def is_running(self) -> bool:
        """True if the program was started and has not exited."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The program's process id, for measurements; signals go through the methods here.

        Raises:
            ControlPlaneFailed: the program does not run, or was launched a millisecond ago.
        """
        if not self.is_running:
            raise ControlPlaneFailed("is not running", part=self.name)
        if not self._pid_file.exists():
            raise ControlPlaneFailed("has no process id yet", part=self.name)
        return int(self._pid_file.read_text("ascii"))

    def launch(self) -> None:
        """Starts the program without waiting; its output is appended to the log."""
        assert not self.is_running, f"{self.name} runs already"
        self._pid_file.unlink(missing_ok=True)
        guard = [str(self.tool), "guard", f"--parent={os.getpid()}", f"--pid-file={self._pid_file}"]
        temporary_folder = [f"--remove={self.temporary_folder}"] if self.temporary_folder else []
        with self.log.open("ab") as log:
            # A separate session: ^C at the terminal goes to the parent, which stops this process.
            self._guard = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                [*guard, *temporary_folder, "--", *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=dict(self.environment),
                start_new_session=True,
                bufsize=0,
            )

    def wait_until_ready(self) -> None:
        """Waits until the program is ready.

        Raises:
            ControlPlaneFailed: it exited, or was not ready after ``start_s_max``; with the tail of
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
                problem = self._wait_for_check(waiting)
            finally:
                waiting.kill()
        if problem:
            problem = f"{problem}; log: {self.log}"
            raise ControlPlaneFailed(problem, part=self.name, log_tail=self.log_tail())

    def kill(self) -> None:
        """Kills the program (SIGKILL) and waits for its end; no-op if stopped."""
        self._end(b"k", KILL_S_MAX)

    def terminate(self) -> None:
        """Terminates the program (SIGTERM) and waits for its end; kills it on timeout.

        kube-apiserver takes a minute while clients have open watches.
        """
        try:
            self._end(b"t", TERMINATE_S_MAX)
        except ControlPlaneFailed:
            self.kill()

    def restart(self) -> None:
        """Kills and starts the program, with the same port and data; waits until it is ready.

        Raises:
            ControlPlaneFailed: see ``wait_until_ready``.
        """
        self.kill()
        self.launch()
        self.wait_until_ready()

    def pause(self) -> None:
        """Stops the program (SIGSTOP): connections stay open without responses."""
        self._order(b"s")

    def resume(self) -> None:
        """Continues the program (SIGCONT)."""
        self._order(b"c")

    def log_tail(self) -> str:
        """Returns the last lines of the log, truncated."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL_BYTES_MAX))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(line[:LINE_LENGTH_MAX] for line in lines[-TAIL_LINES_MAX:])

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def _wait_for_check(self, waiting: subprocess.Popen[str]) -> str:
        """Waits for the readiness check or the program's exit; returns the problem, or ""."""
        while True:
            try:
                _, stderr = waiting.communicate(timeout=POLL_INTERVAL_S)
            except subprocess.TimeoutExpired:
                if self.is_running:
                    continue
                return f"ended while starting (exit code {self._exit_code()})"
            if waiting.returncode == 0:
                return ""
            return stderr.strip().removeprefix("plane-tool wait: ")

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
            pass  # it exited at the same time
        try:
            guard.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise ControlPlaneFailed(f"did not end in {limit_s:g} s", part=self.name) from None
        # Closed last: the guard treats a closed pipe as the end of its parent.
        guard.stdin.close()
        self._guard = None
