"""Caches whose limit is an amount of memory: how much of it their columns really take.

The bytes are those of all arrays of the entries. A cache may have more only as long as it has the
least number of entries; and it drops none while there is room for another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pytest

from mooring.clock import Rng
from mooring.framework.runtime import result_cache
from mooring.framework.runtime.filter_results import NOT_VISITED
from mooring.framework.runtime.result_cache import CachedResults, ResultCache
from mooring.framework.status import Reject
from mooring.objects.selectors import requirement, selector_of
from mooring.state.tables import counters as counters_module
from mooring.state.tables.counters import CounterKey, PodCounters
from mooring.state.tables.pods import PodTable
from tests.faults.parts.limits import set_limit

CALLS: Final = 60
#: Numbers of rows of the table of nodes, which grows.
CAPACITIES: Final = (1, 40, 300, 2000)
#: Cached results of so many signatures are there in any cluster.
RESULTS_MIN: Final = 8
#: More than the objects of an entry take beside its columns.
OBJECT_BYTES_MAX: Final = 8192
BYTES: Final = (1, 60_000, 200_000, 600_000)


def check_result_cache(rng: Rng) -> None:
    """Compares cached results with a list of their signatures, the least recently used first."""
    with pytest.MonkeyPatch.context() as patch:
        most = rng.choice(BYTES)
        set_limit(patch, result_cache, "MEMORY_LIMIT_BYTES", most)
        n_filters, n_scores = rng.choice((1, 3, 12)), rng.choice((0, 2, 9))
        names = tuple(f"filter-{number}" for number in range(n_filters))
        cache, followed = ResultCache(names, n_scores), _Followed(rng, most)
        capacities = iter(sorted(rng.sample(CAPACITIES, 2)))
        capacity = next(capacities)
        n_signatures = rng.choice((4, 12, 40))
        for _ in range(CALLS):
            if rng.random() < 0.03:
                capacity = next(capacities, capacity)
            if rng.random() < 0.05:
                cache.reuses_buffers = not cache.reuses_buffers
            if rng.random() < 0.02:
                cache.clear()
                followed.entries.clear()
            followed.look_up(cache, rng.randrange(n_signatures), capacity)


class _Followed:
    """Signature -> the entry of a cache, the least recently used first."""

    def __init__(self, rng: Rng, most: int) -> None:
        self.entries: dict[int, CachedResults] = {}
        self._rng = rng
        self._most = most

    def look_up(self, cache: ResultCache, signature: int, capacity: int) -> None:
        """Looks up a signature, and compares the entry and what is left of the others."""
        before, hits, misses = self.entries, cache.hits, cache.misses
        entry = cache.of(signature, capacity)
        old = before.pop(signature, None)
        is_hit = old is not None and old.capacity == capacity
        assert (entry is old) is is_hit, f"{signature} of {capacity} rows: {entry}, not {old}"
        expected = hits + is_hit, misses + (not is_hit)
        assert (cache.hits, cache.misses) == expected, f"{cache.hits}, {cache.misses}: {expected}"
        before[signature] = entry
        n_left = len(cache)
        # An entry that is dropped may be used on by the new one.
        dropped = [*before.values()][: len(before) - n_left]
        self.entries = dict([*before.items()][-n_left:])
        assert entry in self.entries.values(), f"the new entry is not there: {n_left} are left"
        if is_hit:
            assert not dropped, "a look-up of an entry drops others"
            return
        _assert_new(entry, capacity)
        reused = entry if cache.reuses_buffers else None
        of_others = [it for it in (*self.entries.values(), *dropped) if it is not entry]
        for other in of_others:
            is_dropped = other in dropped and reused is not None
            assert is_dropped or not _is_shared(entry, other), "an entry has columns of another"
        self._assert_bounded(len(dropped))
        _fill(self._rng, entry)

    def _assert_bounded(self, n_dropped: int) -> None:
        """Checks the bytes of all entries, and that none has been dropped too early."""
        entries = self.entries.values()
        sizes = [sum(it.nbytes for it in _arrays_of(entry)) for entry in entries]
        count, total = len(sizes), sum(sizes)
        text = f"{count} entries with {total} bytes"
        # Entries from before the table has grown are smaller than the limit says.
        assert count <= RESULTS_MIN or total <= self._most, f"{text}, more than {self._most}"
        room = (count + 1) * (max(sizes, default=0) + OBJECT_BYTES_MAX)
        is_early = n_dropped and (count < RESULTS_MIN or room <= self._most)
        assert not is_early, f"{n_dropped} entries are dropped, {text} are left"


def _arrays_of(entry: CachedResults) -> list[Any]:
    results = entry.results
    return [results.refused_by, results.feasible, *results.codes, *entry.raw, entry.final_total]


def _is_shared(entry: CachedResults, other: CachedResults) -> bool:
    pairs = zip(_arrays_of(entry), _arrays_of(other), strict=True)
    return any(np.may_share_memory(*pair) for pair in pairs)


def _assert_new(entry: CachedResults, capacity: int) -> None:
    """Checks that nothing is left in an entry of the one whose columns it may have."""
    results = entry.results
    lengths = {len(column) for column in _arrays_of(entry)}
    assert lengths == {capacity}, f"columns of {lengths} rows, not {capacity}"
    assert (results.refused_by == NOT_VISITED).all()
    assert not results.feasible.any()
    assert not results.count
    assert not any(codes.any() for codes in results.codes)
    assert not any(results.tables)
    assert not results.has_errors()
    assert not len(results.feasible_rows())
    left = (entry.pre_filtered, entry.pre_scored, entry.finals, entry.constants)
    assert not any(left), f"a new entry has {left}"
    assert entry.restored_pre_filter is entry.restored_pre_score is None
    assert not any((*entry.in_range, *entry.is_zero))


def _fill(rng: Rng, entry: CachedResults) -> None:
    """Leaves results in an entry, as attempts do."""
    results, row = entry.results, rng.randrange(entry.capacity)
    number = rng.randrange(len(results.plugins))
    results.set_code(number, row, Reject(rng.choice("abc")))
    results.recompute_first(rng.choice((None, np.array([row], dtype=np.intp))), row + 1)
    results.feasible_rows()
    for raw in entry.raw:
        raw[:] = rng.randrange(100)
    entry.pre_filtered["a"] = entry.pre_scored["a"] = None, row
    entry.in_range[:] = [True] * len(entry.in_range)
    entry.final_total[:] = row


def check_counters(rng: Rng) -> None:
    """Compares which counters are there with a list, the least recently used first."""
    with pytest.MonkeyPatch.context() as patch:
        most, least = rng.choice(BYTES), rng.choice((1, 3, 10))
        set_limit(patch, counters_module, "MEMORY_LIMIT_BYTES", most)
        set_limit(patch, counters_module, "COUNTERS_MIN", least)
        capacities = sorted(rng.sample(CAPACITIES, 3))
        counters = PodCounters(PodTable(), capacities.pop(0))
        used: list[CounterKey] = []
        keys = [_counter_key(rng, number) for number in range(rng.choice((4, 15, 60)))]
        for _ in range(CALLS):
            key = rng.choice(keys)
            if capacities and rng.random() < 0.03:
                counters.grow(capacities.pop(0))
            else:
                assert counters.counter(key).key == key
                used = [*(it for it in used if it != key), key]
            n_before, actual = len(used), [key for key, _ in counters.items()]
            used = used[-len(actual) :]
            assert actual == used, f"counters of {actual}, not {used}"
            sizes = [counts.nbytes for _, counts in counters.items()]
            _assert_counters(sizes, n_before - len(sizes), most, least)


def _assert_counters(sizes: Iterable[int], n_dropped: int, most: int, least: int) -> None:
    sizes = [*sizes]
    count, total = len(sizes), sum(sizes)
    text = f"{count} counters with {total} bytes"
    assert count <= least or total <= most, f"{text}, more than {most}"
    room = (count + 1) * (max(sizes, default=0) + OBJECT_BYTES_MAX)
    is_early = n_dropped and (count < least or room <= most)
    assert not is_early, f"{n_dropped} counters are dropped, {text} are left"


def _counter_key(rng: Rng, number: int) -> CounterKey:
    selector = selector_of([requirement("app", "In", (f"app-{number}",))])
    spaces = rng.choice((None, frozenset({"default"}), frozenset({"default", "shop"})))
    return CounterKey(spaces, selector, rng.random() < 0.5)
