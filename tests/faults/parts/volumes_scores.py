"""The score of VolumeBinding with StorageCapacityScoring, for each node by itself.

Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,scorer}.go (Score,
buildScorerFunction); pkg/scheduler/framework/plugins/helper/shape_score.go. *Differs:* of several
capacities that are large enough the first one by name counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.clock import Rng
from mooring.config.types import UtilizationShapePoint
from mooring.framework.node_view import NodeView
from mooring.framework.status import SKIP
from mooring.objects.quantity import Quantity
from tests.faults.parts.volumes_model import Plan, View

SHAPES: Final = (
    ((0, 0), (100, 10)),
    ((0, 10), (100, 0)),
    ((20, 3), (60, 10), (90, 1)),
    ((50, 7),),
)


class VolumeScores:
    """The model of the scores.

    Args:
        rng: Draws the shape; None = the gate is off, and nothing is scored.
    """

    def __init__(self, rng: Rng | None) -> None:
        self._shape = rng.choice(SHAPES) if rng is not None else ()
        self.gates = {"StorageCapacityScoring": bool(self._shape)}

    def points(self) -> tuple[UtilizationShapePoint, ...]:
        """Returns the shape, as it is configured."""
        return tuple(UtilizationShapePoint(utilization=at, score=it) for at, it in self._shape)

    def compare(
        self, plugin: Any, cycle: Any, nodes: NodeView, plans: Mapping[str, Plan], view: View
    ) -> Iterator[str]:
        """Yields the differences of the scores of feasible nodes."""
        if not self._shape or not len(nodes) or plugin.pre_score(cycle, nodes) is SKIP:
            return
        scores = dict(zip(nodes.names, plugin.score(cycle, nodes).tolist(), strict=True))
        expected = {name: self._score(plans[name], name, view) for name in nodes.names}
        if scores != expected:
            yield f"{cycle.pod.key} has the scores {scores}, not {expected}"

    def _score(self, plan: Plan, node: str, view: View) -> int:
        requested: dict[str, int] = {}
        capacities: dict[str, int] = {}
        for claim_name, volume_name in plan.bindings.items():
            volume = view.get("PersistentVolume", volume_name)
            name, size = volume.spec.storage_class_name, _bytes(volume.spec.capacity["storage"])
            requested[name] = requested.get(name, 0) + _requested(view, claim_name)
            capacities[name] = capacities.get(name, 0) + size
        for claim_name in () if plan.bindings else plan.provisions:
            claim = view.get("PersistentVolumeClaim", claim_name)
            name = claim.spec.storage_class_name
            capacity = _capacity(view, name, node, _requested(view, claim_name))
            if capacity is not None:
                requested[name] = requested.get(name, 0) + _requested(view, claim_name)
                capacities[name] = capacity
        scores = [
            self._at(100 if size == 0 or size < requested[name] else requested[name] * 100 // size)
            for name, size in capacities.items()
        ]
        return int(sum(scores) / len(scores) + 0.5) if scores else 0

    def _at(self, percent: int) -> int:
        before: tuple[int, int] | None = None
        for at, tenths in self._shape:
            score = 10 * tenths
            if percent <= at:
                if before is None:
                    return score
                return before[1] + int(
                    (score - before[1]) * (percent - before[0]) / (at - before[0])
                )
            before = at, score
        assert before is not None
        return before[1]


def _capacity(view: View, class_name: str, node: str, size: int) -> int | None:
    """Returns the capacity that is enough for a claim; None = its driver has none."""
    storage_class = view.get("StorageClass", class_name)
    driver = view.get("CSIDriver", storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    labels = view.get("Node", node).metadata.labels
    for capacity in view.all("CSIStorageCapacity"):
        limit, topology = capacity.maximum_volume_size or capacity.capacity, capacity.node_topology
        if capacity.storage_class_name != class_name or limit is None or topology is None:
            continue
        if topology.match_labels.items() <= labels.items() and _bytes(limit) >= size:
            return _bytes(capacity.capacity) if capacity.capacity is not None else 0
    return None


def _requested(view: View, claim_name: str) -> int:
    claim = view.get("PersistentVolumeClaim", claim_name)
    return _bytes(claim.spec.resources.requests["storage"])


def _bytes(raw: Any) -> int:
    return Quantity.from_wire(raw).value()
