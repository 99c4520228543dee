"""``mooring run`` and ``mooring start`` as people run them: processes of their own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

END_S = 30.0
WAIT_S = 60.0


def free_port() -> int:
    """Returns a free port of the loopback interface."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def heed_interrupts() -> None:
    """Restores SIGINT in a new process, since background test runs may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Program:
    """A mooring that runs.

    Attributes:
        process: Its process.
        out: What it prints, a file.
        err: What it says, a file.
    """

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self.out = out
        self.err = err

    def wait_for(self, text: str) -> None:
        """Returns when it has said or printed this."""
        wait_until(lambda: text in self.said() or self.process.poll() is not None)
        assert text in self.said()

    def said(self) -> str:
        """Returns all so far."""
        return self.out.read_text() + self.err.read_text()

    def end(self, number: int) -> int:
        """Sends a signal, and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_S)


def wait_until(holds: Callable[[], Any]) -> None:
    """Waits until a condition holds, for at most a minute."""
    ends_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends_s, "it never came"
        time.sleep(0.05)


@contextmanager
def mooring(folder: Path, *words: str) -> Iterator[Program]:
    """Runs ``mooring WORDS`` in ``folder``; killed with the block if it has not ended."""
    if words[0] == "run" and not any(word.startswith("--secure-port") for word in words):
        # Several of them run on this host: only those whose endpoints are tested have a port.
        words = (*words, "--secure-port=0")
    out, err = folder / "stdout", folder / "stderr"
    with (
        out.open("w") as stdout,
        err.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "mooring", *words], cwd=folder, stdout=stdout, stderr=stderr
        ) as process,
    ):
        try:
            yield Program(process, out, err)
        finally:
            if process.poll() is None:
                process.kill()


def once(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs ``mooring WORDS`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "mooring", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
