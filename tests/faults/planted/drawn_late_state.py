"""Bugs at lines of the queue, the state, the plugins and devices that were drawn late."""

from __future__ import annotations

from typing import Final

from mooring.dra.search import Search
from mooring.framework.runtime.result_cache import ResultCache
from tests.faults.planted.bug import PlantedBug

BUGS: Final = [
    PlantedBug(
        "cached_results_without_bytes",
        "the limit of cached results is that of results without columns, in a cluster of any size",
        ResultCache,
        "of",
        "self._limit(capacity)",
        "self._limit(0)",
        "tables",
        3,
    ),
    PlantedBug(
        "too_many_by_one_alternative",
        "if one alternative has too many devices, other devices of earlier requests are not tried",
        Search,
        "_first_available",
        "failures == {Failure.TOO_MANY}",
        "Failure.TOO_MANY in failures",
        "node_devices",
        122,
    ),
]
