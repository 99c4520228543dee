"""Counts the elements of containers: a run checks what is left when all objects are gone.

A forgotten removal from a second index changes no answer, but the process grows with each object.
The walk follows attributes and elements from one object on: a path such as
``Cache.volumes._claims[]`` stands for all containers that are first reached in that way. Of a table
with a list ``_free`` the rows that are in use count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.state.cache import Cache
from tests.faults.harness.recording import unrecorded

#: Containers whose elements are counted.
_SIZED: Final = (dict, list, set, deque)
_PACKAGE: Final = "mooring."
#: Objects of the API and times have no references to what uses them.
_LEAVES: Final = ("mooring.objects.", "mooring.clock", "mooring.metrics")

#: What stays by intention: columns of label keys that were read, and what has a limit of its own.
CACHE_EXEMPT: Final = (
    "._parts._recent",
    "._parts._previous",
    "._parts._recent_specs",
    "._listeners",
    "._columns",
    ".counters._counters",
    ".counters._lookup",
    ".counters._counted_by",
    ".terms._compiled",
    ".terms._set_of_slot",
    ".storage.reaches._masks",
    ".devices.changes",
    ".devices.signatures",
)
#: What is computed when it is read, or chosen by what was there at that time.
READ_LATE: Final = (
    ".nodes.order",
    ".budgets._names_for",
    ".storage._free",
    ".values",
    "._sums",
    ".terms.affinity._lookup",
    ".terms.anti_affinity._lookup",
    ".terms.preferred._lookup",
    ".storage.use._last",
    ".slices._pools",
    ".all_devices",
    "[].devices[]",
)


def sizes_of(root: object, exempt: Iterable[str] = ()) -> Counter[str]:
    """Returns path -> number of elements, of all containers that an object reaches.

    Args:
        root: Where to begin.
        exempt: Paths that are not followed: ends of them, such as ``Interner._ids``.
    """
    sizes = Counter[str]()
    for path, obj, n_free in _walk(root, tuple(exempt)):
        if isinstance(obj, _SIZED) and not path.endswith("._free"):
            sizes[path] += len(obj) - (n_free if isinstance(obj, list) else 0)
    return sizes


def parts_of(root: object) -> Iterator[tuple[str, Any]]:
    """Yields the containers and arrays that an object reaches, with their paths."""
    for path, obj, _ in _walk(root):
        if isinstance(obj, (*_SIZED, np.ndarray)):
            yield path, obj


def _walk(root: object, exempt: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, int]]:
    """Yields path, object, and the number of free rows beside it, the shortest paths first."""
    visited: dict[int, object] = {}
    pending = deque([(type(root).__name__, root, 0)])
    while pending:
        path, obj, n_free = pending.popleft()
        if id(obj) in visited or path.endswith(exempt):
            continue
        visited[id(obj)] = obj  # alive until the end, so that its id is not used again
        yield path, obj, n_free
        free = getattr(obj, "_free", ())
        for step, part in _parts(obj):
            if _is_followed(part):
                pending.append((f"{path}{step}", part, len(free)))


def leftovers(root: object, before: Mapping[str, int], exempt: Iterable[str] = ()) -> list[str]:
    """Returns which containers have more elements than before."""
    sizes = sizes_of(root, exempt)
    more = {path: n - before.get(path, 0) for path, n in sorted(sizes.items())}
    return [f"{path}: {n}" for path, n in more.items() if n > 0]


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, np.ndarray):
        return
    if isinstance(obj, dict):
        yield from (("[]", value) for value in list(obj.values()))
    elif isinstance(obj, (*_SIZED, tuple)):
        yield from (("[]", value) for value in list(obj))
    else:
        names = [*getattr(obj, "__dict__", ())]
        for base in type(obj).__mro__:
            slots = vars(base).get("__slots__", ())
            names += [slots] if isinstance(slots, str) else list(slots)
        # A slot may not be set.
        yield from ((f".{name}", getattr(obj, name, None)) for name in names)


def _is_followed(obj: object) -> bool:
    if isinstance(obj, (*_SIZED, tuple, np.ndarray)):
        return True
    if isinstance(obj, msgspec.Struct | type):
        return False
    module = type(obj).__module__
    return module.startswith(_PACKAGE) and not module.startswith(_LEAVES)


class CacheLeftovers:
    """Checks that a cache has in its tables what its objects need, and in the end nothing.

    Args:
        cache: Empty.
        exempt: Paths that may have something left.
    """

    def __init__(self, cache: Cache, *exempt: str) -> None:
        self._cache = cache
        self._exempt = (*CACHE_EXEMPT, *exempt)
        self._before = sizes_of(cache, self._exempt)
        self._nodes: dict[str, Node] = {}
        self._objects: dict[tuple[str, str], Any] = {}
        real: Any = cache
        self._put_node, real.put_node = real.put_node, self._puts_node
        self._put_object, real.put_object = real.put_object, self._puts_object
        self._remove_node, real.remove_node = real.remove_node, self._removes_node
        self._remove_object, real.remove_object = real.remove_object, self._removes_object

    def _puts_node(self, node: Node) -> None:
        self._nodes[node.metadata.name] = node
        self._put_node(node)

    def _puts_object(self, kind: str, obj: Any) -> None:
        self._objects[kind, key(obj)] = obj
        self._put_object(kind, obj)

    def _removes_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._remove_node(name)

    def _removes_object(self, kind: str, object_key: str) -> None:
        self._objects.pop((kind, object_key), None)
        self._remove_object(kind, object_key)

    def problems(self) -> list[str]:
        """Compares the cache with a new one of the same objects, and with one that has none.

        In the end it is empty.
        """
        exempt = (*self._exempt, *READ_LATE)
        with unrecorded():
            surplus = leftovers(self._cache, sizes_of(self._copy(), exempt), exempt)
            self._empty()
        rest = leftovers(self._cache, self._before, self._exempt)
        return [
            *(f"the cache has more elements than a new one in {it}" for it in surplus),
            *(f"without objects the cache has more elements than at first in {it}" for it in rest),
        ]

    def _copy(self) -> Cache:
        """Returns a new cache with the same objects."""
        cache, copy = self._cache, Cache(self._cache.devices.features)
        for node in self._nodes.values():
            copy.put_node(node)
        for (kind, _), obj in self._objects.items():
            copy.put_object(kind, obj)
        for placed in cache.pods:
            name = cache.nodes.names[placed.row]
            if cache.is_assumed(placed.info.uid):
                copy.assume(placed.info, name).keep()
            else:
                copy.put_pod(placed.info.pod)
        for info, name in cache.nominator.pods():
            copy.nominator.nominate(info, name)
        return copy

    def _empty(self) -> None:
        cache = self._cache
        for uid in [placed.info.uid for placed in cache.pods]:
            # Of the class: other checks may follow the methods of this cache.
            (Cache.forget if cache.is_assumed(uid) else Cache.remove_pod)(cache, uid)
        for info, _ in cache.nominator.pods():
            cache.nominator.remove(info.uid)
        for kind, object_key in self._objects:
            Cache.remove_object(cache, kind, object_key)
        for name in self._nodes:
            Cache.remove_node(cache, name)
