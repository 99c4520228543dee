"""Which filters are asked how: a handful of ways, made once and looked up for every pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.framework.runtime.result_cache import CacheablePlugin

#: So many plans are kept: plugins beside ours may share and skip as they like.
PLANS_MAX: Final = 256


class FilterPlan(NamedTuple):
    """The filters of an attempt: those that share their answers, and the numbers of all others."""

    readers: list[CacheablePlugin]
    uncached: list[int]


class FilterPlans:
    """The plans of a profile. ``names`` are all its filters, ``readers`` those that may share."""

    def __init__(
        self, names: Sequence[str], readers: Sequence[tuple[str, CacheablePlugin]]
    ) -> None:
        self._names = names
        self._cacheable_plugins = readers
        self._plans: dict[tuple[frozenset[str], frozenset[str]], FilterPlan] = {}

    def of(self, cached_plugins: frozenset[str], skipped: frozenset[str]) -> FilterPlan:
        """Returns the plan without ``skipped``; the results of ``cached_plugins`` are cached."""
        plan = self._plans.get((cached_plugins, skipped))
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            shared, asked = cached_plugins - skipped, cached_plugins | skipped
            plan = self._plans[cached_plugins, skipped] = FilterPlan(
                [reader for name, reader in self._cacheable_plugins if name in shared],
                [number for number, name in enumerate(self._names) if name not in asked],
            )
        return plan
