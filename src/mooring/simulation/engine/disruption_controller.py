"""The disruption controller of a simulation: the status of disruption budgets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Clock
from mooring.objects.meta import controller_of, key
from mooring.objects.pod import Pod
from mooring.simulation.controllers.disruption.budgets import BUDGET, Budgets
from mooring.simulation.controllers.objects import WORKLOAD_KINDS, Workload
from mooring.simulation.engine.engine import PHASE_CONTROLLERS, PHASE_PODS
from mooring.simulation.engine.kubelets import START_S, run_pod

if TYPE_CHECKING:
    from mooring.simulation.controllers.cluster import ControlledObjects
    from mooring.simulation.engine.engine import Engine
    from mooring.simulation.engine.object_table import ObjectTable


class DisruptionController:
    """Keeps the status of all budgets; an engine's controller.

    A budget whose pods belong to workloads that are not there keeps its status: files often have
    pods without the objects that control them.

    Args:
        table: The objects.
        workloads: The scales of workloads.
        clock: Virtual time.
        starts_pods: Whether bound pods that a budget selects become Running and Ready, if no
            workload controls them; else the caller does it.
    """

    def __init__(
        self,
        table: ObjectTable,
        workloads: ControlledObjects,
        *,
        clock: Clock,
        starts_pods: bool = True,
    ) -> None:
        self._table = table
        self._workloads = workloads
        self._clock = clock
        self._starts_pods = starts_pods
        self._budgets = Budgets(self._find)
        self._engine: Engine | None = None
        self._follows_pods = False

    @property
    def has_work(self) -> bool:
        """True if pods or budgets have changed."""
        return self._budgets.has_work

    def start(self, engine: Engine) -> None:
        """Watches the table; the engine calls ``work``."""
        self._engine = engine
        self._table.listen(self._on_change, (BUDGET,))
        for budget in [*self._table.objects(BUDGET).values()]:
            self._on_change(BUDGET, ObjectChange(None, budget))

    async def work(self) -> None:
        """Writes the status of the next budget."""
        result = self._budgets.next_status(self._clock.wall_s())
        if result is None:
            return
        budget, (status, again_s), _, failure = result
        if failure is not None and failure.is_unknown_owner:
            return
        if status != budget.status:
            self._table.put(replace(budget, status=status))
        if again_s is not None:
            self._call_later(again_s, PHASE_CONTROLLERS, partial(self._budgets.add, key(budget)))

    def _find(self, kind: str, object_key: str) -> Workload | None:
        return self._workloads.workloads.get(kind, {}).get(object_key)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if not self._follows_pods:  # without budgets no pod counts
            self._follows_pods = True
            self._table.listen(self._on_change, ("Pod",))
            for pod in self._table.objects("Pod").values():
                self._budgets.on_change("Pod", ObjectChange(None, pod))
        self._budgets.on_change(kind, change)
        if kind == BUDGET and change.old is None:
            for pod in self._table.objects("Pod").values():
                self._start_pod(pod)
        elif kind == "Pod" and change.new is not None:
            was_bound = change.old is not None and bool(change.old.spec.node_name)
            if not was_bound:
                self._start_pod(change.new)

    def _start_pod(self, pod: Pod) -> None:
        """Lets a pod start, as its kubelet does; pods of workloads are started already."""
        owner = controller_of(pod.metadata)
        if not self._starts_pods or (owner is not None and owner.kind in WORKLOAD_KINDS):
            return
        is_waiting = pod.spec.node_name and pod.status.phase in ("", "Pending")
        if is_waiting and self._budgets.selects(pod):
            run = partial(run_pod, self._table, key(pod), pod.metadata.uid, self._clock)
            self._call_later(START_S, PHASE_PODS, run)

    def _call_later(self, wait_s: float, phase: int, run: partial[None]) -> None:
        if self._engine is not None:
            self._engine.call_at(self._clock.monotonic_s() + wait_s, phase, run)
