"""Cached selections of the plugins whose results are cached, and of the other filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.framework.runtime.result_cache import CacheablePlugin

#: Maximum number of cached plans: out-of-tree plugins may skip in many combinations.
PLANS_MAX: Final = 256


class FilterPlan(NamedTuple):
    """The filters of an attempt: those with cached results, and the numbers of all others."""

    cached: list[CacheablePlugin]
    uncached: list[int]


class FilterPlans:
    """The plans of a profile; ``names`` are all its filters."""

    def __init__(
        self, names: Sequence[str], cacheable_plugins: Sequence[tuple[str, CacheablePlugin]]
    ) -> None:
        self._names = names
        self._cacheable_plugins = cacheable_plugins
        self._plans: dict[tuple[frozenset[str], frozenset[str]], FilterPlan] = {}

    def of(self, cached_plugins: frozenset[str], skipped: frozenset[str]) -> FilterPlan:
        """Returns the plan without ``skipped``; the results of ``cached_plugins`` are cached."""
        plan = self._plans.get((cached_plugins, skipped))
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            cached, not_uncached = cached_plugins - skipped, cached_plugins | skipped
            plan = self._plans[cached_plugins, skipped] = FilterPlan(
                [plugin for name, plugin in self._cacheable_plugins if name in cached],
                [number for number, name in enumerate(self._names) if name not in not_uncached],
            )
        return plan


class ScorePlans:
    """The cacheable score plugins of a profile, by the names of those whose results are cached."""

    def __init__(self, cacheable_plugins: Sequence[tuple[str, CacheablePlugin]]) -> None:
        self._cacheable_plugins = cacheable_plugins
        self._plans: dict[frozenset[str], list[CacheablePlugin]] = {}

    def of(self, cached_plugins: frozenset[str]) -> list[CacheablePlugin]:
        """Returns those among ``cached_plugins``: the same list for the same names."""
        plan = self._plans.get(cached_plugins)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            plan = self._plans[cached_plugins] = [
                plugin for name, plugin in self._cacheable_plugins if name in cached_plugins
            ]
        return plan
