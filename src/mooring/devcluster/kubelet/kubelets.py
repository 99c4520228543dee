"""Simulated kubelets: bound pods become Running, deleted pods go when their grace period is over.

One watch serves the kubelets of all nodes. A pod starts half a second after its binding, and so
does an ephemeral container after it was added (``kubectl debug``). Its ``PodRun`` knows when its
programs end, and whether it is Ready; most run until they are deleted. A deleted pod uses its whole
grace period, as one does whose process ignores the signal to end.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
from typing import Any, Final

from mooring.client import Client, Informer, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng, rfc3339
from mooring.devcluster.events.kubelet import (
    EPHEMERAL,
    INIT,
    MAIN,
    record_backoff,
    record_start,
    record_stop,
)
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.kubelet.pod_run import PodRun, Step, gate_states
from mooring.devcluster.kubelet.pods import PODS, KubeletPod
from mooring.devcluster.kubelet.programs import InvalidAnnotation, Program, annotated
from mooring.errors import NotFound, SchedulerError
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES, Container

START_S: Final = 0.5
#: A status that could not be written is written again so many seconds later (status_manager.go).
RETRY_S: Final = 10.0
#: Number of pods started or ended concurrently.
WORKERS: Final = 4


_log = logging.getLogger(__name__)


class Kubelets:
    """Writes the status of every pod on a node.

    Attributes:
        informer: The pods.

    Args:
        client: A client that may update pods.
        clock: For timestamps.
        rng: For the watch's backoff.
        sleep: Sleeps so many seconds.
        events: Records what happens to containers; None = it is not recorded.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        events: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._events = events
        self._clock = clock
        self._sleep = sleep
        #: Due time in monotonic seconds, number, pod: as a heap.
        self._timers: list[tuple[float, int, KubeletPod]] = []
        self._numbers = itertools.count()
        self._has_earlier_timer = asyncio.Event()
        self._work: asyncio.Queue[KubeletPod] = asyncio.Queue()
        self.informer = Informer(client, PODS, self._on_change, clock=clock, rng=rng, sleep=sleep)
        #: UIDs of those that are about to start.
        self._starting: set[str] = set()
        self._addresses = 0
        #: UID -> the containers of a pod that has started and not ended.
        self._runs: dict[str, PodRun] = {}
        #: UIDs of those whose status is being written.
        self._writing: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """True if no pod is about to start."""
        return not self._starting

    @property
    def has_timers(self) -> bool:
        """True if a pod is about to start, or to end."""
        return bool(self._timers) or not self._work.empty() or bool(self._starting)

    async def run(self) -> None:
        """Starts and ends pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.informer.run())
            tasks.create_task(self._wait_for_timers(tasks))
            for _ in range(WORKERS):
                tasks.create_task(self._process_queue())

    def _on_change(self, change: ObjectChange) -> None:
        pod: KubeletPod | None = change.new
        if pod is None:
            uid = change.old.metadata.uid
            self._runs.pop(uid, None)
            self._starting.discard(uid)
            return
        if not pod.spec.node_name:
            return
        wait_s = START_S
        if pod.metadata.deletion_timestamp is not None:
            grace_s = pod.metadata.deletion_grace_period_seconds or 0
            wait_s = float(grace_s)
            self._note_deletion(change.old, pod)
        elif (run := self._runs.get(pod.metadata.uid)) is not None:
            if gate_states(run.pod) != gate_states(pod):
                run.pod, wait_s = pod, 0.0
            elif not _unstarted(pod):
                return
        elif pod.status.phase == "Pending":
            self._starting.add(pod.metadata.uid)
        elif not _unstarted(pod):
            return
        self._call_at(self._clock.monotonic_s() + wait_s, pod)

    def _call_at(self, due_s: float, pod: KubeletPod) -> None:
        """Passes the pod on to a worker then."""
        heapq.heappush(self._timers, (due_s, next(self._numbers), pod))
        if self._timers[0][0] == due_s:
            self._has_earlier_timer.set()

    def _note_deletion(self, old: KubeletPod | None, pod: KubeletPod) -> None:
        is_new = old is not None and old.metadata.deletion_timestamp is None
        if self._events is not None and is_new and pod.status.phase == "Running":
            record_stop(self._events, pod)

    async def _wait_for_timers(self, tasks: asyncio.TaskGroup) -> None:
        """Passes pods on to the workers when they are due."""
        while True:
            now_s = self._clock.monotonic_s()
            while self._timers and self._timers[0][0] <= now_s:
                self._work.put_nowait(heapq.heappop(self._timers)[2])
            self._has_earlier_timer.clear()
            sleeping = None
            if self._timers:
                sleeping = tasks.create_task(self._wake_after(self._timers[0][0] - now_s))
            await self._has_earlier_timer.wait()
            if sleeping is not None:
                sleeping.cancel()

    async def _wake_after(self, wait_s: float) -> None:
        await self._sleep(wait_s)
        self._has_earlier_timer.set()

    async def _process_queue(self) -> None:
        while True:
            pod = await self._work.get()
            metadata = pod.metadata
            try:
                await self._process(pod)
            except SchedulerError as error:
                _log.info(
                    "pod status not written", extra={"pod": metadata.name, "error": str(error)}
                )
                if not isinstance(error, NotFound) and self._process_later(pod):
                    continue
            self._starting.discard(metadata.uid)

    def _process_later(self, pod: KubeletPod) -> bool:
        """Passes the pod on to a worker after a failed request; returns False if it is gone."""
        latest: KubeletPod | None = self.informer.objects.get(key(pod))
        if latest is None or latest.metadata.uid != pod.metadata.uid:
            return False
        self._call_at(self._clock.monotonic_s() + RETRY_S, latest)
        return True

    async def _process(self, pod: KubeletPod) -> None:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None:
            await self._client.delete(
                "Pod", metadata.name, metadata.namespace, uid=metadata.uid, grace_period_s=0
            )
        elif metadata.uid in self._runs:
            await self._advance(metadata.uid)
            await self._start_ephemeral(key(pod))
        elif pod.status.phase == "Pending":
            self._runs[metadata.uid] = PodRun(pod, _annotated(pod), self._new_address())
            await self._advance(metadata.uid)
        else:
            await self._start_ephemeral(key(pod))

    async def _advance(self, uid: str) -> None:
        """Makes happen what is due in a pod, and writes its status."""
        if uid in self._writing:
            return  # the worker that writes looks at it again
        self._writing.add(uid)
        try:
            while (run := self._runs.get(uid)) is not None:
                pod, now_s, wall_s = run.pod, self._clock.monotonic_s(), self._clock.wall_s()
                step = run.advance(now_s, wall_s)
                self._note_step(pod, step)
                status = run.status(now_s, wall_s)
                if status != run.written:
                    await self._client.patch_pod_status(pod, status)
                    run.written = status
                if run.pod is pod and run.next_s > self._clock.monotonic_s():
                    break
        finally:
            self._writing.remove(uid)
        if run is None:
            return
        if run.phase in FINISHED_PHASES:
            self._runs.pop(uid, None)
        elif run.next_s < math.inf:
            self._call_at(run.next_s, run.pod)

    def _note_step(self, pod: KubeletPod, step: Step) -> None:
        if self._events is None:
            return
        for run in step.started:
            record_start(self._events, pod, INIT if run.is_init else MAIN, [run.container])
        for run in step.backing_off:
            record_backoff(self._events, pod, INIT if run.is_init else MAIN, run.container)

    def _new_address(self) -> str:
        self._addresses += 1
        number = self._addresses
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

    async def _start_ephemeral(self, pod_key: str) -> None:
        """Makes the ephemeral containers run that were added to a pod."""
        pod: KubeletPod | None = self.informer.objects.get(pod_key)
        if pod is None or not (unstarted := _unstarted(pod)):
            return
        state = {"running": {"startedAt": rfc3339(self._clock.wall_s())}}
        started = [_container_status(container, state, started=None) for container in unstarted]
        statuses = [*pod.status.ephemeral_container_statuses, *started]
        await self._client.patch_pod_status(pod, {"ephemeralContainerStatuses": statuses})
        if self._events is not None:
            record_start(self._events, pod, EPHEMERAL, unstarted)


def _annotated(pod: KubeletPod) -> Program | None:
    try:
        return annotated(pod.metadata.annotations)
    except InvalidAnnotation as error:
        _log.warning("annotation of a pod ignored", extra={"pod": key(pod), "error": str(error)})
        return None


def _unstarted(pod: KubeletPod) -> list[Container]:
    """Returns the ephemeral containers of a running pod that have no status."""
    if pod.status.phase != "Running" or not pod.spec.ephemeral_containers:
        return []
    names = {status["name"] for status in pod.status.ephemeral_container_statuses}
    return [item for item in pod.spec.ephemeral_containers if item.name not in names]


def _container_status(
    container: Container, state: dict[str, Any], *, started: bool | None
) -> dict[str, Any]:
    """Returns the status of a container; ``started`` None = an ephemeral one, which has no probes.

    An init container that has completed is ready.
    """
    status = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": started is not None,
        "restartCount": 0,
        "state": state,
    }
    return status if started is None else {**status, "started": started}
