"""Results of calls of the code under test are recorded, wherever a run calls it."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable

import numpy as np
import pytest

from mooring.client.retry import RetryPolicy, retry
from mooring.errors import Unreachable
from mooring.objects.quantity import Quantity
from mooring.state.columns.caches import LRUCache
from mooring.state.volumes.topology import topology_of_affinity
from tests.faults.harness.boundary import RESULTS_MAX, full_text, recorded_results


def entries_of(run: Callable[[], object]) -> list[str]:
    """Returns the entries of the results that a function gets."""
    entries: list[str] = []
    with recorded_results(entries.append):
        run()
    return entries


def test_the_result_of_a_call_is_an_entry() -> None:
    cache = LRUCache[str, int](3)

    def run() -> None:
        cache.put("a", 7)
        cache.recent("b")  # returns None
        cache.recent("a")

    assert entries_of(run) == [
        "caches.LRUCache.put returned 7",
        "caches.LRUCache.recent returned 7",
    ]


def test_calls_inside_of_the_code_under_test_are_none() -> None:
    entries = entries_of(lambda: Quantity.parse("2Gi") < Quantity.parse("3Gi"))

    assert {entry.partition(" ")[0] for entry in entries} == {"quantity.Quantity.parse"}
    assert len(entries) == 2


def test_an_exception_is_none() -> None:
    def run() -> None:
        with pytest.raises(ValueError, match="x"):
            Quantity.parse("x")

    assert entries_of(run) == []


def test_a_coroutine_that_waits_is_one_entry_at_its_end() -> None:
    failures = [Unreachable("down")]

    async def request() -> int:
        if failures:
            raise failures.pop()
        return 7

    async def run() -> int:
        policy = RetryPolicy(tries_max=2, initial_s=0.0)
        return await retry(request, policy, sleep=asyncio.sleep, rng=random.Random(1))

    entries = entries_of(lambda: asyncio.run(run()))

    assert entries == ["retry.retry returned 7"]


def test_of_each_function_only_the_first_results_are_entries() -> None:
    cache = LRUCache[int, int](3)

    def run() -> None:
        for number in range(RESULTS_MAX + 5):
            cache.put(number, number)
        cache.recent(RESULTS_MAX + 4)

    entries = entries_of(run)

    assert entries[RESULTS_MAX - 1 :] == [
        f"caches.LRUCache.put returned {RESULTS_MAX - 1}",
        f"caches.LRUCache.recent returned {RESULTS_MAX + 4}",
    ]


def test_a_profile_that_was_set_before_is_set_again() -> None:
    def profile(*_: object) -> None:
        return

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        entries_of(lambda: None)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)


def test_a_function_with_a_cache_is_none() -> None:
    topology_of_affinity.cache_clear()  # it is called the first time only

    assert entries_of(lambda: topology_of_affinity(None)) == []


def test_texts_have_what_is_in_values() -> None:
    assert full_text(np.array([1.0, 0.1 + 0.2])) == "[1, 0.3]"
    assert full_text({"b": {3, 1, 2}}) == "{b: {1, 2, 3}}"
    assert full_text("term frozenset({'b', 'a'})") == "term frozenset({'a', 'b'})"
