"""Simulated kubelets: bound pods become Running, deleted pods are removed.

One watch serves the kubelets of all nodes. A pod starts half a second after its binding; a deleted
pod ends at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from mooring.client import Change, Client, Informer
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng, rfc3339
from mooring.errors import SchedulerError
from mooring.objects.pod import Pod

START_S: Final = 0.5
#: Number of pods started or ended concurrently.
WORKERS: Final = 4


_log = logging.getLogger(__name__)


class Kubelets:
    """Writes the status of every pod on a node.

    Args:
        client: A client that may update pods.
        clock: For timestamps.
        rng: For the watch's backoff.
        sleep: Sleeps so many seconds.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._work: asyncio.Queue[tuple[float, Pod]] = asyncio.Queue()
        self._informer = Informer(client, "Pod", self._on_change, clock=clock, rng=rng, sleep=sleep)
        self._addresses = 0

    async def run(self) -> None:
        """Starts and ends pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            for _ in range(WORKERS):
                tasks.create_task(self._process_queue())

    def _on_change(self, change: Change) -> None:
        pod: Pod | None = change.new
        if pod is None or not pod.spec.node_name:
            return
        is_deleted = pod.metadata.deletion_timestamp is not None
        if is_deleted or pod.status.phase == "Pending":
            due_s = self._clock.monotonic_s() + (0.0 if is_deleted else START_S)
            self._work.put_nowait((due_s, pod))

    async def _process_queue(self) -> None:
        while True:
            due_s, pod = await self._work.get()
            await self._sleep(max(0.0, due_s - self._clock.monotonic_s()))
            metadata = pod.metadata
            try:
                if metadata.deletion_timestamp is not None:
                    await self._client.delete(
                        "Pod", metadata.name, metadata.namespace, uid=metadata.uid, grace_period_s=0
                    )
                else:
                    await self._client.patch_pod_status(pod, self._running(pod))
            except SchedulerError as error:
                # The pod was deleted or replaced; there is nothing to run.
                _log.info(
                    "pod status not written", extra={"pod": metadata.name, "error": str(error)}
                )

    def _running(self, pod: Pod) -> dict[str, Any]:
        """Returns the status of a pod with all containers running."""
        now = rfc3339(self._clock.wall_s())
        self._addresses += 1
        address = f"10.{self._addresses >> 16 & 255}.{self._addresses >> 8 & 255}"
        address += f".{self._addresses & 255}"
        conditions = [
            {
                "type": condition_type,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": now,
            }
            for condition_type in ("Initialized", "Ready", "ContainersReady")
        ]
        containers = [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod.spec.containers
        ]
        return {
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": conditions,
            "containerStatuses": containers,
        }
