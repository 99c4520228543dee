"""Ports of control planes: free, locked, given back."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from mooring.testing.controlplane.failures import ControlPlaneUnavailable
from mooring.testing.controlplane.ports import FIRST, LAST, Ports, listening

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


def table(path: Path, *rows: tuple[int, str]) -> Path:
    """Returns a kernel table with sockets of (local port, state)."""
    lines = [
        f"   {number}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 0\n"
        for number, (port, state) in enumerate(rows)
    ]
    path.write_text(HEADER + "".join(lines), encoding="ascii")
    return path


def test_listening_ports_are_read_and_other_sockets_are_not(tmp_path: Path) -> None:
    tcp = table(tmp_path / "tcp", (6443, "0A"), (6444, "01"), (6445, "06"))
    assert listening((tcp, tmp_path / "no-tcp6")) == {6443}


def test_a_real_listener_is_seen() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert port in listening()
    assert port not in listening()


def test_ports_that_somebody_listens_on_are_left_out(tmp_path: Path) -> None:
    tables = (table(tmp_path / "tcp", (FIRST, "0A"), (FIRST + 2, "0A")),)
    ports = Ports(tmp_path / "locks", tables=tables)
    assert [ports.reserve(), ports.reserve()] == [FIRST + 1, FIRST + 3]
    ports.release()


def test_a_reserved_port_is_nobody_elses_until_it_is_released(tmp_path: Path) -> None:
    tables = (table(tmp_path / "tcp"),)
    one, other = Ports(tmp_path, tables=tables), Ports(tmp_path, tables=tables)
    assert one.reserve() == FIRST
    assert other.reserve() == FIRST + 1
    one.release()
    one.release()
    assert other.reserve() == FIRST
    other.release()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    lowest = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0]
    if int(lowest) >= 32768:  # the kernel's own default or above
        assert int(lowest) > LAST


def test_no_port_left_is_said(tmp_path: Path) -> None:
    full = table(tmp_path / "tcp", *((port, "0A") for port in range(FIRST, LAST + 1)))
    with pytest.raises(ControlPlaneUnavailable, match=f"from {FIRST} to {LAST} is taken"):
        Ports(tmp_path / "locks", tables=(full,)).reserve()
