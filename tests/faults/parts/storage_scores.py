"""VolumeBinding with StorageCapacityScoring, node by node over all objects.

Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,scorer}.go (Score,
buildScorerFunction); pkg/scheduler/framework/plugins/helper/shape_score.go. *Differs:* of several
capacities that are large enough the first one by name counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mooring.clock import Rng
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView
from mooring.framework.status import Skip
from mooring.objects.meta import LabelSelector, key
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from mooring.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.state.tables.nodes import NodeTable
from tests.faults.parts.spoiled_objects import SpoiledBindingTwin, reason_against
from tests.plugins.spread_twin import conditions_of
from tests.plugins.volume_binding_twin import has_room
from tests.plugins.volume_clusters import DISK, NET, VOLUMES, made
from tests.plugins.volume_twins import Facts, claim_of, class_of, is_bound

SHAPES: Final = (
    ((0, 0), (100, 10)),
    ((0, 10), (100, 0)),
    ((20, 3), (60, 10), (90, 1)),
    ((50, 7),),
    ((0, 1), (3, 9), (50, 4), (100, 10)),
)
CLASS: Final = "volume.beta.kubernetes.io/storage-class"
SELECTED: Final = "volume.kubernetes.io/selected-node"


class StorageScores(SpoiledBindingTwin):
    """The scalar plugin with scores.

    Args:
        facts: All objects.
        shape: Points of utilization and score; none = nothing is scored.
    """

    def __init__(self, facts: Facts, shape: Sequence[tuple[int, int]]) -> None:
        super().__init__(facts)
        self._shape = shape

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Skips a pod without claims that are bound with it."""
        del nodes
        return None if self._shape and cycle[self][1] else SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        """Returns the scores of nodes that fit."""
        return np.array([self._score(cycle[self][1], node) for node in nodes], dtype=np.int64)

    def _score(self, claims: Sequence[Any], node: NodeInfo) -> int:
        by_class: dict[str, list[int]] = {}
        bindings, provisions = self._plan(claims, node)
        for claim, volume in bindings:
            of_class = by_class.setdefault(volume.spec.storage_class_name, [0, 0])
            of_class[0] += _bytes(claim.spec.resources.requests)
            of_class[1] += _bytes(volume.spec.capacity)
        for claim in () if bindings else provisions:
            capacity = self._capacity(claim, node)
            if capacity is not None:
                of_class = by_class.setdefault(class_of(claim), [0, 0])
                of_class[0] += _bytes(claim.spec.resources.requests)
                of_class[1] = capacity
        scores = [
            self._at(100 if not size or requested > size else requested * 100 // size)
            for requested, size in by_class.values()
        ]
        return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0

    def assumed(self, pod: Pod, nodes: NodeTable, node_name: str) -> tuple[list[str], list[str]]:
        """Returns the volumes and claims that Reserve assumes on a node."""
        node: Any = SimpleNamespace(labels=nodes.node(nodes.row(node_name)).metadata.labels)
        bindings, provisions = self._plan(self._unbound(pod), node)
        volumes = [
            volume.metadata.name
            for claim, volume in bindings
            if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid
        ]
        return sorted(set(volumes)), sorted({key(claim) for claim in provisions})

    def binds(self, pod: Pod) -> bool:
        """Returns whether PreBind has claims to bind."""
        return bool(self._unbound(pod))

    def _unbound(self, pod: Pod) -> list[Any]:
        names = [claim_of(pod, volume) for volume in pod.spec.volumes]
        claims = [
            self.facts.get("PersistentVolumeClaim", f"{pod.metadata.namespace}/{name}")
            for name in names
            if name is not None
        ]
        return [claim for claim in claims if not is_bound(claim)]

    def _plan(self, claims: Sequence[Any], node: NodeInfo) -> tuple[list[Any], list[Any]]:
        """Returns the pairs of claim and volume, and the claims whose volumes are provisioned."""
        bindings: list[Any] = []
        provisions = [it for it in claims if SELECTED in it.metadata.annotations]
        others = [it for it in claims if SELECTED not in it.metadata.annotations]
        for claim in sorted(others, key=lambda it: _nanos(it.spec.resources.requests)):
            taken = {volume.metadata.name for _, volume in bindings}
            volume = self.smallest(claim, node, taken)
            if volume is None:
                provisions.append(claim)
            else:
                bindings.append((claim, volume))
        return bindings, provisions

    def _capacity(self, claim: Any, node: NodeInfo) -> int | None:
        """Returns the capacity that is enough for a claim; None = its driver reports none."""
        storage_class = self.facts.get("StorageClass", class_of(claim))
        driver = self.facts.get("CSIDriver", storage_class.provisioner) if storage_class else None
        if driver is None or not driver.spec.storage_capacity:
            return None
        if "storage" not in claim.spec.resources.requests:
            return None
        size = _bytes(claim.spec.resources.requests)
        for capacity in sorted(self.facts.all("CSIStorageCapacity"), key=key):
            if capacity.storage_class_name != class_of(claim):
                continue
            conditions = conditions_of(capacity.node_topology)
            if not reason_against(conditions) and has_room(capacity, size, node):
                return _bytes({"storage": capacity.capacity or "0"})
        return None

    def _at(self, percent: int) -> int:
        for number, (at, tenths) in enumerate(self._shape):
            if percent > at:
                continue
            if number == 0:
                return 10 * tenths
            before, last = self._shape[number - 1]
            rise = 10 * (tenths - last) * (percent - before)
            return 10 * last + int(math.copysign(abs(rise) // (at - before), rise))
        return 10 * self._shape[-1][1]


def favored_object(rng: Rng, obj: Any) -> Any:
    """Returns an object about volumes so that most claims are bound with their pod, and fit."""
    if rng.random() < 0.15:
        return obj
    if isinstance(obj, CSIDriver):
        return replace(obj, spec=replace(obj.spec, storage_capacity=True))
    if isinstance(obj, CSIStorageCapacity):
        size = rng.choice(("3Gi", "5Gi", "7Gi", "20Gi"))
        topology = rng.choice((obj.node_topology, LabelSelector()))
        return replace(obj, capacity=size, node_topology=topology)
    if isinstance(obj, StorageClass):
        return replace(obj, allowed_topologies=())
    if not isinstance(obj, PersistentVolumeClaim):
        return obj
    annotations = {
        key: value for key, value in obj.metadata.annotations.items() if key in (SELECTED, CLASS)
    }
    metadata = replace(obj.metadata, annotations=annotations, deletion_timestamp=None)
    name = rng.choice(("net", "net", "disk", "ebs", "local"))
    spec = replace(obj.spec, volume_name="", storage_class_name=name)
    return replace(obj, metadata=metadata, spec=spec, status=replace(obj.status, phase="Pending"))


def attachable_object(rng: Rng, obj: Any) -> Any:
    """Returns an object about volumes so that most volumes count, and nodes attach few of them."""
    name = obj.metadata.name
    if rng.random() < 0.15:
        return obj
    if isinstance(obj, PersistentVolume):
        source = {"driver": rng.choice((NET, DISK)), "volumeHandle": name}
        return made("PersistentVolume", name, spec={"csi": source})
    if isinstance(obj, PersistentVolumeClaim):
        return replace(obj, spec=replace(obj.spec, volume_name=rng.choice(VOLUMES)))
    if isinstance(obj, CSINode):
        drivers = [
            {"name": driver, "nodeID": name, "allocatable": {"count": rng.choice((1, 2, 3))}}
            for driver in (NET, DISK)
        ]
        return made("CSINode", name, spec={"drivers": drivers})
    return obj


def _bytes(amounts: Any) -> int:
    return Quantity.from_wire(amounts.get("storage", "0")).value()


def _nanos(amounts: Any) -> int:
    return Quantity.from_wire(amounts.get("storage", "0")).nanos
