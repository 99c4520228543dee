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

#: Number of nodes that have a pod.
LOAD: Final = "service: nodes with pods"
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
    """All series, in columns of their final length: samples must not be what grows.

    Attributes:
        count: Number of samples.
        series: Name -> values, one for each sample; 0 where it was not sampled.
    """

    def __init__(self, count_max: int) -> None:
        """Takes at most ``count_max`` samples."""
        self.count = 0
        self.series: dict[str, array[float]] = {}
        self._bytes = 8 * count_max

    def add(self, sample: Mapping[str, float]) -> None:
        """Adds the values of one moment."""
        for name, value in sample.items():
            values = self.series.get(name)
            if values is None:
                values = self.series[name] = array("d", bytes(self._bytes))
            values[self.count] = value
        self.count += 1


class Growth(NamedTuple):
    """A series, its median in the first third and in the last one.

    ``of_load`` is by how much more the load occupies: what is kept for each node with pods grows
    with their number, which is at most that of all nodes.
    """

    name: str
    first: float
    last: float
    of_load: float = 0.0

    def __str__(self) -> str:
        """Returns a line of the report."""
        if self.name == RSS:
            return f"{self.name}: {self.first / 2**20:.1f} -> {self.last / 2**20:.1f} MiB"
        return f"{self.name}: {self.first:,.0f} -> {self.last:,.0f}"

    @property
    def is_growing(self) -> bool:
        """True if the difference is more than noise."""
        share, slack = (RSS_SHARE, RSS_SLACK_BYTES) if self.name == RSS else (GROWTH_SHARE, SLACK)
        return self.last - self.first - self.of_load > max(share * self.first, slack)


def growths(samples: Samples, *, warm_up: float) -> list[Growth]:
    """Returns all series with their medians.

    Args:
        samples: Equally spaced.
        warm_up: Share of the samples at the start that is left out.
    """
    start, end = int(warm_up * samples.count), samples.count
    third = (end - start) // 3

    def growth(name: str, of_load: float) -> Growth:
        values = samples.series[name]
        first, last = values[start : start + third], values[end - third : end]
        return Growth(name, statistics.median(first), statistics.median(last), of_load)

    of_load = 0.0
    if LOAD in samples.series:
        load = growth(LOAD, 0.0)
        of_load = max(0.0, load.last - load.first)
    return [growth(name, 0.0 if name == RSS else of_load) for name in samples.series]
