"""Audits the cache of a running scheduler every minute, a slice at a time, and repairs it.

Nothing should ever be found: each finding is a bug, is logged as an error and is counted. A
scheduler that goes on with a wrong cache overcommits nodes or leaves pods pending, so what can be
repaired from the informers' objects is.

==========  =============================================  ======================================
Difference  What differs                                   Repair
==========  =============================================  ======================================
node        a node is missing in the cache, or too many    the event that was missed is handled
pod         a pod is in neither cache nor queue, or gone   the event that was missed is handled
usage       what the pods of a node request                it is summed up again
other       labels, taints, ports or indexes of a node     none: restart the scheduler
==========  =============================================  ======================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.client import ObjectChange
from mooring.client.retry import Sleep
from mooring.objects import Pod
from mooring.objects.pod import FINISHED_PHASES
from mooring.queue import QueueName, SchedulingQueue, profile_of
from mooring.scheduler.event_handlers import EventHandlers
from mooring.state.audit import audit_row
from mooring.state.cache import Cache

AUDIT_INTERVAL_S: Final = 60.0

#: A difference counts if it is still there so much later: its event may not have arrived yet.
CONFIRM_S: Final = 1.0

#: Nodes in one pass: at 5 000 nodes all have been audited after five minutes.
NODES_PER_PASS: Final = 1000

#: Nodes between two turns of the event loop, about 2 ms of work.
NODES_PER_SLICE: Final = 20

#: Problems of a node in a log line.
PROBLEMS_MAX: Final = 10

_log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """An object that the cache has and the informers do not, or the reverse.

    Attributes:
        kind: "Node" or "Pod".
        name: The node's name, or the pod's UID.
        is_missing: Whether it is missing in the cache; otherwise it should not be there.
    """

    kind: str
    name: str
    is_missing: bool


class CacheAudit:
    """Compares cache and queue with the informers' objects, and the columns with the cache.

    Args:
        cache: The scheduler's cache.
        queue: Its queue.
        events: Handles what was missed.
        objects: Kind -> the informer's objects, by key.
        profiles: The schedulerNames whose pods are ours.
        sleep: Waits between passes and slices.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        events: EventHandlers,
        objects: Callable[[str], Mapping[str, Any]],
        profiles: Container[str],
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._events = events
        self._objects = objects
        self._profiles = profiles
        self._sleep = sleep
        self._next_row = 0
        #: Number of passes.
        self.passes = 0
        self._counts = dict.fromkeys(("node", "pod", "usage", "other"), 0)

    def statistics(self) -> dict[str, int]:
        """Returns the number of differences found so far, by what differed."""
        return dict(self._counts)

    async def run(self) -> None:
        """Audits every minute until cancelled."""
        while True:
            await self._sleep(AUDIT_INTERVAL_S)
            await self.run_once()

    async def run_once(self) -> None:
        """Runs one pass: all objects, and the columns of some nodes."""
        suspected = self._differences()
        if suspected:
            await self._sleep(CONFIRM_S)
            confirmed = suspected & self._differences()
            for difference in sorted(confirmed):
                self._repair(difference)
        await self._audit_rows()
        self.passes += 1

    # -- objects ----------------------------------------------------------------------------------

    def _differences(self) -> set[Difference]:
        """Returns how cache and queue differ from the informers' objects: O(objects)."""
        if self._events.buffered:
            return set()  # an attempt waits for an extender, and the cache waits for it
        return {*self._node_differences(), *self._pod_differences()}

    def _node_differences(self) -> Iterator[Difference]:
        names = {node.metadata.name for node in self._objects("Node").values()}
        rows = enumerate(self._cache.nodes.objects)
        cached = {self._cache.nodes.names[row] for row, node in rows if node is not None}
        yield from (Difference("Node", name, True) for name in names - cached)
        yield from (Difference("Node", name, False) for name in cached - names)

    def _pod_differences(self) -> Iterator[Difference]:
        cache, queue = self._cache, self._queue
        expected: set[str] = set()
        pods: Mapping[str, Pod] = self._objects("Pod")
        for pod in pods.values():
            uid = pod.metadata.uid
            expected.add(uid)
            if cache.pods.get(uid) is not None:
                continue
            if pod.spec.node_name:
                is_missing = pod.status.phase not in FINISHED_PHASES
            else:
                is_queued = queue.queue_of(uid) is not QueueName.NONE
                is_missing = not is_queued and profile_of(pod) in self._profiles
            if is_missing:
                yield Difference("Pod", uid, True)
        for placed in cache.pods:
            uid = placed.info.uid
            if uid not in expected and not cache.is_assumed(uid):
                yield Difference("Pod", uid, False)
        for entry in queue.pods():
            if entry.uid not in expected:
                yield Difference("Pod", entry.uid, False)

    def _repair(self, difference: Difference) -> None:
        """Handles the event that was missed."""
        kind, name, is_missing = difference
        if is_missing:
            objects = self._objects(kind).values()
            obj = next((obj for obj in objects if _name_of(kind, obj) == name), None)
            change = ObjectChange(None, obj)
        else:
            obj = self._cached(kind, name)
            change = ObjectChange(obj, None)
        if obj is None:
            return
        self._counts[kind.lower()] += 1
        problem = "missing in the cache" if is_missing else "not on the API server"
        name = (
            obj.metadata.name if kind == "Node" else f"{obj.metadata.namespace}/{obj.metadata.name}"
        )
        fields = {"kind": kind, "object": name, "problem": problem}
        _log.error("Cache mismatch repaired: a bug in mooring, please report it", extra=fields)
        self._events.on_change(kind, change)

    def _cached(self, kind: str, name: str) -> Any:
        if kind == "Node":
            row = self._cache.nodes.live_row(name)
            return self._cache.nodes.objects[row] if row >= 0 else None
        placed = self._cache.pods.get(name)
        if placed is not None:
            return placed.info.pod
        entry = self._queue.get(name)
        return entry.pod.pod if entry is not None else None

    # -- columns ----------------------------------------------------------------------------------

    async def _audit_rows(self) -> None:
        """Audits the columns of the next nodes."""
        nodes = self._cache.nodes
        left = min(NODES_PER_PASS, nodes.size)
        while left > 0:
            first = self._next_row if self._next_row < nodes.size else 0
            last = min(first + min(NODES_PER_SLICE, left), nodes.size)
            for row in range(first, last):
                self._audit_row(row)
            self._next_row = last
            left -= max(last - first, 1)
            await self._sleep(0)

    def _audit_row(self, row: int) -> None:
        problems = audit_row(self._cache, row)
        if not problems:
            return
        name = self._cache.nodes.names[row]
        self._cache.recount(name)
        unrepaired = audit_row(self._cache, row)
        self._counts["other" if unrepaired else "usage"] += 1
        fields = {"node": name, "problems": "; ".join(problems[:PROBLEMS_MAX])}
        if unrepaired:
            text = "Cache mismatch: a bug in mooring, please report it and restart the scheduler"
        else:
            text = "Cache mismatch repaired: a bug in mooring, please report it"
        _log.error(text, extra=fields)


def _name_of(kind: str, obj: Any) -> str:
    return str(obj.metadata.name if kind == "Node" else obj.metadata.uid)
