"""NodeVolumeLimits: a node can hold only so many volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.pod_deltas import PodsPerNode, RemovedPods
from mooring.framework.status import NodeError, Skip
from mooring.plugins.node_volume_limits.hints import events, fragment
from mooring.state import PodInfo, Snapshot
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.state.volumes.limits import Counted, Problem, attach_limit_volumes, counts
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.usage import VolumeUse

REASON = "node(s) exceed max volume count"

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint16]
Ints = npt.NDArray[np.int64]

_OVER = Reject(REASON)

#: The code of _OVER; problems of single nodes come after it.
_EXCEEDED = 1


@dataclass(frozen=True, slots=True)
class LimitsState:
    """What of the pod counts on nodes with a CSINode, and what is wrong on those without one.

    Without one nothing is limited, and disks that a CSI driver took over do not count.
    """

    counted: Counted
    problem_without: Problem | None


class NodeVolumeLimits:
    """Refuses nodes that would have more volumes of a driver than the driver allows there.

    A volume that pods of the node use already is not another one; one that is attached for
    somebody else counts as well.

    Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go. *Differs:* when the volumes of
    several pods of a node cannot be counted, which of them is told may be another one.
    """

    name = "NodeVolumeLimits"
    needs = (
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass",
        "CSINode",
        "VolumeAttachment",
    )

    def sign(self, pod: PodInfo) -> Hashable:
        """What the hints read: the pod's namespace, its claims, and drivers of its disks."""
        return fragment(pod)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Counts the pod's volumes; skips a pod that has none of the kinds that count."""
        pod, volumes = cycle.pod.pod, cycle.pod.spec.volumes
        if not any(map(counts, volumes)):
            return SKIP
        storage, problem = cycle.snapshot.storage, None
        counted = storage.use.usage_if_scheduled(pod)
        if counted.problem is not None:
            problem = attach_limit_volumes(pod, storage.known, has_csi_node=False).problem
        cycle[self] = LimitsState(counted, problem)
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns a claim that cannot be found out about comes before the limits."""
        state: LimitsState = cycle[self]
        counted, snapshot = state.counted, nodes.snapshot
        if counted.problem is not None:
            return _unknown(state, nodes)
        if not counted.volumes:
            return FilterStatuses.feasible(len(nodes))
        is_over = _exceeds(counted.volumes, nodes)
        if not snapshot.storage.use.problems and not nodes.has_deltas:
            # Most of the time: nothing else can be against any node.
            none = FilterStatuses.feasible(len(nodes))
            return none if is_over is None else FilterStatuses.refuse(is_over, _OVER)
        codes = np.zeros(len(nodes), dtype=np.uint16)
        table: list[Status] = [_OVER]
        if is_over is not None:
            codes[is_over] = _EXCEEDED
        _note_uncountable(codes, table, snapshot, nodes)
        if nodes.has_deltas:
            _judge_worlds(codes, table, counted.volumes, nodes)
        return FilterStatuses(codes, table)

    def events(self) -> list[ClusterEventWithHint]:
        """More room for a driver, a pod or an attachment that goes, a claim of the pod."""
        return events()


def _unknown(state: LimitsState, nodes: NodeView) -> FilterStatuses:
    """What is wrong with the pod's claims, where there is a CSINode and where there is none."""
    codes = np.zeros(len(nodes), dtype=np.uint16)
    table: list[Status] = []
    has_csi_node = nodes.take(nodes.snapshot.storage.csi_nodes.has_csi_node_by_row()) > 0
    _tell(state.problem_without, ~has_csi_node, codes, table)
    _tell(state.counted.problem, has_csi_node, codes, table)
    return FilterStatuses(codes, table)


def _tell(problem: Problem | None, where: Bools, codes: Codes, table: list[Status]) -> None:
    """Puts what is wrong with the pod's claims against these nodes."""
    if problem is None:
        return
    text = problem.text
    table.append(Reject(text, resolvable=False) if problem.is_absence else NodeError(text))
    codes[where] = len(table)


# ---------------------------------------------------------------- as it is


def _exceeds(volumes: dict[str, str], nodes: NodeView) -> Bools | None:
    """Where the pod's volumes are too many for one of their drivers; None = nowhere."""
    storage = nodes.snapshot.storage
    is_over: Bools | None = None
    for driver in dict.fromkeys(volumes.values()):
        own = [volume for volume, of in volumes.items() if of == driver]
        left = storage.use.attached_volumes.remaining_by_row(driver)
        if int(left.min()) >= len(own):
            continue
        added = len(own) - _used_by_pods(own, nodes.snapshot)
        over = (added > 0) & (added > left)
        is_over = over if is_over is None else is_over | over
    return None if is_over is None else nodes.take(is_over)


def _used_by_pods(volumes: Sequence[str], snapshot: Snapshot) -> Ints:
    """How many of the volumes pods of each row use, int64 shape (capacity,)."""
    found = np.zeros(snapshot.nodes.capacity, dtype=np.int64)
    for volume in volumes:
        names = snapshot.storage.use.attached_volumes.nodes_of(volume)
        if names:  # mostly there is none, and a pod may have a thousand volumes
            rows = map(snapshot.nodes.row, names)
            found[[row for row in rows if row >= 0]] += 1
    return found


def _note_uncountable(
    codes: Codes, table: list[Status], snapshot: Snapshot, nodes: NodeView
) -> None:
    """An Error where the volumes of a pod on a node with limits cannot be counted."""
    problems = snapshot.storage.use.problems
    errors = np.zeros(snapshot.nodes.capacity, dtype=np.uint16)
    for name, of_node in problems.items():
        row = snapshot.nodes.row(name)
        first = (pod.info.uid for pod in snapshot.pods.on_row(row) if pod.info.uid in of_node)
        table.append(NodeError(of_node[next(first)]))
        errors[row] = len(table)
    found = nodes.take(errors)
    found = np.where(nodes.take(snapshot.storage.csi_nodes.has_limits()) > 0, found, 0)
    codes[found > 0] = found[found > 0]


# ---------------------------------------------------------------- worlds


def _judge_worlds(
    codes: Codes, table: list[Status], volumes: dict[str, str], nodes: NodeView
) -> None:
    """Judges again, one by one, the worlds where pods with volumes are more or fewer."""
    snapshot = nodes.snapshot
    use, has_limits = snapshot.storage.use, snapshot.storage.csi_nodes.has_limits()
    touched = _touched(nodes.added, use) | _touched(nodes.removed, use)
    touched &= nodes.take(has_limits) > 0
    rows = nodes.rows
    for at in np.flatnonzero(touched).tolist():
        world = _World(snapshot, int(rows[at]), nodes.added[at], nodes.removed[at])
        problem = world.problem()
        if problem is not None:
            table.append(NodeError(problem))
            codes[at] = len(table)
        else:
            codes[at] = _EXCEEDED if world.exceeds(volumes) else 0


def _touched(pods: PodsPerNode, use: VolumeUse) -> Bools:
    """In which worlds one of these pods says anything of limits."""
    if isinstance(pods, RemovedPods):
        return pods.sums_of_column(use.counting(), "counted volumes") > 0
    found = [any(use.of_pod(pod).concerns_limits for pod in of_world) for of_world in pods]
    return np.array(found, dtype=np.bool_)


class _World:
    """One node with some pods more or fewer."""

    def __init__(
        self,
        snapshot: Snapshot,
        row: int,
        added: tuple[PodInfo, ...],
        removed: tuple[PodInfo, ...],
    ) -> None:
        self._snapshot = snapshot
        self._storage: Storage = snapshot.storage
        self._row = row
        self._name = snapshot.nodes.names[row]
        self._added = added
        self._gone = {pod.uid for pod in removed}
        self._change: dict[str, int] = {}
        self._driver_of: dict[str, str] = {}
        for sign, pods in ((1, added), (-1, removed)):
            for pod in pods:
                for volume, driver in self._storage.use.of_pod(pod).volumes.items():
                    self._change[volume] = self._change.get(volume, 0) + sign
                    self._driver_of[volume] = driver

    def problem(self) -> str | None:
        """Why the volumes of a pod here cannot be counted."""
        use = self._storage.use
        known = use.problems.get(self._name, {})
        for placed in self._snapshot.pods.on_row(self._row):
            uid = placed.info.uid
            if uid in known and uid not in self._gone:
                return known[uid]
        for pod in self._added:
            found = use.of_pod(pod).problem
            if found is not None:
                return found.text
        return None

    def exceeds(self, volumes: dict[str, str]) -> bool:
        """Returns whether these volumes are too many for one of their drivers."""
        new: dict[str, int] = {}
        for volume, driver in volumes.items():
            if not self._is_used(volume):
                new[driver] = new.get(driver, 0) + 1
        for driver, count in new.items():
            limit = self._storage.csi_nodes.limit(driver, self._name)
            if limit != NO_LIMIT and self._held(driver) + count > limit:
                return True
        return False

    def _is_used(self, volume: str) -> bool:
        """Returns whether pods of this world use the volume."""
        pods = self._storage.use.attached_volumes.pods_on(volume, self._name)
        return pods + self._change.get(volume, 0) > 0

    def _held(self, driver: str) -> int:
        """How many volumes of the driver are here."""
        attached_volumes = self._storage.use.attached_volumes
        count = attached_volumes.count(driver, self._name)
        for volume in self._change:
            if self._driver_of[volume] != driver or attached_volumes.is_attached(
                volume, self._name
            ):
                continue
            was_used = attached_volumes.pods_on(volume, self._name) > 0
            count += int(self._is_used(volume)) - int(was_used)
        return count
