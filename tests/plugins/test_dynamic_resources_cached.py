"""Decisions with cached results are those without, whatever changes of claims, slices and pods."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import SystemClock, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceSlice
from mooring.simulation.driver import Driver
from mooring.state import audit
from mooring.testing import make_node
from tests.helpers.devices import DRIVER, all_of, exactly, first_of, make_claim, make_class
from tests.helpers.devices import make_slice as slice_of

NODES = [f"n{number}" for number in range(9)]

#: Requests of the templates; pods of one template have equal claims.
TEMPLATES: tuple[tuple[Any, ...], ...] = (
    (exactly(),),
    (exactly(count=2),),
    (exactly("r", device_class="a"), exactly("s", device_class="b")),
    (first_of("r", "b", "a"),),
    (all_of(device_class="b"),),
)
SAME_RACK = [{"requests": ["r"], "matchAttribute": f"{DRIVER}/rack"}]
OTHER_RACKS = [{"requests": ["r"], "distinctAttribute": f"{DRIVER}/rack"}]
#: Of the claims of a pod.
CONSTRAINTS: tuple[list[Any], ...] = (SAME_RACK, OTHER_RACKS, [], [], [], [], [])


class Twins:
    """One cluster twice: with cached results, and without."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_tainted: dict[str, bool] = {}
        by_model = [
            make_class(model, f'device.attributes["{DRIVER}"].model == "{model}"')
            for model in ("a", "b")
        ]
        objects = [make_class("gpu"), *by_model, *map(make_node, NODES), *self.slices()]
        self.drivers = [
            Driver(objects, rng=seeded_random(0), clock=SystemClock(), cache_results=is_cached)
            for is_cached in (True, False)
        ]
        self.placed: list[str] = []
        self.reused_count = 0

    def slices(self) -> list[ResourceSlice]:
        return [self.new_slice(name) for name in NODES[:-1]]

    def new_slice(self, node: str) -> ResourceSlice:
        devices = []
        for number in range(self.random.choice((1, 2, 3))):
            device: dict[str, Any] = {"name": f"d{number}"}
            device["attributes"] = {
                "model": {"string": self.random.choice("ab")},
                "rack": {"int": number // 2},
            }
            if self.random.random() < 0.1:
                device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
            if self.random.random() < 0.1:
                device |= {
                    "allowMultipleAllocations": True,
                    "capacity": {"memory": {"value": "4Gi"}},
                }
            devices.append(device)
        return slice_of(f"s-{node}", devices, node=node)

    def pod(self, number: int) -> Pod:
        """Adds claims for a pod to both clusters, and returns it."""
        random = self.random
        names = [f"c{number}-{index}" for index in range(random.choice((1, 1, 1, 2)))]
        for name in names:
            constraints = random.choice(CONSTRAINTS)
            template = TEMPLATES[min(random.randrange(5), random.randrange(5))]
            for driver in self.drivers:
                claim = make_claim(name, *template, constraints=constraints)
                driver.cache.put_object("ResourceClaim", claim)
        container = {"name": "app", "resources": {"requests": {"cpu": random.choice("1113")}}}
        entries = [{"name": name, "resourceClaimName": name} for name in names]
        pod: Pod = convert(
            {
                "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"u{number}"},
                "spec": {"containers": [container], "resourceClaims": entries},
            },
            "Pod",
        )
        return pod

    def change(self) -> None:
        """Changes a slice, a node, a class, or removes a pod, in both clusters."""
        node = self.random.choice(NODES)
        kind = self.random.choice(("slice", "no slice", "taint", "remove", "remove", "class"))
        new_slice, index = self.new_slice(node), self.random.randrange(1 << 30)
        self.is_tainted[node] = kind == "taint" and not self.is_tainted.get(node)
        is_open = self.random.random() < 0.8
        for driver in self.drivers:
            if kind == "slice":
                driver.cache.put_object("ResourceSlice", new_slice)
            elif kind == "no slice":
                driver.cache.remove_object("ResourceSlice", f"s-{node}")
            elif kind == "taint":
                taints = ["full=yes:NoSchedule"] * self.is_tainted[node]
                driver.cache.put_node(make_node(node, taints=taints))
            elif kind == "remove" and self.placed:
                driver.remove("Pod", "default", self.placed[index % len(self.placed)])
            elif kind == "class" and index % 5 == 0:
                text = "true" if is_open else "device.allowMultipleAllocations"
                driver.cache.put_object("DeviceClass", make_class("gpu", text))
        if kind == "remove" and self.placed:
            del self.placed[index % len(self.placed)]

    def attempt(self, pod: Pod) -> None:
        """Schedules a pod in both, and compares all of both decisions."""
        outcomes = [driver.attempt(pod, explain=True) for driver in self.drivers]
        cached, computed = (replace(each.decision(), durations_s={}) for each in outcomes)
        assert cached == computed
        for driver, outcome in zip(self.drivers, outcomes, strict=True):
            driver.apply(outcome)
        if cached.node is not None:
            self.placed.append(pod.metadata.name)
        claims = [
            [
                tuple(
                    (result.request, result.pool, result.device)
                    for result in claim.status.allocation.devices.results
                )
                for claim in driver.cache.devices.claims.all()
                if claim.status.allocation is not None
            ]
            for driver in self.drivers
        ]
        assert claims[0] == claims[1]


@pytest.mark.parametrize("seed", range(12))
def test_cached_results_never_change_a_decision(seed: int) -> None:
    twins = Twins(Random(seed))
    for number in range(60):
        twins.attempt(twins.pod(number))
        if twins.random.random() < 0.2:
            twins.change()
    assert [audit(driver.cache) for driver in twins.drivers] == [[], []]
