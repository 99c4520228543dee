"""Limits of tables and caches that a run sets, so that it meets them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from mooring.framework.runtime import plugin_errors, result_cache
from mooring.state.tables.nodes import NodeTable


@contextmanager
def few_cached_results(*, only_if: bool) -> Iterator[None]:
    """Leaves a framework the least number of cached results, however much memory one takes.

    Args:
        only_if: False = changes nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        if only_if:
            set_limit(patch, result_cache, "MEMORY_LIMIT_BYTES", 1)
        yield


@contextmanager
def few_error_pairs(count: int) -> Iterator[None]:
    """Counts the errors of so many pairs of plugin and extension point apart."""
    with pytest.MonkeyPatch.context() as patch:
        set_limit(patch, plugin_errors, "PAIRS_MAX", count)
        yield


@contextmanager
def first_rows(count: int) -> Iterator[None]:
    """Lets tables of nodes begin with so many rows, so that they are full, or grow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeTable.__init__, "__defaults__", (count,))
        yield


def set_limit(patch: pytest.MonkeyPatch, module: ModuleType, name: str, value: int) -> None:
    """Sets a limit until the patch is undone, also where it is imported."""
    before = getattr(module, name)
    for importer in _importers(module, name, before):
        patch.setattr(importer, name, value)


def _importers(module: ModuleType, name: str, value: Any) -> Iterator[ModuleType]:
    yield module
    for other in list(sys.modules.values()):
        if other is not module and getattr(other, "__name__", "").startswith("mooring."):
            text = vars(other).get(name)
            if text == value and name in getattr(other, "__annotations__", {}):
                continue  # its own
            if name in vars(other) and text == value:
                yield other
