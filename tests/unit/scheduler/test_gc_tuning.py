"""The garbage collector is as it was before, once a scheduler has ended."""

from __future__ import annotations

import gc

import pytest

from mooring.scheduler.gc_tuning import THRESHOLDS, freeze_heap, gc_thresholds


def test_it_collects_rarely_inside_and_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with gc_thresholds():
        assert gc.get_threshold() == THRESHOLDS
        freeze_heap()
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_the_last_of_several_ends_it() -> None:
    before = gc.get_threshold()
    first, second = gc_thresholds(), gc_thresholds()
    first.__enter__()
    second.__enter__()
    freeze_heap()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_so_it_is_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), gc_thresholds():
        raise KeyError("x")
    assert gc.get_threshold() == before
