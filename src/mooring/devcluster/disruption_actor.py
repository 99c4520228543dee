"""The disruption controller of an in-memory cluster: the status of disruption budgets.

``mooring.simulation.controllers.disruption`` has the logic; this module watches and writes. Pods
and workloads are watched from the first budget on: most clusters have none.

Source: pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.client import Client, Informer, ObjectChange
from mooring.client.rest.client import Patch as PatchFormat
from mooring.client.rest.paths import path_of
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.events.budgets import record_several, record_sync
from mooring.devcluster.events.recorder import EventRecorder
from mooring.errors import ApiError, SchedulerError
from mooring.objects.codec.decode import to_builtins
from mooring.objects.kinds import Kind, kind_named
from mooring.objects.meta import key
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from mooring.simulation.controllers.disruption.budgets import BUDGET, Budgets, NewStatus
from mooring.simulation.controllers.objects import WORKLOAD_KINDS, Json, Workload

_BUDGETS: Final[Kind] = kind_named(BUDGET)
#: The kinds whose replicas count; they are listed before pods.
_SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
#: A status that could not be written is calculated again after so many seconds.
RETRY_S: Final = 1.0

_log = logging.getLogger(__name__)


class DisruptionActor:
    """Writes the status of budgets.

    Attributes:
        last_version: resourceVersion of the last status that was written.

    Args:
        client: A client that may patch the status of budgets.
        clock: For deadlines and conditions, and for the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
        events: Records why a status could not be calculated, and pods with several budgets;
            None = nothing is recorded.
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
        self._budgets = Budgets(self._find)
        kinds = [_BUDGETS, *(WORKLOAD_KINDS[name] for name in _SCALED), kind_named("Pod")]
        self._informers = {
            kind.name: Informer(
                client, kind, partial(self._on_change, kind.name), clock=clock, rng=rng, sleep=sleep
            )
            for kind in kinds
        }
        self._changed = asyncio.Event()
        self._is_working = False
        self._counts = False
        self.last_version = 0
        #: Key -> calculates the status of a budget later.
        self._timers: dict[str, asyncio.Task[None]] = {}

    def has_counted(self, pod_version: int) -> bool:
        """Returns whether every budget has its status, by the pods up to a resourceVersion."""
        budgets = self._informers[BUDGET]
        if not budgets.has_synced:
            return False
        if not budgets.objects:
            return True
        version = int(self._informers["Pod"].version or "0")
        is_idle = self._counts and not (self._is_working or self._budgets.has_work)
        return is_idle and version >= pod_version and int(budgets.version) >= self.last_version

    async def run(self) -> None:
        """Writes statuses until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers[BUDGET].run())
            while not self._budgets.has_work:
                await self._wait_for_change()
            others = [informer for kind, informer in self._informers.items() if kind != BUDGET]
            for informer in others:
                tasks.create_task(informer.run())
            for informer in others:
                await informer.wait_until_synced()
            self._counts = True
            while True:
                result = self._budgets.next_status(self._clock.wall_s())
                if result is None:
                    await self._wait_for_change()
                    continue
                self._is_working = True
                try:
                    await self._write(result, tasks)
                finally:
                    self._is_working = False

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        self._budgets.on_change(kind, change)
        pod = change.new if change.new is not None else change.old
        if kind == "Pod" and self._events is not None and pod is not None:
            record_several(self._events, pod, self._budgets.names_of(pod))
        self._changed.set()

    def _find(self, kind: str, object_key: str) -> Workload | None:
        informer = self._informers.get(kind) if kind in _SCALED else None
        return None if informer is None else informer.objects.get(object_key)

    async def _write(self, result: NewStatus, tasks: asyncio.TaskGroup) -> None:
        budget, (status, again_s), _, failure = result
        budget_key = key(budget)
        if self._events is not None:
            record_sync(self._events, result)
        if failure is not None:
            extra = {"budget": budget_key, "error": str(failure)}
            _log.info("status of a budget not calculated", extra=extra)
        if status != budget.status:
            try:
                await self._patch(budget, status)
            except SchedulerError as error:
                # A budget that has changed or is gone is reported by its watch.
                _log.info("status not written", extra={"budget": budget_key, "error": str(error)})
                again_s = None if isinstance(error, ApiError) else RETRY_S
        if (timer := self._timers.pop(budget_key, None)) is not None:
            timer.cancel()
        if again_s is not None:
            self._timers[budget_key] = tasks.create_task(self._add_later(budget_key, again_s))

    async def _add_later(self, budget_key: str, wait_s: float) -> None:
        await self._sleep(wait_s)
        self._budgets.add(budget_key)
        self._changed.set()

    async def _patch(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        """Writes a status, unless the budget has changed: an eviction may have counted."""
        metadata = budget.metadata
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": _status_patch(budget.status, status),
        }
        path = path_of(_BUDGETS, metadata.namespace, metadata.name, "status")
        body = await self._client.write(
            "PATCH", path, msgspec.json.encode(patch), content_type=PatchFormat.MERGE.value
        )
        stored = msgspec.json.decode(body)
        self.last_version = int(stored["metadata"]["resourceVersion"])


def _status_patch(old: PodDisruptionBudgetStatus, new: PodDisruptionBudgetStatus) -> Json:
    """Returns the merge patch of a status: zeros are written, and old entries removed."""
    removed: Mapping[str, Any] = dict.fromkeys(
        old.disrupted_pods.keys() - new.disrupted_pods.keys()
    )
    return {
        "observedGeneration": new.observed_generation,
        "disruptedPods": {**new.disrupted_pods, **removed} or None,
        "disruptionsAllowed": new.disruptions_allowed,
        "currentHealthy": new.current_healthy,
        "desiredHealthy": new.desired_healthy,
        "expectedPods": new.expected_pods,
        "conditions": to_builtins(new.conditions),
    }
