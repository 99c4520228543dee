"""Checks that the cache changes in the calls that change it, and at no other time (S9).

::

    assume, confirm, forget, put_*, remove_* ──> a copy of the state ──┐
    the next such call, or a tick of a second ──> is it still the same? ┘

Two further checks compare the columns with the objects. Neither sees a write that both agree with,
nor one that is undone, nor a change of an object that others have as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from mooring.scheduler.service import Service

#: Calls of the cache that may change it; "recount" is the repair after an audit.
CALLS: Final = (
    *("assume", "confirm", "forget", "put_pod", "remove_pod", "remove_pod_by_key"),
    *("put_node", "remove_node", "recount", "put_object", "remove_object"),
)
#: The columns of nodes and pods.
NODE_COLUMNS: Final = (
    *("allocatable", "requested", "nonzero_requested", "pod_count", "allowed_pods"),
    *("unschedulable", "alive", "taint_ids"),
)
POD_COLUMNS: Final = ("node_row", "priority", "start_s", "usage")

#: The contents of all objects are compared every so many seconds.
EVERY: Final = 7


class CacheWrites:
    """Follows the changes of a cache.

    Attributes:
        compared: Number of comparisons.

    Args:
        service: Has not begun yet.
        report: Called with each change that no call has made.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self.compared = 0
        self._cache: Any = service.cache
        self._report = report
        self._depth = self._ticks = 0
        self._last = "the start"
        #: id -> an object, and its content when it was put.
        self._contents: dict[int, tuple[Any, bytes]] = {}
        for name in CALLS:
            setattr(self._cache, name, self._followed(name, getattr(self._cache, name)))
        self._state = self._copied()

    def _followed(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if self._depth == 0:
                self._compare(name)
                self._note_content(args[0])
            self._depth += 1
            try:
                return real(*args)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._state, self._last = self._copied(), name

        return call

    def on_tick(self) -> None:
        """Compares; the run calls it once per second."""
        self._compare("a tick")
        self._ticks += 1
        if self._ticks % EVERY == 0:
            self._compare_contents()

    # -- the state --------------------------------------------------------------------------------

    def _compare(self, before: str) -> None:
        self.compared += 1
        state = self._copied()
        if state == self._state:
            return
        parts = [name for name in state if state[name] != self._state[name]]
        self._state = state
        self._report(f"{parts} of the cache changed between {self._last} and {before}")

    def _copied(self) -> dict[str, Any]:
        """Returns what a change would change; columns are copied."""
        cache = self._cache
        nodes, pods = cache.nodes, cache.pods
        columns = {name: getattr(nodes, name).tobytes() for name in NODE_COLUMNS}
        slots = slice(len(pods._placed))
        columns |= {name: getattr(pods, name)[..., slots].tobytes() for name in POD_COLUMNS}
        return {
            **columns,
            "names": tuple(nodes.names),
            "nodes": tuple(nodes.objects),
            "number of changes": nodes.log.generation,
            "pods": tuple((placed.info, placed.row) for placed in pods),
            "assumed": tuple(cache._assumed),
            "budgets": tuple(
                tuple(budgets.values()) for budgets in cache.budgets._budgets.values()
            ),
        }

    # -- the contents of objects ------------------------------------------------------------------

    def _note_content(self, obj: Any) -> None:
        """Remembers the content of an object that is put, or assumed."""
        obj = getattr(obj, "pod", obj)
        if isinstance(obj, msgspec.Struct):
            self._contents[id(obj)] = obj, msgspec.json.encode(obj)

    def _compare_contents(self) -> None:
        """Compares the contents of all pods and nodes with those that were put."""
        contents = {}
        for obj in self._objects():
            content = msgspec.json.encode(obj)
            _, before = self._contents.get(id(obj), (obj, content))
            if content != before:
                text = _difference(before, content)
                self._report(f"{obj.metadata.name} in the cache changed: {text}")
            contents[id(obj)] = obj, content
        self._contents = contents

    def _objects(self) -> Iterator[Any]:
        """Yields the nodes, and the pods on them."""
        yield from (node for node in self._cache.nodes.objects if node is not None)
        yield from (placed.info.pod for placed in self._cache.pods)


def _difference(before: bytes, after: bytes) -> str:
    """Returns the parts in which two texts differ, shortened."""
    start = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    return f"{before[start - 20 : start + 40]!r} is {after[start - 20 : start + 40]!r} now"
