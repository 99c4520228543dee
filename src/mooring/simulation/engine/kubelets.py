"""The kubelets of a simulation: pods start, and leave when their grace period has passed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Clock, rfc3339
from mooring.errors import SchedulerError
from mooring.objects.meta import key
from mooring.objects.pod import Pod, PodCondition
from mooring.simulation.engine.engine import PHASE_PODS, Engine
from mooring.simulation.engine.object_table import ObjectTable

#: A pod is ready so many seconds after its binding, as in ``mooring start``.
START_S: Final = 0.5


class Kubelets:
    """Removes the pods of all nodes that are being deleted.

    Args:
        table: The objects.
        engine: Calls back when a grace period has passed.
        clock: Its time.
        is_away: Whether a node has no kubelet now: its pods stay.
    """

    def __init__(
        self,
        table: ObjectTable,
        engine: Engine,
        *,
        clock: Clock,
        is_away: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_away = is_away
        self._table = table
        self._engine = engine
        self._clock = clock

    def start(self) -> None:
        """Watches the pods; those that are being deleted already end from now on."""
        for pod in self._table.objects("Pod").values():
            self._on_change("Pod", ObjectChange(None, pod))
        self._table.listen(self._on_change)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind != "Pod" or change.new is None:
            return
        pod: Pod = change.new
        metadata = pod.metadata
        was_deleted = change.old is not None and change.old.metadata.deletion_timestamp is not None
        if metadata.deletion_timestamp is None or was_deleted or not pod.spec.node_name:
            return
        grace_s = metadata.deletion_grace_period_seconds
        if grace_s is None:
            grace_s = pod.spec.termination_grace_period_seconds or 0
        ends_s = self._clock.monotonic_s() + grace_s
        self._engine.call_at(ends_s, PHASE_PODS, partial(self._remove, key(pod), metadata.uid))

    def _remove(self, pod_key: str, uid: str) -> None:
        with suppress(SchedulerError):  # it is gone already
            pod: Pod = self._table.get("Pod", pod_key, uid=uid)
            if self._is_away(pod.spec.node_name):
                return
            self._table.delete("Pod", pod_key, uid=uid, grace_period_s=0)


def run_pod(table: ObjectTable, pod_key: str, uid: str, clock: Clock) -> None:
    """Makes a pod Running and Ready, unless it is gone, is being deleted, or runs already."""
    with suppress(SchedulerError):  # it is gone already
        pod: Pod = table.get("Pod", pod_key, uid=uid)
        if pod.metadata.deletion_timestamp is not None or pod.status.phase not in ("", "Pending"):
            return
        now = rfc3339(clock.wall_s())
        ready = PodCondition(type="Ready", status="True", last_transition_time=now)
        conditions = [item for item in pod.status.conditions if item.type != "Ready"]
        status = replace(pod.status, phase="Running", conditions=(*conditions, ready))
        table.put(replace(pod, status=status))
