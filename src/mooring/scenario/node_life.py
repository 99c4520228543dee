"""The life of nodes: cordon, drain, crash, recovery; and what becomes of their pods.

A crash ends everything that runs on a node. After 50 s without news the node is marked as
unreachable; its pods are deleted when their tolerations run out (300 s by default), but stay until
the node is back, as without a kubelet. Pods that are still there when it comes back begin again;
those of Jobs fail.

Source: pkg/controller/nodelifecycle (node-monitor-grace-period), kubectl drain (it retries a
refused eviction after 5 s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mooring.clock import Clock, rfc3339
from mooring.errors import NotFound, SchedulerError
from mooring.objects.meta import controller_of, key
from mooring.objects.node import Node, NodeCondition, NodeSpec, Taint
from mooring.objects.pod import FINISHED_PHASES, Pod, PodCondition
from mooring.objects.tolerations import NO_EXECUTE, NO_SCHEDULE
from mooring.scenario.disruption import Evictions
from mooring.scenario.run_times import FAILED
from mooring.scenario.taint_eviction import TaintEvictionController
from mooring.scheduler.evictor import DISRUPTION_TARGET
from mooring.simulation.engine.engine import PHASE_CONTROLLERS, PHASE_NODES, Engine

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.scenario.run_times import RunTimes
    from mooring.simulation.engine.object_table import ObjectTable

#: From the last news of a node to the mark that it is unreachable.
MONITOR_GRACE_S: Final = 50.0
#: From a refused eviction to the next one.
DRAIN_RETRY_S: Final = 5.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
#: Status of the condition Ready -> the taint of the node lifecycle controller.
_TAINT_OF: Final = {"False": NOT_READY, "Unknown": UNREACHABLE}
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


class NodeLife:
    """Changes nodes, and removes the pods of those that are away.

    Attributes:
        on_evict: Called with the key of a pod before it is deleted.
        on_crash: Called with the key of a pod before its run ends without a result.
        on_fail: Called with the name of a node that crashes, or that is not ready.
        down: Name -> number of the crash, of the nodes that are away.

    Args:
        table: The objects.
        engine: Calls back.
        run_times: The runs of pods, which a crash ends.
        clock: Virtual time.
        gates: Feature gates whose value is not the default.
    """

    def __init__(
        self,
        table: ObjectTable,
        engine: Engine,
        run_times: RunTimes,
        *,
        clock: Clock,
        gates: Mapping[str, bool],
    ) -> None:
        self.on_evict: Callable[[str], None] = lambda _: None
        self.on_crash: Callable[[str], None] = lambda _: None
        self.on_fail: Callable[[str], None] = lambda _: None
        self.down: dict[str, int] = {}
        self._table = table
        self._engine = engine
        self._run_times = run_times
        self._budgets = Evictions(table)
        self._clock = clock
        #: Of a crash: what was planned for an earlier one is void.
        self._last_number = 0
        self._drained: set[str] = set()
        run_times.is_away = self.down.__contains__
        #: Node -> keys of its pods.
        self._pods: dict[str, dict[str, None]] = {}
        self._taint_eviction = TaintEvictionController(
            table,
            clock=clock,
            call_later=self._call_later,
            pods_on=self.pods_on,
            evict=self.evict,
            compares=gates.get("TaintTolerationComparisonOperators", False),
        )

    def start(self) -> None:
        """Watches the pods."""
        for pod in self._table.objects("Pod").values():
            self._add(pod)
        self._table.listen(self._on_pod, ("Pod",))
        self._taint_eviction.start()

    def _on_pod(self, _: str, change: ObjectChange) -> None:
        if change.new is None:
            self._pods.get(change.old.spec.node_name, {}).pop(key(change.old), None)
        elif change.new.spec.node_name and (change.old is None or not change.old.spec.node_name):
            self._add(change.new)

    def _add(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._pods.setdefault(pod.spec.node_name, {})[key(pod)] = None

    def pods_on(self, node_name: str) -> list[Pod]:
        """Returns the unfinished pods of a node, by time of binding."""
        live = self._table.objects("Pod")
        pods = [live[pod_key] for pod_key in self._pods.get(node_name, ()) if pod_key in live]
        return [pod for pod in pods if pod.status.phase not in FINISHED_PHASES]

    def _call_later(self, wait_s: float, run: Callable[[], None]) -> None:
        self._engine.call_at(self._clock.monotonic_s() + wait_s, PHASE_CONTROLLERS, run)

    # -- cordon and drain -------------------------------------------------------------------------

    def cordon(self, name: str) -> None:
        """Marks a node as unschedulable."""
        self._set_unschedulable(name, unschedulable=True)

    def uncordon(self, name: str) -> None:
        """Lets a node take pods again; ends its drain."""
        self._drained.discard(name)
        self._set_unschedulable(name, unschedulable=False)

    def drain(self, name: str) -> None:
        """Cordons a node, and evicts its pods as their budgets allow; DaemonSets' pods stay."""
        self._drained.add(name)
        self.cordon(name)
        self._evict_all(name)

    def _evict_all(self, name: str) -> None:
        if name not in self._drained or name not in self._table.objects("Node"):
            return
        is_refused = False
        for pod in self.pods_on(name):
            if pod.metadata.deletion_timestamp is not None or _is_of(pod, "DaemonSet"):
                continue
            if self._budgets.may_evict(pod):
                self.evict(pod)
            else:
                is_refused = True
        if is_refused:
            self._call_later(DRAIN_RETRY_S, partial(self._evict_all, name))

    def evict(self, pod: Pod, *, grace_s: int | None = None) -> None:
        """Deletes a pod; that of a Job is marked before, as its failure policy may ask for it."""
        if pod.metadata.deletion_timestamp is None:
            self.on_evict(key(pod))
        if _is_of(pod, "Job"):
            self._table.put(_disrupted(pod, rfc3339(self._clock.wall_s())))
        with suppress(SchedulerError):
            self._table.delete("Pod", key(pod), uid=pod.metadata.uid, grace_period_s=grace_s)

    def _set_unschedulable(self, name: str, *, unschedulable: bool) -> None:
        node = self._table.objects("Node").get(name)
        if node is None or node.spec.unschedulable == unschedulable:
            return
        self._table.put(replace(node, spec=_cordoned(node, unschedulable=unschedulable)))

    def follow_cordon(self, name: str) -> None:
        """Taints a node that was marked as unschedulable by a patch; takes the taint away if not.

        Source: pkg/controller/nodelifecycle (doNoScheduleTaintingPass).
        """
        node = self._table.objects("Node")[name]
        spec = _cordoned(node, unschedulable=node.spec.unschedulable)
        if spec != node.spec:
            self._table.put(replace(node, spec=spec))

    # -- crash and recovery -----------------------------------------------------------------------

    def crash(self, name: str, back_after_s: float) -> None:
        """Ends everything on a node; it is back after a time, or never (infinity)."""
        if name in self.down or name not in self._table.objects("Node"):
            return
        self._last_number += 1
        self.on_fail(name)
        number = self.down[name] = self._last_number
        for pod in self.pods_on(name):
            self.on_crash(key(pod))
            self._run_times.stop(key(pod))
        now_s = self._clock.monotonic_s()
        notice = partial(self._notice, name, number)
        self._engine.call_at(now_s + MONITOR_GRACE_S, PHASE_NODES, notice)
        if back_after_s < math.inf:
            recover = partial(self.recover, name, number)
            self._engine.call_at(now_s + back_after_s, PHASE_NODES, recover)

    def _notice(self, name: str, number: int) -> None:
        """Marks a node as unreachable."""
        node = self._table.objects("Node").get(name)
        if node is None or self.down.get(name) != number:
            return
        now = rfc3339(self._clock.wall_s())
        self._table.put(_with_ready(_tainted(node, "Unknown", now), "Unknown", now))

    def mark(self, name: str, ready: str, *, evicts: bool = True) -> None:
        """Taints a node that says that it is not ready, and takes the taints away when it is.

        Its pods go on, unlike those of a crash, but are evicted when their tolerations run out.

        Args:
            name: Of the node.
            ready: Status of its condition Ready.
            evicts: False for a node that was never ready.
        """
        node = self._table.objects("Node").get(name)
        if node is None or name in self.down:
            return
        now = rfc3339(self._clock.wall_s())
        marked = _tainted(node, ready, now, evicts=evicts)
        if _marks_of(marked) == _marks_of(node):
            return
        if evicts and _marks_of(marked) and not _marks_of(node):
            self.on_fail(name)
        self._table.put(marked)

    def recover(self, name: str, number: int) -> None:
        """Brings a node back, unless it has crashed again or is gone."""
        if self.down.get(name) != number:
            return
        del self.down[name]
        node: Node | None = self._table.objects("Node").get(name)
        if node is None:
            return
        now = rfc3339(self._clock.wall_s())
        self._table.put(_with_ready(_tainted(node, "True", now), "True", now))
        for pod in self.pods_on(name):
            if pod.metadata.deletion_timestamp is not None:
                with suppress(NotFound):
                    self._table.delete("Pod", key(pod), grace_period_s=0)
            elif _is_of(pod, "Job"):
                self._run_times.finish(pod, FAILED)
            else:
                self._run_times.begin(pod)

    # -- removal ----------------------------------------------------------------------------------

    def remove(self, name: str) -> None:
        """Removes a node, and its pods with it."""
        self.down.pop(name, None)
        self._drained.discard(name)
        if name in self._table.objects("Node"):
            self._table.delete("Node", name)
        for pod in self.pods_on(name):
            self.evict(pod, grace_s=0)


def _is_of(pod: Pod, kind: str) -> bool:
    """Returns whether a controller of a kind has created a pod."""
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == kind


def _tainted(node: Node, ready: str, now: str, *, evicts: bool = True) -> Node:
    """Returns a node with the taints of a status of its condition Ready, and those of others."""
    others = [taint for taint in node.spec.taints if taint.key not in _TAINT_OF.values()]
    effects = (NO_SCHEDULE, NO_EXECUTE) if evicts else (NO_SCHEDULE,)
    own = [
        Taint(key=_TAINT_OF[ready], effect=effect, time_added=now)
        for effect in effects
        if ready in _TAINT_OF
    ]
    return replace(node, spec=replace(node.spec, taints=(*others, *own)))


def _marks_of(node: Node) -> list[tuple[str, str]]:
    """Returns the taints of a node that its condition Ready has given it."""
    marks = [taint for taint in node.spec.taints if taint.key in _TAINT_OF.values()]
    return [(taint.key, taint.effect) for taint in marks]


def _disrupted(pod: Pod, now: str) -> Pod:
    others = [item for item in pod.status.conditions if item.type != DISRUPTION_TARGET]
    mark = PodCondition(type=DISRUPTION_TARGET, status="True", last_transition_time=now)
    return replace(pod, status=replace(pod.status, conditions=(*others, mark)))


def _cordoned(node: Node, *, unschedulable: bool) -> NodeSpec:
    taints = [taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE]
    if unschedulable:
        taints.append(Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE))
    return replace(node.spec, unschedulable=unschedulable, taints=tuple(taints))


def _with_ready(node: Node, status: str, now: str) -> Node:
    others = [condition for condition in node.status.conditions if condition.type != "Ready"]
    ready = NodeCondition(type="Ready", status=status, last_transition_time=now)
    return replace(node, status=replace(node.status, conditions=(*others, ready)))
