"""Host ports by row, compared with a list of the pods that use them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mooring.state.columns.ports import PortTable

HostPort = tuple[str, str, int]

ANY = "0.0.0.0"
PORTS = st.tuples(
    st.sampled_from((ANY, "10.0.0.1", "10.0.0.2")),
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from((80, 443)),
)


def conflict(one: HostPort, other: HostPort) -> bool:
    """Returns whether two pods cannot use these ports on one node."""
    same_address = one[0] == other[0] or ANY in (one[0], other[0])
    return same_address and one[1:] == other[1:]


def test_all_ports_of_a_row_are_listed_with_the_number_of_their_pods() -> None:
    table = PortTable()
    first, second = (ANY, "TCP", 80), ("10.0.0.1", "TCP", 80)
    table.add(3, [first, second])
    table.add(3, [second])
    table.add(4, [first])

    assert table.on_row(3) == {first: 1, second: 2}
    assert table.on_row(4) == {first: 1}
    assert sorted(table.items()) == [(3, first, 1), (3, second, 2), (4, first, 1)]


def test_each_of_several_ports_may_be_the_one_in_conflict() -> None:
    table = PortTable()
    table.add(0, [("10.0.0.1", "TCP", 443)])

    wanted = [(ANY, "TCP", 80), ("10.0.0.2", "TCP", 443), ("10.0.0.1", "TCP", 443)]

    assert table.rows_in_conflict(wanted) == {0: 1}
    assert table.rows_in_conflict(wanted[:2]) == {}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(PORTS, max_size=3)), max_size=8),
    st.sets(st.integers(0, 7)),
    st.lists(PORTS, max_size=3),
)
def test_conflicts_are_those_with_any_pod_that_is_left(
    pods: list[tuple[int, list[HostPort]]], removed: set[int], wanted: list[HostPort]
) -> None:
    table = PortTable()
    for row, ports in pods:
        table.add(row, ports)
    for index in removed & set(range(len(pods))):
        table.remove(*pods[index])
    left = [pods[index] for index in range(len(pods)) if index not in removed]

    used: Counter[tuple[int, HostPort]] = Counter()
    for row, ports in left:
        used.update((row, port) for port in ports)
    expected: dict[int, dict[HostPort, int]] = {}
    for (row, port), count in used.items():
        if any(conflict(port, one) for one in wanted):
            expected.setdefault(row, {})[port] = count

    assert table.ports_in_conflict(wanted) == expected
    assert table.rows_in_conflict(wanted) == {
        row: sum(ports.values()) for row, ports in expected.items()
    }
    assert {(row, port): count for row, port, count in table.items()} == used
