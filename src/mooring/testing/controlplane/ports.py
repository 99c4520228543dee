"""Ports on the loopback address, reserved for the lifetime of a control plane.

A free port from the kernel could be taken before the server binds it, and the port of a killed
server could be taken by an outgoing connection before its restart. So ports are below the range of
outgoing connections, each with a lock file shared by all control planes of a user; ports of other
servers are read from the kernel's table.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from mooring.testing.controlplane.failures import ControlPlaneUnavailable

__all__ = ["Ports", "listening"]

#: Linux uses ports from 32768 up for outgoing connections; well-known servers use lower ones.
FIRST, LAST = 24000, 31999

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTEN = "0A"


class Ports:
    """The ports of a control plane; freed by ``release`` or the end of the process."""

    def __init__(self, folder: Path, *, tables: tuple[Path, ...] = TABLES) -> None:
        """Keeps one lock file per port in ``folder``, which is created if missing."""
        self._folder = folder
        self._tables = tables
        self._locks: list[IO[str]] = []

    def reserve(self) -> int:
        """Reserves a port that no process listens on and no other control plane has.

        Raises:
            ControlPlaneUnavailable: no port is free.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        used = listening(self._tables)
        for port in range(FIRST, LAST + 1):
            if port not in used and self._lock(port):
                return port
        raise ControlPlaneUnavailable(f"every port from {FIRST} to {LAST} is taken")

    def release(self) -> None:
        """Frees all ports; idempotent."""
        while self._locks:
            self._locks.pop().close()

    def _lock(self, port: int) -> bool:
        file = (self._folder / str(port)).open("a", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._locks.append(file)
        return True


def listening(tables: tuple[Path, ...] = TABLES) -> frozenset[int]:
    """Returns the TCP ports in state LISTEN on this machine, on any address."""
    ports = set()
    for table in tables:
        if not os.access(table, os.R_OK):
            continue  # a kernel without IPv6
        for line in table.read_text("ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN:
                ports.add(int(local.rpartition(":")[2], 16))
    return frozenset(ports)
