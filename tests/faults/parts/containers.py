"""Tables and caches with a limit, which none may exceed: a process must not grow with its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, Final

import pytest

from mooring.dra import selectors
from mooring.framework import equal_nodes, selector_matching
from mooring.framework.runtime import filter_plans, plugin_errors, selection, signatures
from mooring.plugins.dynamic_resources import shared_results
from mooring.plugins.node_resources import device_totals
from mooring.state.columns import caches, grouped
from mooring.state.tables import shared_parts
from mooring.state.volumes.free_index import first_match, sorted_list

#: Class -> its containers, each with the module and the name of its limit, and how many may be
#: there beyond it.
LIMITED: Final[dict[type, tuple[tuple[str, ModuleType, str, int], ...]]] = {
    selectors.Selectors: (("_answers", selectors, "EXPRESSIONS_MAX", 0),),
    selectors._Answers: (
        ("_by_device", selectors, "DEVICES_MAX", 0),
        ("_by_content", selectors, "ANSWERS_MAX", 0),
    ),
    equal_nodes.EqualNodes: (("_results", equal_nodes, "AMOUNTS_MAX", 64),),
    filter_plans.FilterPlans: (("_plans", filter_plans, "PLANS_MAX", 0),),
    filter_plans.ScorePlans: (("_plans", filter_plans, "PLANS_MAX", 0),),
    device_totals.DeviceTotals: (("_backed", device_totals, "NAMES_MAX", 0),),
    first_match.FirstMatchIndex: (("_cached", first_match, "_CACHED_MAX", 0),),
    sorted_list.FreeVolumeList: (("changes", sorted_list, "CHANGES_MAX", 0),),
    selector_matching.NodeTermEvaluator: (
        ("_cache", selector_matching, "_CACHED_REQUIREMENTS_MAX", 0),
    ),
    shared_results.SharedResults: (("_searched", shared_results, "SEARCHES_MAX", 0),),
    grouped.GroupedCounts: (("_sums", grouped, "SUMS_CACHED", 0),),
    # With the one that stands for all others.
    plugin_errors.PluginErrors: (("_counts", plugin_errors, "PAIRS_MAX", 1),),
    selection.PluginSelection: (("_applicable", selection, "SELECTIONS_MAX", 0),),
    shared_parts.InternPool: (("_recent_specs", shared_parts, "RECENT_SPECS_MAX", 0),),
    signatures.Signatures: (
        ("_by_template", signatures, "TEMPLATES_MAX", 0),
        ("_by_fragments", signatures, "TEMPLATES_MAX", 0),
    ),
}
#: A container with one of these for each plugin, or kind of node; a call may add many at once.
NESTED: Final = ("_results", "_searched")


@contextmanager
def limited_containers(report: Callable[[str], None]) -> Iterator[None]:
    """Follows what is made meanwhile, and reports what exceeds its limit in the end."""
    made: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for cls in (*LIMITED, caches.LRUCache):
            patch.setattr(cls, "__init__", _noted(vars(cls)["__init__"], made))
        yield
    for obj in made:
        for problem in _problems(obj):
            report(problem)


def _noted(init: Callable[..., None], made: list[Any]) -> Callable[..., None]:
    @wraps(init)
    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        made.append(self)

    return noted


def _problems(obj: Any) -> Iterator[str]:
    if isinstance(obj, caches.LRUCache):
        if len(obj) > max(obj.limit, 1):
            yield f"a cache of {obj.limit} has {len(obj)} entries"
        return
    of_class = [it for cls, items in LIMITED.items() if isinstance(obj, cls) for it in items]
    for name, module, limit, more in of_class:
        container, most = getattr(obj, name), getattr(module, limit) + more
        parts = [*container.values()] if name in NESTED else [container]
        sizes = [len(part) for part in parts if len(part) > most]
        yield from (f"{name} of {type(obj).__name__} has {n}, more than {most}" for n in sizes)
