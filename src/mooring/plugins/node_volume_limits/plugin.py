"""NodeVolumeLimits: limits the number of volumes of each CSI driver per node."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.pod_deltas import PodsPerNode, RemovedPods
from mooring.framework.status import NodeError, Skip
from mooring.objects.volume_claims import volume_sources
from mooring.plugins.node_volume_limits.hints import events, fragment
from mooring.state import PodInfo, Snapshot
from mooring.state.types import Bools, Ints
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.state.volumes.limits import (
    NOTHING_COUNTED,
    Counted,
    Problem,
    attach_limit_volumes,
    counts,
)
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.usage import VolumeUse

REASON = "node(s) exceed max volume count"

Codes = npt.NDArray[np.uint16]

_OVER = Reject(REASON)

#: The code of _OVER; problems of single nodes come after it.
_EXCEEDED = 1


@dataclass(frozen=True, slots=True)
class LimitsState:
    """The pod's volumes that count on nodes with a CSINode, and those on nodes without one.

    Without a CSINode nothing is limited, and disks of migrated in-tree plugins do not count. So the
    latter are computed only if there is a problem, or if drivers have to be installed.
    """

    counted: Counted
    without: Counted


class NodeVolumeLimits:
    """Rejects nodes that would exceed the limit of a driver.

    A volume that pods of the node use already is counted once; attached volumes count even if no
    pod of the node uses them.

    Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go. *Differs:* when the volumes of
    several pods of a node cannot be counted, the reported one may differ.
    """

    name = "NodeVolumeLimits"
    needs: tuple[str, ...] = (
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass",
        "CSINode",
        "VolumeAttachment",
    )

    def __init__(self, gates: Mapping[str, bool] = MappingProxyType({})) -> None:
        """Reads from ``gates`` whether a node needs the drivers that CSIDrivers demand."""
        self._requires_drivers = gates.get("VolumeLimitScaling", False)
        if self._requires_drivers:
            self.needs = (*self.needs, "CSIDriver")

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns what the hints read: the pod's namespace, its claims, and its disks' drivers."""
        return fragment(pod)

    def batch_signature(self, pod: PodInfo) -> Hashable:
        """Returns the sources of the pod's volumes."""
        return volume_sources(pod.pod)

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns whether the pod has volumes that count against a limit."""
        return any(map(counts, pod.spec.volumes))

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Counts the pod's volumes; skips a pod without volumes that count."""
        pod, volumes = cycle.pod.pod, cycle.pod.spec.volumes
        if not any(map(counts, volumes)):
            return SKIP
        storage, without = cycle.snapshot.storage, NOTHING_COUNTED
        counted = storage.use.usage_if_scheduled(pod)
        if counted.problem is not None or self._requires_drivers:
            without = attach_limit_volumes(pod, storage.objects, has_csi_node=False)
        cycle[self] = LimitsState(counted, without)
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects by problems of the pod's claims first, then by the limits."""
        state: LimitsState = cycle[self]
        counted, snapshot = state.counted, nodes.snapshot
        missing = _missing_drivers(state, nodes) if self._requires_drivers else []
        if counted.problem is not None:
            return _claim_problems(state, nodes, missing)
        if not counted.volumes:
            return FilterStatuses.feasible(len(nodes))
        is_over = _exceeds(counted.volumes, nodes)
        if not missing and not snapshot.storage.use.problems and not nodes.has_deltas:
            # The usual case: no other reason is possible.
            feasible = FilterStatuses.feasible(len(nodes))
            return feasible if is_over is None else FilterStatuses.reject(is_over, _OVER)
        codes = np.zeros(len(nodes), dtype=np.uint16)
        table: list[Status] = [_OVER]
        if is_over is not None:
            codes[is_over] = _EXCEEDED
        _add_existing_problems(codes, table, snapshot, nodes)
        if nodes.has_deltas:
            _filter_hypothetical(codes, table, counted.volumes, nodes)
        _add_missing(missing, codes, table)
        return FilterStatuses(codes, table)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers CSINodes, deleted pods and attachments, and added claims."""
        return events()


def _claim_problems(
    state: LimitsState, nodes: NodeView, missing: Sequence[tuple[str, Bools]]
) -> FilterStatuses:
    """Returns the problems of the pod's claims, on nodes with a CSINode and on those without."""
    codes = np.zeros(len(nodes), dtype=np.uint16)
    table: list[Status] = []
    has_csi_node = _have_csi_node(nodes)
    _add_problem(state.without.problem, ~has_csi_node, codes, table)
    _add_problem(state.counted.problem, has_csi_node, codes, table)
    _add_missing(missing, codes, table)
    return FilterStatuses(codes, table)


def _have_csi_node(nodes: NodeView) -> Bools:
    """Returns the nodes with a CSINode."""
    return nodes.take(nodes.snapshot.storage.csi_nodes.has_csi_node_by_row()) > 0


def _add_problem(problem: Problem | None, mask: Bools, codes: Codes, table: list[Status]) -> None:
    """Sets the status of the nodes in ``mask`` to a problem of the pod's claims."""
    if problem is None:
        return
    text = problem.text
    table.append(Reject(text, resolvable=False) if problem.is_absence else NodeError(text))
    codes[mask] = len(table)


# ---------------------------------------------------------------- nodes without deltas


def _missing_drivers(state: LimitsState, nodes: NodeView) -> list[tuple[str, Bools]]:
    """Returns the drivers that have to be installed, and the nodes where they are not.

    Where the volumes cannot be counted, the problem is reported instead.
    """
    has_csi_node = _have_csi_node(nodes)
    missing = []
    for counted, is_there in ((state.counted, has_csi_node), (state.without, ~has_csi_node)):
        if counted.problem is None:
            drivers = _without_drivers(counted.volumes, nodes)
            missing += [(driver, mask & is_there) for driver, mask in drivers]
    return missing


def _add_missing(missing: Sequence[tuple[str, Bools]], codes: Codes, table: list[Status]) -> None:
    """Rejects the nodes without drivers; of several drivers the first one is reported."""
    for driver, mask in reversed(missing):
        table.append(Reject(f"{driver} CSI driver is not installed on the node"))
        codes[mask] = len(table)


def _without_drivers(volumes: dict[str, str], nodes: NodeView) -> list[tuple[str, Bools]]:
    """Returns the drivers whose CSIDriver demands that they are installed, and the nodes without.

    Source: csi.go (checkCSIDriverOnNode), behind the feature gate VolumeLimitScaling. *Differs:* of
    several drivers that a node lacks, the first is reported; upstream takes any.
    """
    storage = nodes.snapshot.storage
    missing = []
    for name in dict.fromkeys(volumes.values()):
        driver = storage.driver(name)
        if driver is None or not driver.spec.prevent_pod_scheduling_if_missing:
            continue
        mask = nodes.take(storage.csi_nodes.have_driver(name)) == 0
        if mask.any():
            missing.append((name, mask))
    return missing


def _exceeds(volumes: dict[str, str], nodes: NodeView) -> Bools | None:
    """Returns the nodes where the pod's volumes exceed the limit of a driver; None = nowhere."""
    storage = nodes.snapshot.storage
    is_over: Bools | None = None
    for driver in dict.fromkeys(volumes.values()):
        of_driver = [volume for volume, name in volumes.items() if name == driver]
        remaining = storage.use.attached_volumes.remaining_by_row(driver)
        if int(remaining.min()) >= len(of_driver):
            continue
        added = len(of_driver) - _used_by_pods(of_driver, nodes.snapshot)
        is_over_driver = (added > 0) & (added > remaining)
        is_over = is_over_driver if is_over is None else is_over | is_over_driver
    return None if is_over is None else nodes.take(is_over)


def _used_by_pods(volumes: Sequence[str], snapshot: Snapshot) -> Ints:
    """Returns how many of the volumes the pods of each row use, int64 shape (capacity,)."""
    counts = np.zeros(snapshot.nodes.capacity, dtype=np.int64)
    for volume in volumes:
        names = snapshot.storage.use.attached_volumes.nodes_of(volume)
        if names:  # usually empty, and a pod may have a thousand volumes
            rows = map(snapshot.nodes.row, names)
            counts[[row for row in rows if row >= 0]] += 1
    return counts


def _add_existing_problems(
    codes: Codes, table: list[Status], snapshot: Snapshot, nodes: NodeView
) -> None:
    """Sets an Error on nodes with limits where the volumes of an existing pod cannot be counted."""
    problems = snapshot.storage.use.problems
    errors = np.zeros(snapshot.nodes.capacity, dtype=np.uint16)
    for name, of_node in problems.items():
        row = snapshot.nodes.row(name)
        first = (pod.info.uid for pod in snapshot.pods.on_row(row) if pod.info.uid in of_node)
        table.append(NodeError(of_node[next(first)]))
        errors[row] = len(table)
    new_codes = nodes.take(errors)
    new_codes = np.where(nodes.take(snapshot.storage.csi_nodes.has_limits()) > 0, new_codes, 0)
    codes[new_codes > 0] = new_codes[new_codes > 0]


# ---------------------------------------------------------------- hypothetical nodes


def _filter_hypothetical(
    codes: Codes, table: list[Status], volumes: dict[str, str], nodes: NodeView
) -> None:
    """Filters again, one by one, the nodes where pods with volumes are added or removed."""
    snapshot = nodes.snapshot
    use, has_limits = snapshot.storage.use, snapshot.storage.csi_nodes.has_limits()
    is_affected = _concern_limits(nodes.added, use) | _concern_limits(nodes.removed, use)
    is_affected &= nodes.take(has_limits) > 0
    rows = nodes.rows
    for i in np.flatnonzero(is_affected).tolist():
        node = _HypotheticalNode(snapshot, int(rows[i]), nodes.added[i], nodes.removed[i])
        problem = node.problem()
        if problem is not None:
            table.append(NodeError(problem))
            codes[i] = len(table)
        else:
            codes[i] = _EXCEEDED if node.exceeds(volumes) else 0


def _concern_limits(pods: PodsPerNode, use: VolumeUse) -> Bools:
    """Returns the nodes where one of these pods matters for limits."""
    if isinstance(pods, RemovedPods):
        return pods.sums_of_column(use.counting(), "counted volumes") > 0
    concern = [any(use.of_pod(pod).concerns_limits for pod in of_node) for of_node in pods]
    return np.array(concern, dtype=np.bool_)


class _HypotheticalNode:
    """One node with some pods added or removed."""

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
        self._removed = {pod.uid for pod in removed}
        self._change: dict[str, int] = {}
        self._driver_of: dict[str, str] = {}
        for sign, pods in ((1, added), (-1, removed)):
            for pod in pods:
                for volume, driver in self._storage.use.of_pod(pod).volumes.items():
                    self._change[volume] = self._change.get(volume, 0) + sign
                    self._driver_of[volume] = driver

    def problem(self) -> str | None:
        """Returns why the volumes of a pod of the node cannot be counted; None = they can."""
        use = self._storage.use
        problems = use.problems.get(self._name, {})
        for placed in self._snapshot.pods.on_row(self._row):
            uid = placed.info.uid
            if uid in problems and uid not in self._removed:
                return problems[uid]
        for pod in self._added:
            problem = use.of_pod(pod).problem
            if problem is not None:
                return problem.text
        return None

    def exceeds(self, volumes: dict[str, str]) -> bool:
        """Returns True if these volumes exceed the limit of a driver."""
        new: dict[str, int] = {}
        for volume, driver in volumes.items():
            if not self._is_used(volume):
                new[driver] = new.get(driver, 0) + 1
        for driver, count in new.items():
            limit = self._storage.csi_nodes.limit(driver, self._name)
            if limit != NO_LIMIT and self._attached_count(driver) + count > limit:
                return True
        return False

    def _is_used(self, volume: str) -> bool:
        """Returns True if pods of the node use the volume."""
        pods = self._storage.use.attached_volumes.pods_on(volume, self._name)
        return pods + self._change.get(volume, 0) > 0

    def _attached_count(self, driver: str) -> int:
        """Returns the number of volumes of the driver on the node."""
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
