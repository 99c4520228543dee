"""Buffers of evicted results are reused, unless an attempt may still read them."""

from __future__ import annotations

import pytest

from mooring.framework.runtime import result_cache
from mooring.framework.runtime.result_cache import CachedResults, ResultCache


def test_answers_of_an_attempt_that_stays_open_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_cache, "MEMORY_LIMIT_BYTES", 1)  # then the floor of 8 holds
    cache = ResultCache(("F",), 1)
    kept = [cache.of(number, 16) for number in range(8)]

    assert cache.of("lent", 16).raw[0] is kept[0].raw[0]
    cache.reuses_buffers = False
    assert cache.of("own", 16).raw[0] is not kept[1].raw[0]
    assert cache.of("own", 16) is cache.of("own", 16)
    assert cache.of(7, 16) is kept[7]


def test_an_entry_takes_nothing_but_the_columns_of_the_evicted_one() -> None:
    evicted = CachedResults(("F",), 1, 4)
    evicted.pre_filtered["F"] = evicted.pre_scored["F"] = (None, "of other pods")
    evicted.constants[0] = 100

    entry = CachedResults(("F",), 1, 4, evicted)

    assert entry.results is evicted.results
    assert entry.final_total is evicted.final_total
    assert (entry.pre_filtered, entry.pre_scored, entry.constants) == ({}, {}, {})
    assert entry.equal_filtered is not evicted.equal_filtered
