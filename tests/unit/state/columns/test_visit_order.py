"""VisitOrder against a direct reading of the rule: zones take turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.state.columns.visit_order import BETA_ZONE, REGION, ZONE, VisitOrder, zone_key


def test_zones_take_turns_in_order_of_their_first_node() -> None:
    order = VisitOrder()
    for row, zone in enumerate("aabcab"):
        order.put(row, zone)

    assert order.rows() == [0, 2, 3, 1, 5, 4]


def test_a_zone_that_lost_its_last_node_comes_back_at_the_end() -> None:
    order = VisitOrder()
    order.put(0, "a")
    order.put(1, "b")
    order.remove(0)

    order.put(2, "a")

    assert order.rows() == [1, 2]


def test_a_node_that_changes_its_zone_arrives_there_anew() -> None:
    order = VisitOrder()
    for row in range(3):
        order.put(row, "a")
    order.put(0, "b")
    order.put(0, "a")

    assert order.rows() == [1, 2, 0]


def test_a_node_that_changes_its_zone_keeps_its_place_until_a_node_comes_or_goes() -> None:
    order = VisitOrder()
    for row, zone in enumerate("aab"):
        order.put(row, zone)
    assert order.rows() == [0, 2, 1]

    order.put(0, "b")
    assert (order.rows(), order.array().tolist()) == ([0, 2, 1], [0, 2, 1])
    order.put(3, "c")
    assert order.rows() == [1, 2, 3, 0]


def test_the_array_and_the_places_say_the_same_as_the_list() -> None:
    order = VisitOrder()
    order.put(4, "a")
    order.put(1, "b")

    assert order.array().tolist() == [4, 1]
    assert order.positions().tolist() == [-1, 1, -1, -1, 0]
    order.remove(4)
    assert order.array().tolist() == [1]
    assert order.positions().tolist() == [-1, 0]


def test_it_is_by_row_without_zones_and_reused_rows() -> None:
    order = VisitOrder()
    for row in range(3):
        order.put(row, "")
    assert order.is_by_row
    order.remove(1)
    assert order.is_by_row

    order.put(1, "")

    assert order.rows() == [0, 2, 1]
    assert not order.is_by_row


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b", "c", None]))))
def test_random_arrivals_and_departures_follow_the_rule(
    steps: list[tuple[int, str | None]],
) -> None:
    order = VisitOrder()
    zones: list[tuple[str, list[int]]] = []

    def leave(row: int) -> None:
        for entry in list(zones):
            if row in entry[1]:
                entry[1].remove(row)
                if not entry[1]:
                    zones.remove(entry)

    for row, zone in steps:
        at = next((name for name, rows in zones if row in rows), None)
        if zone is None:
            if at is not None:
                order.remove(row)
                leave(row)
        elif at != zone:
            order.put(row, zone)
            leave(row)
            existing = next((rows for name, rows in zones if name == zone), None)
            if existing is None:
                zones.append((zone, [row]))
            else:
                existing.append(row)
        else:
            order.put(row, zone)
    expected, turn = [], 0
    while any(turn < len(rows) for _, rows in zones):
        expected += [rows[turn] for _, rows in zones if turn < len(rows)]
        turn += 1
    assert order.rows() == expected


def test_the_zone_key_joins_region_and_zone_and_prefers_the_beta_labels() -> None:
    assert zone_key({}) == ""
    assert zone_key({ZONE: "a"}) == zone_key({BETA_ZONE: "a"}) != ""
    assert zone_key({ZONE: "a", BETA_ZONE: "b"}) == zone_key({BETA_ZONE: "b"})
    assert zone_key({ZONE: "a", REGION: "r"}) != zone_key({ZONE: "a"})
    assert zone_key({REGION: "r"}) != ""
