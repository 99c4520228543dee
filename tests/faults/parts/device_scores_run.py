"""Scores of a resource that stands for a class of devices, while slices, nodes and classes change.

A node that has the resource by a device plugin is scored by that. The devices of another node are
those of all slices that name it, its labels, or all nodes: complete or not, of any generation. The
class of the resource changes, and so do its selectors.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
(calculateDRAResourceTotals), least_allocated.go, most_allocated.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.config.types import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from mooring.framework import Attempt, Placement
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.testing import Harness, make_pod
from tests.faults.parts.node_devices_claims import allocation_of, claim_of, special_of
from tests.faults.parts.node_devices_cluster import (
    CLASSES,
    NODES,
    RESOURCE,
    DeviceCluster,
    device_class,
)
from tests.faults.parts.node_devices_model import ModelDevice, Taken, devices_of, reaches

STEPS: Final = 40
CONDITIONS: Final[tuple[dict[str, str], ...]] = ({}, {"model": "x"}, {"model": "y"}, {"bus": "1"})


class DeviceScoresRun(DeviceCluster):
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.problems: list[str] = []
        self.paths = dict.fromkeys(("compared", "by devices", "in use"), 0)
        self._is_least = self._rng.random() < 0.5
        strategy = ScoringStrategy(
            type="LeastAllocated" if self._is_least else "MostAllocated",
            resources=(ResourceSpec(name=RESOURCE, weight=1),),
        )
        handle = OfflineHandle(self._cache, VirtualClock(), seeded_random(seed + 1))
        args = NodeResourcesFitArgs(scoring_strategy=strategy)
        self._harness = Harness([], [NodeResourcesFit(args, handle)])
        self._harness.cache = self._cache
        #: The class of the resource; "" = none.
        self._class = "gpu" if self._has_resource else ""
        #: Name of a class -> the conditions of its devices.
        self._conditions: dict[str, dict[str, str]] = {
            name: dict(CLASSES[name]) for name in CLASSES
        }
        #: Claim -> the pool and the name of its device.
        self._in_use: dict[str, tuple[str, str]] = {}

    def run(self) -> None:
        """Makes all steps, until a score differs."""
        actions: tuple[Callable[[], None], ...] = (
            *(self._attempt,) * 5,
            self._change_node,
            self._republish,
            self._change_class,
            *(self._allocate,) * 2,
            self._free,
        )
        for _ in range(STEPS):
            self._rng.choice(actions)()
            if self.problems:
                return

    # -- the cluster ------------------------------------------------------------------------------

    def _change_class(self) -> None:
        """Gives the resource to another class or none, or changes the devices of its class."""
        rng = self._rng
        if self._class:
            self._put_class(self._class, "")
        self._class = rng.choice(("", self._class, *CLASSES))
        if self._class:
            if rng.random() < 0.5:
                self._conditions[self._class] = dict(rng.choice(CONDITIONS))
            self._put_class(self._class, RESOURCE)

    def _put_class(self, name: str, resource: str) -> None:
        self._put("DeviceClass", device_class(name, self._conditions[name], resource or None))

    def _allocate(self) -> None:
        """Allocates any free device to a new claim."""
        rng = self._rng
        free = [it for it in self._devices() if it.id not in self._in_use.values()]
        if not free:
            return
        device = rng.choice(free)
        self._count += 1
        name = f"claim-{self._count}"
        self._in_use[name] = device.id
        claim = claim_of(name, special_of(1))
        allocation = allocation_of([Taken(0, "container-0-request-0", "", device)], NODES[0])
        self._put("ResourceClaim", claim)
        status = replace(claim.status, allocation=allocation)
        self._put("ResourceClaim", replace(claim, status=status))

    def _free(self) -> None:
        if self._in_use:
            name = self._rng.choice(list(self._in_use))
            del self._in_use[name]
            self._cache.remove_object("ResourceClaim", f"default/{name}")

    def _devices(self) -> list[ModelDevice]:
        return [device for it in self._slices.values() for device in devices_of(it["spec"])]

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self) -> None:
        """Schedules a pod, which is not placed, and compares the scores of the nodes."""
        rng = self._rng
        self._count += 1
        amount = rng.choice((1, 1, 2))
        pod = PodInfo(make_pod(f"pod-{self._count}", requests={RESOURCE: str(amount)}))
        snapshot, framework = self._cache.snapshot(), self._harness.framework
        attempt = Attempt(snapshot)
        result = schedule_pod(framework, framework.new_cycle(pod, snapshot), attempt)
        expected = {name: self._score(name, amount) for name in NODES if self._fits(name, amount)}
        if not isinstance(result, Placement) or len(expected) < 2 or attempt.total is None:
            if isinstance(result, Placement) is not bool(expected):
                self.problems.append(f"{pod.key} gets {result}, not one of {list(expected)}")
            return
        rows = range(len(attempt.total)) if attempt.rows is None else attempt.rows.tolist()
        names = [snapshot.nodes.names[row] for row in rows]
        totals = dict(zip(names, attempt.total.tolist(), strict=True))
        self.paths["compared"] += 1
        if totals != expected:
            self.problems.append(f"{pod.key} has the totals {totals}, not {expected}")

    def _plugin_total(self, name: str) -> int:
        return int(self._nodes[name].status.allocatable.get(RESOURCE, "0"))

    def _fits(self, name: str, amount: int) -> bool:
        total = self._plugin_total(name)
        return total >= amount if total else bool(self._class)

    def _score(self, name: str, amount: int) -> int:
        total, used = self._plugin_total(name), 0
        if not total:
            self.paths["by devices"] += 1
            zone = self._nodes[name].metadata.labels["zone"]
            conditions = self._conditions[self._class].items()
            devices = [
                device
                for device in self._devices()
                if reaches(device.reach, name, zone)
                and all(device.attributes.get(key) == value for key, value in conditions)
            ]
            total = len(devices)
            used = sum(device.id in self._in_use.values() for device in devices)
            self.paths["in use"] += used
        requested = used + amount
        if not total:
            return 0
        if self._is_least:
            return (total - requested) * 100 // total if requested <= total else 0
        return min(requested, total) * 100 // total


def run_device_scores(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a score differs from the rules.
    """
    run = DeviceScoresRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
