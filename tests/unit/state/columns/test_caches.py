"""LRUCache and NodeCache: the order of eviction, and when entries are stale."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.state import Change, ChangeLog
from mooring.state.cache import Cache
from mooring.state.columns.caches import LRUCache, NodeCache
from mooring.testing import make_node, make_pod

READS = Change.EXISTENCE | Change.LABELS


def filled(limit: int, keys: str) -> LRUCache[str, int]:
    cache: LRUCache[str, int] = LRUCache(limit)
    for number, key in enumerate(keys):
        cache.put(key, number)
    return cache


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = filled(3, "abc")
    assert cache.recent("a") == 0

    assert cache.put("d", 3) == 3

    assert list(cache.items()) == [("c", 2), ("a", 0), ("d", 3)]


def test_put_of_a_cached_key_replaces_the_value_and_counts_as_use() -> None:
    cache = filled(2, "ab")

    cache.put("a", 9)
    cache.put("c", 2)

    assert dict(cache) == {"a": 9, "c": 2}


def test_the_methods_of_a_dict_do_not_count_as_use() -> None:
    cache = filled(2, "ab")

    assert (cache["a"], cache.get("a"), "a" in cache) == (0, 0, True)
    cache["a"] = 5
    cache.put("c", 2)

    assert list(cache) == ["b", "c"]


def test_recent_of_an_unknown_key_returns_none_and_adds_nothing() -> None:
    cache = filled(2, "ab")

    assert cache.recent("c") is None
    assert list(cache) == ["a", "b"]


def test_falsy_values_are_entries() -> None:
    cache = filled(2, "ab")  # the value of "a" is 0

    cache.recent("a")

    assert list(cache) == ["b", "a"]


def test_a_lower_limit_is_applied_by_evict() -> None:
    cache = filled(4, "abcd")
    assert cache.evict() == []

    cache.limit = 3

    assert cache.evict() == [("a", 0)]
    assert cache.evict(space=2) == [("b", 1), ("c", 2)]
    assert list(cache) == ["d"]


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6))))
def test_the_entries_are_the_last_used_keys(limit: int, calls: list[tuple[bool, int]]) -> None:
    cache: LRUCache[int, int] = LRUCache(limit)
    expected: list[int] = []  # the cached keys, in the order of their last use
    for is_put, key in calls:
        assert (cache.recent(key) is not None) == (key in expected)
        if is_put:
            cache.put(key, key)
        if is_put or key in expected:
            expected = [*(other for other in expected if other != key), key][-limit:]
        assert list(cache) == expected


# -- NodeCache ----------------------------------------------------------------------------------


def is_stale_after(change: Callable[[Cache], object], reads: Change = READS) -> bool:
    """Fills a cache, changes the cluster, and returns whether the entry is gone."""
    cluster = Cache()
    for number in range(63):
        cluster.put_node(make_node(f"node-{number}"))
    nodes = cluster.nodes
    cache: NodeCache[str, int] = NodeCache(8, reads)
    cache.invalidate_if_stale(nodes.log, nodes.size)
    cache.put("a", 1)
    version = cache.version
    change(cluster)
    cache.invalidate_if_stale(nodes.log, nodes.size)
    assert (cache.version == version) == ("a" in cache)
    return "a" not in cache


def put_pod(node_name: str) -> Callable[[Cache], object]:
    return lambda cluster: cluster.put_pod(make_pod("web", node=node_name))


def test_entries_stay_while_nothing_changes() -> None:
    assert not is_stale_after(lambda _: None)


def test_a_change_of_a_column_that_is_not_read_keeps_the_entries() -> None:
    assert not is_stale_after(put_pod("node-1"))
    assert not is_stale_after(lambda c: c.put_node(make_node("node-1", allocatable={"cpu": "7"})))


def test_a_change_of_a_column_that_is_read_is_stale() -> None:
    assert is_stale_after(lambda c: c.put_node(make_node("node-1", labels={"zone": "a"})))
    assert is_stale_after(lambda c: c.remove_node("node-1"))
    assert is_stale_after(put_pod("node-1"), reads=Change.USAGE)


def test_a_change_that_is_not_the_last_one_is_stale_too() -> None:
    def change(cluster: Cache) -> None:
        cluster.put_node(make_node("node-1", labels={"zone": "a"}))
        put_pod("node-2")(cluster)

    assert is_stale_after(change)


def test_a_row_for_a_pod_on_an_unknown_node_is_stale_although_no_node_was_added() -> None:
    assert is_stale_after(put_pod("unknown"))


def test_longer_columns_are_stale() -> None:
    def grow(cluster: Cache) -> None:
        capacity = cluster.nodes.capacity
        for number in range(2):
            cluster.put_pod(make_pod(f"web-{number}", node=f"unknown-{number}"))
        assert cluster.nodes.capacity > capacity

    assert is_stale_after(grow)


def test_changes_that_the_log_has_lost_are_stale() -> None:
    log = ChangeLog(capacity=2)
    cache: NodeCache[str, int] = NodeCache(8, READS)
    cache.invalidate_if_stale(log, 1)
    cache.put("a", 1)

    for _ in range(2):
        log.append(0, Change.USAGE)
    cache.invalidate_if_stale(log, 1)
    assert "a" in cache

    for _ in range(3):
        log.append(0, Change.USAGE)
    cache.invalidate_if_stale(log, 1)
    assert "a" not in cache


@pytest.mark.parametrize("changes", [0, 1])
def test_the_entries_of_another_table_are_stale(changes: int) -> None:
    cache: NodeCache[str, int] = NodeCache(8, READS)
    cache.invalidate_if_stale(ChangeLog(), 1)
    cache.put("a", 1)
    other = ChangeLog()
    for _ in range(changes):
        other.append(0, Change.USAGE)

    cache.invalidate_if_stale(other, 1)

    assert "a" not in cache
