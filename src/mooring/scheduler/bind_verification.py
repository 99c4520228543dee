"""Verifies that acknowledged bindings are observed by the watch.

::

    bound ──> tracked ──observed by the watch──> confirmed (the cache knows)
                 │ 30 s
                 v
             read the pod: bound to its node? tracked for another 30 s
                           pending, or deleted? assumption forgotten, pod requeued

An API server that is restored from a backup has lost bindings that it had acknowledged. The watch
continues from the backup and never reports them. Without this check such a pod would count on its
node for ever and never be scheduled.

Differs: kube-scheduler does not check.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.client import Client
from mooring.client.bound_node import read_bound_node
from mooring.client.retry import Sleep, requested_wait_s
from mooring.clock import Clock
from mooring.errors import NotFound, SchedulerError
from mooring.objects.pod import Pod
from mooring.queue import SchedulingQueue
from mooring.scheduler.event_handlers import POD_GONE
from mooring.state import PodInfo
from mooring.state.cache import Cache

#: A watch is rarely further behind than this.
CONFIRM_TIMEOUT_S: Final = 30.0

#: How often overdue bindings are looked for.
CHECK_INTERVAL_S: Final = 5.0

_log = logging.getLogger(__name__)


class UnconfirmedBinding(NamedTuple):
    """A binding that the watch has not reported yet, and when to check it."""

    pod: PodInfo
    node_name: str
    check_at_s: float


class BindVerifier:
    """Reads pods whose binding is overdue.

    Args:
        client: The API server.
        cache: Knows which pods are assumed.
        queue: Takes the pods that lost their binding.
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
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._pods = pods
        self._clock = clock
        self._sleep = sleep
        self._unconfirmed: dict[str, UnconfirmedBinding] = {}

    def __len__(self) -> int:
        """Returns the number of tracked bindings; some may be confirmed already."""
        return len(self._unconfirmed)

    def track(self, pod: PodInfo, node_name: str) -> None:
        """Tracks a pod that was just bound."""
        check_at_s = self._clock.monotonic_s() + CONFIRM_TIMEOUT_S
        self._unconfirmed[pod.uid] = UnconfirmedBinding(pod, node_name, check_at_s)

    async def run(self) -> None:
        """Checks periodically, until cancelled."""
        while True:
            await self._sleep(CHECK_INTERVAL_S)
            await self.check_overdue()

    async def check_overdue(self) -> None:
        """Reads the pods that are overdue; drops those that are confirmed."""
        now_s = self._clock.monotonic_s()
        for binding in list(self._unconfirmed.values()):
            uid = binding.pod.uid
            if not self._cache.is_assumed(uid):
                self._unconfirmed.pop(uid, None)
            elif binding.check_at_s <= now_s and self._unconfirmed.get(uid) is binding:
                await self._check(binding)

    async def _check(self, binding: UnconfirmedBinding) -> None:
        uid = binding.pod.uid
        try:
            is_bound = bool(await read_bound_node(self._client, binding.pod.pod))
        except NotFound:
            is_bound = False
        except SchedulerError as error:
            _log.warning("cannot read pod from API server", extra={"error": str(error)})
            if self._unconfirmed.get(uid) is binding:
                check_at_s = self._clock.monotonic_s() + requested_wait_s(error)
                self._unconfirmed[uid] = binding._replace(check_at_s=check_at_s)
            return
        if self._unconfirmed.get(uid) is not binding or not self._cache.is_assumed(uid):
            return  # an event arrived meanwhile
        if is_bound:
            check_at_s = binding.check_at_s + CONFIRM_TIMEOUT_S
            self._unconfirmed[uid] = binding._replace(check_at_s=check_at_s)
            return
        del self._unconfirmed[uid]
        self._requeue(binding)

    def _requeue(self, binding: UnconfirmedBinding) -> None:
        """Forgets the assumption of a lost binding, and schedules the pod again."""
        pod = binding.pod
        fields = {"pod": pod.key, "node": binding.node_name}
        _log.warning("acknowledged binding not found on API server, requeueing", extra=fields)
        placed = self._cache.pods.get(pod.uid)
        assert placed is not None
        self._cache.forget(pod.uid)
        self._queue.move(POD_GONE, placed.info.pod, None, only=lambda other: other.uid != pod.uid)
        newest = self._pods.get(pod.key)
        if newest is None or newest.metadata.uid != pod.uid or newest.spec.node_name:
            return
        if newest.metadata.deletion_timestamp is None:
            self._queue.add(PodInfo(newest))
