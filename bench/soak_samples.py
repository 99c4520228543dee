"""What a soak samples of a running scheduler, and the verdict whether any of it grows.

Three kinds of series: the process (resident bytes, memory blocks of Python, tasks, threads, files),
Python's objects by type, and the length of every container that an object of mooring holds, by the
path of attributes to it (``Service.cache.nodes._names``). So a new cache is sampled without being
listed here.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import threading
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from mooring.client import event_recorder
from mooring.framework.runtime import signatures
from mooring.state.columns.caches import LRUCache
from mooring.state.tables.shared_parts import InternPool

#: Mappings with so few entries are containers of parts: their values are visited.
PARTS_MAX: Final = 40
DEPTH_MAX: Final = 8

#: A series grows if its median is larger by this share, and by this number.
GROWTH_SHARE: Final = 0.05
SLACK: Final = 64
#: Resident bytes: allocators do not return all that is free.
RSS_SHARE: Final = 0.03
RSS_SLACK_BYTES: Final = 4 << 20

#: Entries of a cache with a lowered limit.
LOWERED: Final = 500

RSS: Final = "process: resident bytes"
_CONTAINERS: Final = (dict, list, set, frozenset, deque, tuple)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def process_sample() -> dict[str, float]:
    """Returns what the process uses."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    return {
        RSS: resident,
        "process: memory blocks": sys.getallocatedblocks(),
        "process: tasks": len(asyncio.all_tasks()),
        "process: threads": threading.active_count(),
        "process: files": len(os.listdir("/proc/self/fd")),
    }


def object_sample() -> dict[str, float]:
    """Returns the number of objects that the garbage collector tracks, by type.

    Without those that were frozen when the first list was complete, and without msgspec's structs,
    which are not tracked; "memory blocks" counts all.
    """
    counts = Counter(map(type, gc.get_objects()))
    return {f"objects: {kind.__module__}.{kind.__qualname__}": n for kind, n in counts.items()}


def container_sample(root: object) -> dict[str, float]:
    """Returns the length of each container below an object, by path.

    The values of a small mapping have one path, ``[*]``, and their lengths are added: its keys may
    be names of pods.
    """
    lengths: Counter[str] = Counter()
    for path, part in walk(root):
        if isinstance(part, np.ndarray):
            lengths[path] += part.size
        elif isinstance(part, _CONTAINERS):
            lengths[path] += len(part)
    return dict(lengths)


def walk(root: object) -> Iterator[tuple[str, object]]:
    """Yields the parts of an object of mooring with their paths, without objects of the cluster."""
    yield from _walk(root, type(root).__name__, 0, set())


def _walk(obj: object, path: str, depth: int, visited: set[int]) -> Iterator[tuple[str, object]]:
    if id(obj) in visited or depth > DEPTH_MAX:
        return
    visited.add(id(obj))
    module = type(obj).__module__
    if module.startswith("mooring.objects"):
        return
    yield path, obj
    if isinstance(obj, Mapping):
        for part in obj.values() if len(obj) <= PARTS_MAX else ():
            yield from _walk(part, f"{path}[*]", depth + 1, visited)
    elif module.partition(".")[0] == "mooring":
        for name in _attributes(obj):
            yield from _walk(getattr(obj, name, None), f"{path}.{name}", depth + 1, visited)


def _attributes(obj: object) -> Iterator[str]:
    yield from getattr(obj, "__dict__", ())
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def lower_limits(root: object) -> None:
    """Lowers the limits of all caches below an object, so that they are full after a short warm-up.

    What grows then has no limit. Caches that are full after hours could not be told from leaks.
    """
    for _, part in walk(root):
        if isinstance(part, LRUCache):
            part.limit = min(part.limit, LOWERED)
            part.evict()
        elif isinstance(part, InternPool):
            part._size = LOWERED  # noqa: SLF001 - it is set only when the pool is made
    signatures.TEMPLATES_MAX = LOWERED  # type: ignore[misc]
    event_recorder.SERIES_MAX = LOWERED  # type: ignore[misc]


class Samples:
    """All series, in columns: samples in dicts would themselves be what grows.

    Attributes:
        count: Number of samples.
        series: Name -> values, one for each sample; 0 where it was not sampled.
    """

    def __init__(self) -> None:
        self.count = 0
        self.series: dict[str, array[float]] = {}

    def add(self, sample: Mapping[str, float]) -> None:
        """Adds the values of one moment."""
        for name in sample:
            if name not in self.series:
                self.series[name] = array("d", bytes(8 * self.count))
        for name, values in self.series.items():
            values.append(sample.get(name, 0.0))
        self.count += 1


class Growth(NamedTuple):
    """A series, its median in the first third and in the last one."""

    name: str
    first: float
    last: float

    def __str__(self) -> str:
        """Returns a line of the report."""
        if self.name == RSS:
            return f"{self.name}: {self.first / 2**20:.1f} -> {self.last / 2**20:.1f} MiB"
        return f"{self.name}: {self.first:,.0f} -> {self.last:,.0f}"

    @property
    def is_growing(self) -> bool:
        """True if the difference is more than noise."""
        share, slack = (RSS_SHARE, RSS_SLACK_BYTES) if self.name == RSS else (GROWTH_SHARE, SLACK)
        return self.last - self.first > max(share * self.first, slack)


def growths(samples: Samples, *, warm_up: float) -> list[Growth]:
    """Returns all series with their medians.

    Args:
        samples: Equally spaced.
        warm_up: Share of the samples at the start that is left out.
    """
    first = int(warm_up * samples.count)
    third = (samples.count - first) // 3
    return [
        Growth(
            name,
            statistics.median(values[first : first + third]),
            statistics.median(values[-third:]),
        )
        for name, values in samples.series.items()
    ]
