"""Ports on the loopback address that stay ours as long as a control plane lives.

Asking the kernel for a free port and giving it to a server later is a race, and a server that was
killed could find its port taken by somebody's outgoing connection when it comes back. So ports are
taken from below the range of outgoing connections, each under a lock that all control planes of a
user respect; who listens besides is read from the kernel's table.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from mooring.testing.controlplane.failures import ControlPlaneUnavailable

__all__ = ["Ports", "listening"]

#: Linux takes the ports of outgoing connections from 32768 up; well-known servers sit lower.
FIRST, LAST = 24000, 31999

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTEN = "0A"


class Ports:
    """The ports of one control plane; given back by ``release`` or the end of the process."""

    def __init__(self, folder: Path, *, tables: tuple[Path, ...] = TABLES) -> None:
        """Locks are files in ``folder``, one per port that was ever used; it is made if missing."""
        self._folder = folder
        self._tables = tables
        self._held: list[IO[str]] = []

    def reserve(self) -> int:
        """Returns a port that nobody listens on and no other control plane has.

        Raises:
            ControlPlaneUnavailable: there is none left.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        taken = listening(self._tables)
        for port in range(FIRST, LAST + 1):
            if port not in taken and self._lock(port):
                return port
        raise ControlPlaneUnavailable(f"every port from {FIRST} to {LAST} is taken")

    def release(self) -> None:
        """Gives all of them back; harmless when repeated."""
        while self._held:
            self._held.pop().close()

    def _lock(self, port: int) -> bool:
        file = (self._folder / str(port)).open("a", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._held.append(file)
        return True


def listening(tables: tuple[Path, ...] = TABLES) -> frozenset[int]:
    """Returns the TCP ports that somebody on this machine listens on, on whatever address."""
    ports = set()
    for table in tables:
        if not os.access(table, os.R_OK):
            continue  # a kernel without IPv6
        for line in table.read_text("ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN:
                ports.add(int(local.rpartition(":")[2], 16))
    return frozenset(ports)
