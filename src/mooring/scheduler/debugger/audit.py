"""Audits the cache of a running scheduler every minute, a slice at a time, and repairs it.

No slice is longer than about 1 ms, whatever the size of the cluster: events are handled between
slices, so what is suspected is confirmed against the state as it is then.

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
from collections.abc import AsyncIterator, Callable, Container, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from mooring.client import ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock
from mooring.objects import Pod
from mooring.objects.meta import key as key_of
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

#: Work between two turns of the event loop; the time is read after so many objects.
SLICE_S: Final = 0.001
OBJECTS_PER_CHECK: Final = 128

#: Problems of a node in a log line.
PROBLEMS_MAX: Final = 10

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """An object that the cache has and the informers do not, or the reverse.

    Attributes:
        kind: "Node" or "Pod".
        key: The node's name, or "namespace/name" of the pod.
        uid: The pod's UID; "" for a node.
        is_missing: Whether it is missing in the cache; otherwise it should not be there.
    """

    kind: str
    key: str
    uid: str
    is_missing: bool


class _Turns:
    """Gives way to the event loop after ``SLICE_S``."""

    def __init__(self, clock: Clock, sleep: Sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._ends_s = clock.monotonic_s() + SLICE_S

    async def of(self, objects: list[T]) -> AsyncIterator[list[T]]:
        """Yields the objects, ``OBJECTS_PER_CHECK`` at a time."""
        for first in range(0, len(objects), OBJECTS_PER_CHECK):
            yield objects[first : first + OBJECTS_PER_CHECK]
            await self.end_slice_if_due()

    async def end_slice_if_due(self) -> None:
        """Waits for the next turn if this one has been long enough."""
        if self._clock.monotonic_s() >= self._ends_s:
            await self._sleep(0)
            self._ends_s = self._clock.monotonic_s() + SLICE_S


class CacheAudit:
    """Compares cache and queue with the informers' objects, and the columns with the cache.

    Args:
        cache: The scheduler's cache.
        queue: Its queue.
        events: Handles what was missed.
        objects: Kind -> the informer's objects, by key.
        profiles: The schedulerNames whose pods are ours.
        clock: Measures slices.
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
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._clock = clock
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
        turns = _Turns(self._clock, self._sleep)
        if suspected := await self._suspected(turns):
            await self._sleep(CONFIRM_S)
            for difference in suspected:
                if self._differs(difference):
                    self._repair(difference)
                await turns.end_slice_if_due()
        await self._audit_rows(turns)
        self.passes += 1

    # -- objects ----------------------------------------------------------------------------------

    async def _suspected(self, turns: _Turns) -> list[Difference]:
        """Returns how cache and queue differ from the informers' objects: O(objects)."""
        suspected: list[Difference] = []
        for is_missing, names in ((False, self._cache.nodes.names), (True, self._objects("Node"))):
            async for some_names in turns.of(list(names)):
                of_nodes = (Difference("Node", name, "", is_missing) for name in some_names)
                suspected += filter(self._differs, of_nodes)
        pods: Mapping[str, Pod] = self._objects("Pod")
        async for some in turns.of(list(pods.values())):
            suspected += [_pod(pod, True) for pod in some if self._is_pod_missing(pod)]
        async for placed in turns.of(list(self._cache.pods)):
            cached = [pod_on_node.info.pod for pod_on_node in placed]
            suspected += [_pod(pod, False) for pod in cached if not _has(pods, pod)]
        async for entries in turns.of(self._queue.pods()):
            queued = [entry.pod.pod for entry in entries]
            suspected += [_pod(pod, False) for pod in queued if not _has(pods, pod)]
        return list(dict.fromkeys(suspected))

    def _differs(self, difference: Difference) -> bool:
        """Returns whether cache or queue differ from the informers' objects now."""
        if self._events.buffered:
            return False  # an attempt waits for an extender, and the cache waits for it
        kind, key, uid, is_missing = difference
        obj = self._objects(kind).get(key)
        if kind == "Node":
            is_cached = self._cache.nodes.live_row(key) >= 0
            return is_missing != is_cached and is_missing == (obj is not None)
        if obj is not None and obj.metadata.uid == uid:
            return is_missing and self._is_pod_missing(obj)
        is_surplus = self._cached(kind, key, uid) is not None and not self._cache.is_assumed(uid)
        return is_surplus and not is_missing

    def _is_pod_missing(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        if self._cache.pods.get(uid) is not None:
            return False
        if pod.spec.node_name:
            return pod.status.phase not in FINISHED_PHASES
        if pod.metadata.deletion_timestamp is not None:
            return False  # its next attempt skips it, and it is not queued again
        is_queued = self._queue.queue_of(uid) is not QueueName.NONE
        return not is_queued and profile_of(pod) in self._profiles

    def _repair(self, difference: Difference) -> None:
        """Handles the event that was missed."""
        kind, key, uid, is_missing = difference
        if is_missing:
            change = ObjectChange(None, self._objects(kind).get(key))
        else:
            change = ObjectChange(self._cached(kind, key, uid), None)
        self._counts[kind.lower()] += 1
        problem = "missing in the cache" if is_missing else "not on the API server"
        fields = {"kind": kind, "object": key, "problem": problem}
        _log.error("Cache mismatch repaired: a bug in mooring, please report it", extra=fields)
        self._events.on_change(kind, change)

    def _cached(self, kind: str, key: str, uid: str) -> Any:
        if kind == "Node":
            row = self._cache.nodes.live_row(key)
            return self._cache.nodes.objects[row] if row >= 0 else None
        placed = self._cache.pods.get(uid)
        if placed is not None:
            return placed.info.pod
        entry = self._queue.get(uid)
        return entry.pod.pod if entry is not None else None

    # -- columns ----------------------------------------------------------------------------------

    async def _audit_rows(self, turns: _Turns) -> None:
        """Audits the columns of the next nodes."""
        nodes = self._cache.nodes
        for _ in range(min(NODES_PER_PASS, nodes.size)):
            row = self._next_row if self._next_row < nodes.size else 0
            self._audit_row(row)
            self._next_row = row + 1
            await turns.end_slice_if_due()

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


def _pod(pod: Pod, is_missing: bool) -> Difference:
    return Difference("Pod", key_of(pod), pod.metadata.uid, is_missing)


def _has(pods: Mapping[str, Pod], pod: Pod) -> bool:
    """Returns whether the informer has this pod, and not another one of its name."""
    live = pods.get(key_of(pod))
    return live is not None and live.metadata.uid == pod.metadata.uid
