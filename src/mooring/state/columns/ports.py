"""Host ports in use, indexed by port: a pod has few ports, the cluster many nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

#: A host port: (address, protocol, port), with defaults.
HostPort = tuple[str, str, int]

#: This address conflicts with every other one.
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never bound


def conflicts(requested: HostPort, used: HostPort) -> bool:
    """Returns whether two pods cannot have these two host ports on one node.

    Source: k8s.io/kube-scheduler framework/types.go (HostPortInfo.CheckConflict).
    """
    if requested[1:] != used[1:]:
        return False
    return ANY_ADDRESS in (requested[0], used[0]) or requested[0] == used[0]


class PortTable:
    """The index (protocol, port) -> row -> address -> number of pods that use it.

    Differs: upstream keeps a set, so of two pods with the same port (another scheduler may place
    such pods) the first removed one frees it; here pods are counted.
    """

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Adds the ports of a pod on ``row``."""
        for address, protocol, port in ports:
            by_row = self._users.setdefault((protocol, port), {})
            used = by_row.setdefault(row, {})
            used[address] = used.get(address, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Removes the ports of a pod on ``row``."""
        for address, protocol, port in ports:
            by_row = self._users[protocol, port]
            used = by_row[row]
            used[address] -= 1
            if used[address] == 0:
                del used[address]
            if not used:
                del by_row[row]
            if not by_row:
                del self._users[protocol, port]

    def rows_in_conflict(self, ports: Iterable[HostPort]) -> dict[int, int]:
        """Returns row -> number of ports in use there that conflict with ``ports``; never 0."""
        return {row: sum(used.values()) for row, used in self.ports_in_conflict(ports).items()}

    def ports_in_conflict(self, wanted: Iterable[HostPort]) -> dict[int, dict[HostPort, int]]:
        """Returns row -> ports in use there that conflict with ``ports``, with pod counts."""
        addresses: dict[tuple[str, int], set[str]] = {}
        for address, protocol, port in wanted:
            addresses.setdefault((protocol, port), set()).add(address)
        rows: dict[int, dict[HostPort, int]] = {}
        for (protocol, port), of_port in addresses.items():
            for row, held in self._users.get((protocol, port), {}).items():
                found = {
                    (address, protocol, port): ref_count
                    for address, ref_count in held.items()
                    if ANY_ADDRESS in of_port or address == ANY_ADDRESS or address in of_port
                }
                if found:
                    rows.setdefault(row, {}).update(found)
        return rows

    def items(self) -> Iterator[tuple[int, HostPort, int]]:
        """Returns (row, host port, number of pods) of all ports in use, for the audit."""
        for (protocol, port), by_row in self._users.items():
            for row, used in by_row.items():
                for address, ref_count in used.items():
                    yield row, (address, protocol, port), ref_count

    def on_row(self, row: int) -> dict[HostPort, int]:
        """Returns the host ports in use on ``row``, with pod counts. Complexity: O(all ports)."""
        return {port: ref_count for at, port, ref_count in self.items() if at == row}
