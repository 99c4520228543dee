"""The storage capacities of two classes, beside plain loops over them: for ``volume_tables``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mooring.clock import Rng
from mooring.objects.codec.decode import convert
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.capacity import CapacitiesByClass
from mooring.state.volumes.topology import TopologyMasks
from mooring.testing import make_node
from tests.faults.twins.leftovers import leftovers, sizes_of

CALLS: Final = 40
GI: Final = 1 << 30
NODES: Final = ("n0", "n1", "n2", "n3")
#: So many capacities do not say how much is left; then the largest volume alone counts.
WITHOUT_SIZE_SHARE: Final = 0.2
#: So many capacities are for two values of a label.
SEVERAL_SHARE: Final = 0.3
#: Of the nodes and their topology, which all capacities read.
READ_CAPACITIES: Final = ("._nodes", "._reaches", "._column")


class CapacitiesRun:
    """The storage capacities of two classes, and the nodes that they are for."""

    def __init__(self, rng: Rng, more: Rng) -> None:
        """Creates nodes; ``more`` draws the capacities that do not say how much is left."""
        self._rng, self._more = rng, more
        self._nodes = NodeTable()
        self._labels: dict[str, dict[str, str]] = {}
        self._reaches = TopologyMasks(self._nodes)
        self._capacities = CapacitiesByClass(self._nodes, self._reaches)
        #: Name -> class, labels (of one value or two; None = no node), capacity, largest volume.
        self._stored: dict[str, tuple[str, Any, int | None, int | None]] = {}
        for name in NODES:
            self._put_node(name)

    def run(self) -> None:
        """Changes capacities and nodes, and compares where volumes can be provisioned."""
        for _ in range(CALLS):
            name = f"c{self._rng.randrange(6)}"
            if self._rng.random() < 0.2:
                self._put_node(self._rng.choice(NODES))
            elif self._rng.random() < 0.25:
                self._stored.pop(name, None)
                self._capacities.remove(f"default/{name}")
            else:
                self._put(name)
            for class_name in ("k0", "k1"):
                self._compare(class_name)
        before = sizes_of(self._new(), READ_CAPACITIES)
        surplus = leftovers(self._capacities, before, READ_CAPACITIES)
        assert not surplus, f"the capacities have more elements than new ones in {surplus}"

    def _new(self) -> CapacitiesByClass:
        """Returns new tables of the same capacities."""
        capacities = CapacitiesByClass(self._nodes, self._reaches)
        for name, parts in self._stored.items():
            capacities.put(_capacity(name, *parts))
        return capacities

    def _put_node(self, name: str) -> None:
        zones = {"zone": self._rng.choice("ab")} if self._rng.random() < 0.85 else {}
        self._labels[name] = {"host": name, "disk": self._rng.choice("xy"), **zones}
        self._nodes.put(make_node(name, labels=self._labels[name]))

    def _put(self, name: str) -> None:
        rng = self._rng
        labels: Any = rng.choice(
            (
                {"zone": rng.choice("ab")},
                {"zone": rng.choice("abc")},
                {"host": rng.choice(NODES)},
                {"zone": rng.choice("ab"), "disk": rng.choice("xy")},
                {},
                None,
            )
        )
        if labels and self._more.random() < SEVERAL_SHARE:
            key = self._more.choice(sorted(labels))
            values = {"zone": "abc", "host": NODES, "disk": "xy"}[key]
            labels = {**labels, key: tuple(self._more.sample(values, 2))}
        class_name = rng.choice(("k0", "k0", "k1"))
        size: int | None = rng.randrange(4)
        most = rng.choice((None, None, rng.randrange(4)))
        if self._more.random() < WITHOUT_SIZE_SHARE:
            size = None
        self._stored[name] = class_name, labels, size, most
        self._capacities.put(_capacity(name, class_name, labels, size, most))

    def _compare(self, class_name: str) -> None:
        """Compares which nodes can have a new volume, and by which capacity."""
        size = self._rng.randrange(1, 4)
        rows = np.array([self._nodes.row(name) for name in NODES], dtype=np.intp)
        expected = []
        for node in NODES:
            sizes = [
                (name, (capacity or 0) * GI)
                for name, (of_class, labels, capacity, most) in self._stored.items()
                if of_class == class_name
                and labels is not None
                and all(self._labels[node].get(key) in _values(it) for key, it in labels.items())
                and ((capacity or 0) if most is None else most) >= size
            ]
            expected.append(min(sizes)[1] if sizes else -1)
        of_class = self._capacities.get(class_name)
        if of_class is None:
            assert expected == [-1] * len(NODES), f"{class_name} has no capacities"
            return
        can_hold = of_class.can_hold(size * GI, rows).tolist()
        assert can_hold == [it >= 0 for it in expected], f"{size}: {can_hold}, not {expected}"
        actual = of_class.sizes(size * GI, rows).tolist()
        assert actual == expected, f"{size} of {class_name}: {actual}, not {expected}"


def _values(labels: str | tuple[str, ...]) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels


def _capacity(name: str, class_name: str, labels: Any, size: int | None, most: int | None) -> Any:
    """Returns a CSIStorageCapacity."""
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class_name,
    }
    if size is not None:
        body["capacity"] = f"{size}Gi"
    if labels is not None:
        rules = [
            {"key": key, "operator": "In", "values": list(_values(it))}
            for key, it in labels.items()
            if not isinstance(it, str)
        ]
        plain = {key: it for key, it in labels.items() if isinstance(it, str)}
        body["nodeTopology"] = {"matchLabels": plain, "matchExpressions": rules}
    if most is not None:
        body["maximumVolumeSize"] = f"{most}Gi"
    return convert(body, "CSIStorageCapacity")
