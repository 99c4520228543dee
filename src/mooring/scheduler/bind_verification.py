"""Bindings that were acknowledged, and that no watch has told of yet.

::

    bound ──> expected ──the watch tells of it──> confirmed (the cache knows)
                 │ 30 s
                 v
             ask the API server: on its node? it is expected for another 30 s
                                 pending, or gone? what it holds is given back, and it is queued

An API server that is set back to a backup has forgotten bindings which it acknowledged. The watch
goes on from the backup and never tells of them, so without asking their pods would be counted on
nodes for ever and never be placed.

Differs: kube-scheduler does not ask (its cache once gave assumed pods up after a while, and then
counted too little).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from mooring.client import Client
from mooring.clock import Clock
from mooring.errors import NotFound, SchedulerError
from mooring.objects.pod import Pod
from mooring.queue import SchedulingQueue
from mooring.scheduler.event_handlers import POD_GONE
from mooring.state import Cache, PodInfo

#: A watch is not so far behind, as a rule; and a pod that is lost does not mind.
CONFIRM_S: Final = 30.0

#: How often bindings are looked at.
CHECK_INTERVAL_S: Final = 5.0

_log = logging.getLogger(__name__)


class UnconfirmedBinding(NamedTuple):
    """A binding: which pod, where, and when to ask."""

    uid: str
    namespace: str
    name: str
    node_name: str
    ask_at_s: float


class BindVerifier:
    """Asks about bindings that nobody tells of.

    Args:
        client: The API server.
        cache: Knows what is assumed.
        queue: Takes pods that lost their node.
        pods: "namespace/name" -> the newest version of each pod.
        clock: Monotonic seconds.
        sleep: Waits.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        queue: SchedulingQueue,
        pods: Mapping[str, Pod],
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._pods = pods
        self._clock = clock
        self._sleep = sleep
        self._expected: dict[str, UnconfirmedBinding] = {}

    def __len__(self) -> int:
        """How many are expected, or were a moment ago."""
        return len(self._expected)

    def track(self, pod: PodInfo, node_name: str) -> None:
        """A pod was bound: the watch will tell of it."""
        metadata = pod.metadata
        ask_at_s = self._clock.monotonic_s() + CONFIRM_S
        self._expected[pod.uid] = UnconfirmedBinding(
            pod.uid, metadata.namespace, metadata.name, node_name, ask_at_s
        )

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        while True:
            await self._sleep(CHECK_INTERVAL_S)
            await self.check_overdue()

    async def check_overdue(self) -> None:
        """Asks about those that are overdue; forgets those that are confirmed."""
        now_s = self._clock.monotonic_s()
        for one in list(self._expected.values()):
            if not self._cache.is_assumed(one.uid):
                self._expected.pop(one.uid, None)
            elif one.ask_at_s <= now_s:
                await self._ask(one)

    async def _ask(self, one: UnconfirmedBinding) -> None:
        try:
            live: Pod | None = await self._client.get("Pod", one.name, one.namespace)
        except NotFound:
            live = None
        except SchedulerError as error:
            _log.warning("nobody says where a pod is", extra={"error": str(error)})
            return
        if self._expected.get(one.uid) is not one or not self._cache.is_assumed(one.uid):
            return  # there was news meanwhile
        is_there = live is not None and live.metadata.uid == one.uid and live.spec.node_name
        if is_there:
            self._expected[one.uid] = one._replace(ask_at_s=one.ask_at_s + CONFIRM_S)
            return
        del self._expected[one.uid]
        self._handle_binding_failure(one)

    def _handle_binding_failure(self, one: UnconfirmedBinding) -> None:
        """The API server does not know of the binding any more: the pod is to be placed again."""
        key = f"{one.namespace}/{one.name}"
        _log.warning("a binding was lost again", extra={"pod": key, "node": one.node_name})
        placed = self._cache.pods.get(one.uid)
        assert placed is not None
        self._cache.forget(one.uid)
        self._queue.move(POD_GONE, placed.info.pod, None, only=lambda pod: pod.uid != one.uid)
        newest = self._pods.get(key)
        if newest is None or newest.metadata.uid != one.uid or newest.spec.node_name:
            return
        if newest.metadata.deletion_timestamp is None:
            self._queue.add(PodInfo(newest))
