"""Finds every cache, queue and pool with a limit in the running scheduler, for its metrics.

The attributes of the objects are visited at each scrape, a few ms whatever the number of pods, so
no cache has to register itself and adding to one costs nothing. A cache that has a ``limit`` is
found by that; a plain container with a limit has a line in ``LIMITS``.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Set, Sized
from typing import Any, Final, NamedTuple

from mooring.metrics.registry import Metrics

#: (class, attribute) -> the limit of a plain container: another attribute, or a constant of the
#: module of the class.
LIMITS: Final[Mapping[tuple[str, str], str]] = {
    ("BindingTasks", "_running"): "_limit",
    ("DeviceTotals", "_backed"): "NAMES_MAX",
    ("FilterPlans", "_plans"): "PLANS_MAX",
    ("FirstMatchIndex", "_cached"): "_CACHED_MAX",
    ("FreeVolumeList", "changes"): "CHANGES_MAX",
    ("FreeVolumes", "_pending"): "INSERTIONS_MAX",
    ("HttpTransport", "_retired"): "RETIRED_MAX",
    ("HttpTransport", "_retired_http1_pools"): "RETIRED_MAX",
    ("InFlight", "_events"): "_max_events",
    ("InternPool", "_recent_specs"): "RECENT_SPECS_MAX",
    ("NodeSignatures", "_signatures"): "NUMBERS_MAX",
    ("NodeTermEvaluator", "_cache"): "_CACHED_REQUIREMENTS_MAX",
    ("PluginErrors", "_counts"): "PAIRS_MAX",
    ("PluginSelection", "_applicable"): "SELECTIONS_MAX",
    ("Quarantine", "_attempted"): "PODS_MAX",
    ("Recorder", "_series"): "SERIES_MAX",
    ("RequestedWaits", "_waits"): "OBJECTS_MAX",
    ("ReviewCache", "_answers"): "CACHE_ENTRIES_MAX",
    ("ScorePlans", "_plans"): "PLANS_MAX",
    ("SecureServer", "_connections"): "CONNECTIONS_MAX",
    ("Selectors", "_answers"): "EXPRESSIONS_MAX",
    ("Signatures", "_by_fragments"): "TEMPLATES_MAX",
    ("Signatures", "_by_template"): "TEMPLATES_MAX",
    ("StatusWriter", "_stored"): "STORED_MAX",
    ("_Requests", "_unknown"): "STORED_MAX",
    ("WriteQueue", "_items"): "_items_max",
    ("_Answers", "_by_content"): "ANSWERS_MAX",
    ("_Answers", "_by_device"): "DEVICES_MAX",
}

#: Mappings with so few entries are containers of parts: their values are visited.
PARTS_MAX: Final = 40
DEPTH_MAX: Final = 8


class Buffer(NamedTuple):
    """A container with a limit; equal ones of several owners are added up.

    Attributes:
        name: Its class and attribute: "NodeLabels.columns".
        length: Number of entries.
        limit: The most entries that it may have; None = unlimited, as configured.
    """

    name: str
    length: int
    limit: int | None


def buffers(root: object) -> dict[str, Buffer]:
    """Returns the containers with a limit below an object of mooring, by name.

    Complexity: O(objects of mooring), without those of the cluster.
    """
    totals: dict[str, Buffer] = {}
    for owner, attribute, part in _attributes(root, 0, {id(root)}):
        limited, limit = _limit_of(owner, attribute, part)
        if not limited:
            continue
        name = f"{type(owner).__name__.lstrip('_')}.{attribute.lstrip('_')}"
        length = len(part)
        if (before := totals.get(name)) is not None:
            length += before.length
            limit = None if limit is None or before.limit is None else limit + before.limit
        totals[name] = Buffer(name, length, limit)
    return totals


def record_buffers(metrics: Metrics, root: object) -> None:
    """Exposes the length and the limit of every container with a limit below an object."""
    lengths = metrics.numbers("mooring_buffer_entries")
    limits = metrics.numbers("mooring_buffer_limit_entries")
    names: set[str] = set()

    def refresh() -> None:
        current = buffers(root)
        for name in names - current.keys():
            lengths.labels(name).value = 0
        names.update(current)
        for name, buffer in current.items():
            lengths.labels(name).value = buffer.length
            if buffer.limit is not None:
                limits.labels(name).value = buffer.limit

    metrics.on_scrape(refresh)


def _limit_of(owner: object, attribute: str, part: Any) -> tuple[bool, int | None]:
    """Returns whether a container has a limit, and which."""
    name = LIMITS.get((type(owner).__name__, attribute))
    if name is not None:
        module = sys.modules[type(owner).__module__]
        return True, getattr(owner, name) if hasattr(owner, name) else getattr(module, name)
    # An LRUCache, or a pool.
    limit = part.maxlen if isinstance(part, deque) else getattr(part, "limit", None)
    return limit is not None, limit


def _attributes(obj: object, depth: int, visited: set[int]) -> Iterator[tuple[object, str, Sized]]:
    """Yields (owner, attribute, container) below an object."""
    if depth > DEPTH_MAX:
        return
    for attribute in _names(obj):
        part = getattr(obj, attribute, None)
        if part is None or id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, (Mapping, Set, list, deque)) or (_is_ours(part) and _has_length(part)):
            yield obj, attribute, part
        for child in _parts(part):
            if _is_ours(child) and (child is part or id(child) not in visited):
                visited.add(id(child))
                yield from _attributes(child, depth + 1, visited)


def _parts(part: object) -> list[object]:
    """Returns the values of a small mapping, or the object itself."""
    if not isinstance(part, Mapping):
        return [part]
    return list(part.values()) if len(part) <= PARTS_MAX else []


def _has_length(obj: object) -> bool:
    return isinstance(obj, Sized)


def _is_ours(obj: object) -> bool:
    module = type(obj).__module__
    return module.startswith("mooring.") and not module.startswith("mooring.objects")


def _names(obj: object) -> Iterator[str]:
    yield from list(getattr(obj, "__dict__", ()))
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
