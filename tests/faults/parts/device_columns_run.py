"""The run ``node_devices`` between two filters whose results are cached: who rejects each node.

Nodes are cordoned and tainted, one at a time or all at once, and removed and added, while pools
change. A cordoned node is rejected before its devices are tried, and a tainted one after that: the
filter that rejects is the first one by the rules, whatever has changed since the last pod of that
kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mooring.framework import NodeView
from mooring.framework.runtime.filter import run_filters
from mooring.objects.node import Node
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.taint_toleration import TaintToleration
from mooring.testing import Harness, make_node
from tests.faults.parts.node_devices_claims import ClaimSpecs
from tests.faults.parts.node_devices_cluster import NODES, RESOURCE, WITH_FORMS, ZONES
from tests.faults.parts.node_devices_run import NodeDevicesRun

ATTEMPTS: Final = 30
#: The filters, by number; 0 = none rejects.
ACCEPTED: Final = 0
CORDONED: Final = 1
BY_DEVICES: Final = 2
TAINTED: Final = 3


@dataclass
class Closed:
    """A node but for its devices."""

    zone: str
    amounts: dict[str, str | int]
    is_cordoned: bool = False
    is_tainted: bool = False


class DeviceColumnsRun(NodeDevicesRun):
    """One run."""

    def __init__(self, seed: int) -> None:
        #: Name -> what a node has.
        self._closed: dict[str, Closed] = {}
        self._removed: set[str] = set()
        super().__init__(seed)
        plugins = [NodeUnschedulable(), self._plugin, TaintToleration()]
        self._harness = Harness([], plugins)
        self._harness.cache = self._cache
        # Mostly claims of one kind, which share a column.
        self._specs = ClaimSpecs(
            self._rng,
            n_plain=self._rng.choice((0, 20, 60)),
            has_all=False,
            has_taints=False,
            has_forms=seed % 5 == WITH_FORMS,
        )
        self._closed_rate = self._rng.choice((0.1, 0.3, 0.6))
        self._zone_rate = self._rng.choice((0.0, 0.1))
        self._removal_rate = self._rng.choice((0.0, 0.1))
        self.paths |= dict.fromkeys(("cordoned", "tainted"), 0)

    def _put_node(self, name: str) -> None:
        """Adds a node, or moves it to another zone."""
        amounts: dict[str, str | int] = {"cpu": "8", "pods": "20"}
        if self._rng.random() < 0.3:
            amounts[RESOURCE] = self._rng.choice(("0", "4"))
        self._closed[name] = Closed(self._rng.choice(ZONES), amounts)
        self._store(name)

    def _store(self, name: str) -> None:
        closed = self._closed[name]
        node: Node = make_node(
            name,
            labels={"zone": closed.zone},
            allocatable=closed.amounts,
            unschedulable=closed.is_cordoned,
            taints=["away:NoSchedule"] if closed.is_tainted else [],
        )
        self._nodes[name] = node
        self._removed.discard(name)
        self._cache.put_node(node)

    def _change_node(self) -> None:
        """Closes or opens one node or all, or moves it to another zone."""
        rng = self._rng
        if rng.random() < self._zone_rate:
            super()._change_node()
            return
        if rng.random() < self._removal_rate:
            self._remove_node(rng.choice(NODES))
            return
        for name in rng.choice((NODES, (rng.choice(NODES),), (rng.choice(NODES),))):
            self._closed[name].is_cordoned = rng.random() < self._closed_rate
            self._closed[name].is_tainted = rng.random() < self._closed_rate
            self._store(name)

    def _make_steps(self) -> None:
        """Makes more attempts than the run without other filters, in which more else happens."""
        for _ in range(ATTEMPTS):
            if self.problems:
                return
            self._attempt()
            if self._rng.random() < 0.2:
                self._release()
        super()._make_steps()

    def _attempt(self) -> None:
        """Changes nodes in half of the attempts, and filters them for a pod."""
        if self._rng.random() < 0.5:
            self._change_node()
        super()._attempt()

    def _remove_node(self, name: str) -> None:
        """Removes a node, or adds it again."""
        if name in self._removed:
            self._store(name)
        elif len(self._removed) < len(NODES) - 1:
            self._removed.add(name)
            self._cache.remove_node(name)

    def _filter(self, cycle: Any, view: NodeView) -> tuple[list[str], list[str]]:
        """Filters all nodes; returns those that are not cordoned, and which of them have devices.

        A tainted node has devices if TaintToleration is the one that rejects it.
        """
        results = run_filters(self._harness.framework, cycle, None)
        numbers = dict(zip(view.names, results.refused_by[view.rows].tolist(), strict=True))
        for name, number in numbers.items():
            closed = self._closed[name]
            allowed = (TAINTED if closed.is_tainted else ACCEPTED, BY_DEVICES)
            if closed.is_cordoned:
                allowed = (CORDONED, CORDONED)
                self.paths["cordoned"] += 1
            self.paths["tainted"] += number == TAINTED
            if number not in allowed:
                pod = cycle.pod.metadata.name
                self.problems.append(f"{pod} is rejected on {name} by filter {number}: {closed}")
        accepted = sum(number == ACCEPTED for number in numbers.values())
        counts = results.count, results.refused_count()
        if counts != (accepted, len(numbers) - accepted):
            self.problems.append(f"{counts} nodes are accepted and rejected, of {numbers}")
        names = [name for name in numbers if not self._closed[name].is_cordoned]
        return names, [name for name in names if numbers[name] != BY_DEVICES]


def run_device_columns(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a node is rejected by another filter, or gets other devices, than by the
            rules.
    """
    run = DeviceColumnsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
