"""Host ports in use, by port first: a pod asks about its own few ports, not about all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

#: A host port as plugins and pods name it: (address, protocol, port), already defaulted.
HostPort = tuple[str, str, int]

#: This address conflicts with every other one.
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never listened on


def conflicts(wanted: HostPort, used: HostPort) -> bool:
    """Returns whether two pods cannot have these two host ports on one node.

    Source: k8s.io/kube-scheduler framework/types.go (HostPortInfo.CheckConflict).
    """
    if wanted[1:] != used[1:]:
        return False
    return ANY_ADDRESS in (wanted[0], used[0]) or wanted[0] == used[0]


class PortTable:
    """(protocol, port) -> row -> address -> number of pods that hold it.

    Differs: upstream keeps a set, so that of two pods which hold one port (a foreign scheduler may
    place such pods) the first to go frees it; here holders are counted.
    """

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod on ``row`` holds ``ports``."""
        for address, protocol, port in ports:
            by_row = self._holders.setdefault((protocol, port), {})
            held = by_row.setdefault(row, {})
            held[address] = held.get(address, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod on ``row`` gives ``ports`` back."""
        for address, protocol, port in ports:
            by_row = self._holders[protocol, port]
            held = by_row[row]
            held[address] -= 1
            if held[address] == 0:
                del held[address]
            if not held:
                del by_row[row]
            if not by_row:
                del self._holders[protocol, port]

    def rows_in_conflict(self, wanted: Iterable[HostPort]) -> dict[int, int]:
        """Row -> how many holders of ports there conflict with some of ``wanted``; never 0."""
        return {row: sum(held.values()) for row, held in self.held_in_conflict(wanted).items()}

    def held_in_conflict(self, wanted: Iterable[HostPort]) -> dict[int, dict[HostPort, int]]:
        """Row -> the ports held there that conflict with some of ``wanted``, and by how many."""
        addresses: dict[tuple[str, int], set[str]] = {}
        for address, protocol, port in wanted:
            addresses.setdefault((protocol, port), set()).add(address)
        rows: dict[int, dict[HostPort, int]] = {}
        for (protocol, port), of_port in addresses.items():
            for row, held in self._holders.get((protocol, port), {}).items():
                found = {
                    (address, protocol, port): ref_count
                    for address, ref_count in held.items()
                    if ANY_ADDRESS in of_port or address == ANY_ADDRESS or address in of_port
                }
                if found:
                    rows.setdefault(row, {}).update(found)
        return rows

    def items(self) -> Iterator[tuple[int, HostPort, int]]:
        """(row, host port, holders) of everything held, for the audit."""
        for (protocol, port), by_row in self._holders.items():
            for row, held in by_row.items():
                for address, ref_count in held.items():
                    yield row, (address, protocol, port), ref_count

    def on_row(self, row: int) -> dict[HostPort, int]:
        """The host ports held on ``row`` and by how many pods. Complexity: O(distinct ports)."""
        return {port: ref_count for at, port, ref_count in self.items() if at == row}
