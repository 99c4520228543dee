"""Results that pods with equal claims share are those of a plugin that shares nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mooring.framework.status import Status
from mooring.objects.pod import Pod
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import (
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
    selectors,
)

NODES = [f"n{number}" for number in range(8)]
TEMPLATES: list[Any] = [
    exactly(),
    exactly(count=2),
    first_of("r", "x", "gpu"),
    exactly(selectors=[{"cel": {"expression": "model=y"}}]),
]


class Twins:
    """A plugin that lives through all changes, and for each comparison a new one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shared = DynamicResources(selectors=selectors())
        self.cache = Cache()
        self.allocated: list[str] = []
        for name in NODES:
            self.cache.put_node(make_node(name))
        for device_class in (make_class("gpu"), make_class("x", "model=x")):
            self.cache.put_object("DeviceClass", device_class)

    def change(self) -> None:
        """Makes one random change of slices, claims or nodes."""
        kind = self.random.choice(["slice", "slice", "allocate", "free", "node", "gone", "network"])
        node = self.random.choice(NODES)
        if kind == "slice":
            self.cache.put_object(
                "ResourceSlice", make_slice(f"s-{node}", self.devices(), node=node)
            )
        elif kind == "network":
            network = make_slice("net", self.devices(), pool="net", allNodes=True)
            self.cache.put_object("ResourceSlice", network)
        elif kind == "gone":
            self.cache.remove_object("ResourceSlice", self.random.choice([f"s-{node}", "net"]))
        elif kind == "node":
            self.cache.remove_node(node)
            self.cache.put_node(make_node(node, labels={"seed": str(self.random.random())}))
        elif kind == "allocate":
            self.allocate(f"d{self.random.randrange(3)}", self.random.choice([node, "net"]))
        elif self.allocated:
            name = self.allocated.pop(self.random.randrange(len(self.allocated)))
            self.cache.remove_object("ResourceClaim", f"default/{name}")

    def allocate(self, device: str, pool: str) -> None:
        name = f"{device}-{pool}"
        if name not in self.allocated:
            claim = make_claim(name, allocated=[result_of(device, pool)])
            self.cache.put_object("ResourceClaim", claim)
            self.allocated.append(name)

    def devices(self) -> list[dict[str, Any]]:
        models = [self.random.choice("xy") for _ in range(self.random.randrange(4))]
        return [make_device(f"d{number}", model=model) for number, model in enumerate(models)]

    def answers(self, plugin: DynamicResources, pod: Pod) -> Any:
        """Returns statuses, scores and devices by node."""
        harness = Harness([], [plugin])
        harness.cache = self.cache
        cycle, view, refusal = harness.begin(pod)
        assert refusal is None
        statuses: list[Status | None] = plugin.filter(cycle, view).to_list()
        feasible = [name for name, status in zip(view.names, statuses, strict=True) if not status]
        attempt = cycle.state_of(plugin.name)
        devices = {}
        for name in feasible:
            allocation = attempt.allocation_on(name)
            assert allocation is not None
            devices[name] = allocation.solution.results(lambda: "share"), attempt.score(name)
        return dict(zip(view.names, statuses, strict=True)), devices


@pytest.mark.parametrize("seed", range(12))
def test_shared_results_are_those_of_a_plugin_without_a_past(seed: int) -> None:
    twins = Twins(seed)
    feasible = 0
    for step in range(60):
        twins.change()
        template = twins.random.choice(TEMPLATES)
        name = f"mine-{step}"
        twins.cache.put_object("ResourceClaim", make_claim(name, template))
        pod = make_pod("new", spec={"resourceClaims": [{"name": "c", "resourceClaimName": name}]})

        shared = twins.answers(twins.shared, pod)
        assert shared == twins.answers(DynamicResources(selectors=selectors()), pod)
        feasible += len(shared[1])
    assert feasible > 50
    assert audit(twins.cache) == []
