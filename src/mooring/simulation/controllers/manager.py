"""The queue of workloads that a controller must look at, and the controllers.

A driver passes changes on, takes the next result, and applies its writes::

    change ──> on_change ──> queue ──> next_result ──> writes of the driver ──> changes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mooring.clock import Clock, Rng, seeded_random
from mooring.simulation.controllers.cluster import ControlledObjects, WorkloadKey
from mooring.simulation.controllers.cronjob import sync_cron_job
from mooring.simulation.controllers.daemonset import sync_daemon_set
from mooring.simulation.controllers.deployment.rollout import sync_deployment
from mooring.simulation.controllers.job import sync_job
from mooring.simulation.controllers.objects import Result, Turn, Workload
from mooring.simulation.controllers.replicaset import sync_replica_set
from mooring.simulation.controllers.statefulset import sync_stateful_set
from mooring.simulation.controllers.workload_pods import random_suffix

if TYPE_CHECKING:
    from mooring.client import ObjectChange


Controller = Callable[[Workload, ControlledObjects, Turn], Result]

CONTROLLERS: Final[Mapping[str, Controller]] = MappingProxyType(
    {
        "Deployment": sync_deployment,
        "ReplicaSet": sync_replica_set,
        "StatefulSet": sync_stateful_set,
        "DaemonSet": sync_daemon_set,
        "Job": sync_job,
        "CronJob": sync_cron_job,
        "ReplicationController": sync_replica_set,
    }
)


class ControllerManager:
    """Runs the controllers for the workloads that something has changed for.

    Attributes:
        cluster: The objects.
        failures: Workload -> why its last write failed.

    Args:
        has_deadlines: Whether Jobs have deadlines and times to live.
        clock: The wall clock for conditions.
        rng: For the names of pods; each workload has its own stream, so that one more workload
            does not change the names of the others.
    """

    def __init__(self, *, clock: Clock, rng: Rng, has_deadlines: bool = True) -> None:
        self.cluster = ControlledObjects()
        self.failures: dict[WorkloadKey, str] = {}
        self._clock = clock
        self._has_deadlines = has_deadlines
        self._seed = rng.getrandbits(64)
        self._streams: dict[WorkloadKey, Rng] = {}
        self._queue: dict[WorkloadKey, None] = {}

    @property
    def has_work(self) -> bool:
        """True if a workload is queued."""
        return bool(self._queue)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Stores a change, and queues the workloads that it concerns."""
        for workload_key in self.cluster.apply(kind, change):
            self.add(workload_key)

    def add(self, workload_key: WorkloadKey) -> None:
        """Queues a workload."""
        self._queue[workload_key] = None

    def next_result(self) -> tuple[WorkloadKey, Result] | None:
        """Takes the next workload and returns its result; None = the queue is empty."""
        while self._queue:
            workload_key = next(iter(self._queue))
            del self._queue[workload_key]
            kind, object_key = workload_key
            workload = self.cluster.workloads[kind].get(object_key)
            if workload is None:
                self._streams.pop(workload_key, None)
                self.failures.pop(workload_key, None)
                continue
            turn = Turn(
                self._clock.wall_s(),
                partial(random_suffix, self._stream(workload_key)),
                self.failures.get(workload_key, ""),
                self._has_deadlines,
            )
            return workload_key, CONTROLLERS[kind](workload, self.cluster, turn)
        return None

    def _stream(self, workload_key: WorkloadKey) -> Rng:
        stream = self._streams.get(workload_key)
        if stream is None:
            digest = 0
            for byte in "/".join(workload_key).encode():
                digest = (digest * 257 + byte) % (1 << 61)
            stream = self._streams[workload_key] = seeded_random(self._seed ^ digest)
        return stream
