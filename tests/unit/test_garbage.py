"""The collector of garbage is as it was before, after the blocks that change it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from mooring.garbage import (
    LONG_COLLECTION_S,
    THRESHOLDS,
    freeze_heap,
    rare_collections,
    short_collections,
    without_collections,
)


class _Clock:
    """Monotonic seconds, by which each collection takes a fixed time."""

    def __init__(self, collection_s: float) -> None:
        self._step_s = collection_s
        self._now_s = 0.0

    def now(self) -> float:
        self._now_s += self._step_s
        return self._now_s


class _Node:
    other: _Node | None = None


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    callbacks = list(gc.callbacks)
    gc.unfreeze()
    yield
    assert gc.callbacks == callbacks
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_the_heap_is_frozen_after_a_long_collection_until_the_end_of_the_block() -> None:
    with short_collections(_Clock(LONG_COLLECTION_S * 1.1).now):
        gc.collect()
        assert gc.get_freeze_count() > 0


def test_a_short_collection_freezes_nothing() -> None:
    with short_collections(_Clock(LONG_COLLECTION_S * 0.9).now):
        gc.collect()
        assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("generation", [0, 1])
def test_a_collection_of_young_objects_freezes_nothing(generation: int) -> None:
    with short_collections(_Clock(60).now):
        gc.disable()  # no other collection may come between
        try:
            gc.collect(generation)
            assert gc.get_freeze_count() == 0
        finally:
            gc.enable()


def test_a_frozen_object_is_freed_without_the_collector() -> None:
    node = _Node()
    freed = weakref.ref(node)
    with short_collections(_Clock(60).now):
        gc.collect()
        del node
        assert freed() is None


def test_cycles_that_were_made_after_a_freeze_are_collected() -> None:
    with short_collections(_Clock(60).now):
        gc.collect()
        node = _Node()
        node.other = node
        freed = weakref.ref(node)
        del node
        gc.collect()
        assert freed() is None


def test_it_ends_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), short_collections(_Clock(60).now):
        raise ZeroDivisionError


def test_no_collection_begins_in_the_block() -> None:
    with without_collections():
        assert not gc.isenabled()


def test_collections_stay_disabled_if_they_were() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_scheduler_collects_rarely_inside_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == THRESHOLDS
        freeze_heap()
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_the_last_of_several_schedulers_ends_it() -> None:
    before = gc.get_threshold()
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    freeze_heap()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_the_thresholds_are_as_before_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), rare_collections():
        raise KeyError("x")
    assert gc.get_threshold() == before
