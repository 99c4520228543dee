"""Results that nodes and pods share are those of a search for each node."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.dra import (
    AllocationError,
    Allocator,
    CELCompiler,
    InvalidPools,
    Selectors,
    TargetNode,
    prepare_claim,
)
from mooring.framework import NodeError, Reject
from mooring.framework.status import Status
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.scoring import score_of
from mooring.simulation.driver import Driver
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import (
    all_of,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)

NODES = [f"n{number}" for number in range(40)]


def cel(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


def attribute(name: str) -> str:
    return f'device.attributes["gpu.test"].{name}'


SAME_NUMA = [{"matchAttribute": "gpu.test/numa"}]
#: Requests and constraints. Each selector reads other attributes; the last one fails on devices
#: without the attribute, so that the attempt ends in an error.
TEMPLATES: list[tuple[Any, list[dict[str, Any]]]] = [
    (exactly(), []),
    (exactly(count=2), SAME_NUMA),
    (first_of("r", "x", "gpu"), []),
    (exactly(selectors=cel(f'{attribute("model")} == "y"')), []),
    (exactly(selectors=cel(f"{attribute('numa')} == 1")), []),
    (exactly(capacity={"requests": {"memory": "3Gi"}}), []),
    (exactly(count=2, tolerations=[{"operator": "Exists"}]), []),
    (all_of(), []),
    ([exactly("r"), exactly("s")], []),
    (exactly(selectors=cel(f"{attribute('odd')} == 1")), []),
]
#: Reads all attributes: from then on no two nodes are alike, so most clusters do not have it.
READS_ALL: tuple[Any, list[dict[str, Any]]] = (
    exactly(selectors=cel('device.attributes["gpu.test"].exists(k, k == "odd")')),
    [],
)


class Twins:
    """A plugin that lives through all changes, and the allocator, which shares nothing."""

    #: How many allocations are shares of a device.
    share_rate = 0.5
    #: The most devices of a slice.
    devices_max = 3
    kinds: tuple[str, ...] = ("slice", "slice", "allocate", "free", "node", "gone", "network")

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        #: How many nodes were searched in the last attempt.
        self.searched_count = 0
        self.shared = DynamicResources()
        self.cache = Cache()
        self.allocated: list[str] = []
        for name in NODES:
            self.cache.put_node(make_node(name))
            self.cache.put_object(
                "ResourceSlice", make_slice(f"s-{name}", self.devices(), node=name)
            )
        for device_class in (make_class("gpu"), make_class("x", f'{attribute("model")} == "x"')):
            self.cache.put_object("DeviceClass", device_class)

    def change(self) -> None:
        """Makes one random change of slices, claims or nodes."""
        kind = self.random.choice(self.kinds)
        node = self.random.choice(NODES)
        if kind == "slice":
            count = 2 if self.random.random() < 0.2 else 1  # 2: the other one is missing
            changed = make_slice(f"s-{node}", self.devices(), node=node, count=count)
            self.cache.put_object("ResourceSlice", changed)
        elif kind == "network":
            network = make_slice("net", self.devices(), pool="net", allNodes=True)
            self.cache.put_object("ResourceSlice", network)
        elif kind == "gone":
            self.cache.remove_object("ResourceSlice", self.random.choice([f"s-{node}", "net"]))
        elif kind == "node":
            self.cache.remove_node(node)
            self.cache.put_node(make_node(node, labels={"seed": str(self.random.random())}))
        elif kind == "allocate":
            device = f"d{self.random.randrange(self.devices_max)}"
            self.allocate(device, self.random.choice([node, "net"]))
        elif self.allocated:
            name = self.allocated.pop(self.random.randrange(len(self.allocated)))
            self.cache.remove_object("ResourceClaim", f"default/{name}")

    def allocate(self, device: str, pool: str) -> None:
        name = f"{device}-{pool}"
        if name not in self.allocated:
            more = {}
            if self.random.random() < self.share_rate:
                memory = self.random.choice(["1Gi", "3Gi"])
                more = {"shareID": name, "consumedCapacity": {"memory": memory}}
            claim = make_claim(name, allocated=[result_of(device, pool, **more)])
            self.cache.put_object("ResourceClaim", claim)
            self.allocated.append(name)

    def devices(self) -> list[dict[str, Any]]:
        return [self.device(f"d{number}") for number in range(self.random.choice((1, 1, 1, 2, 3)))]

    def device(self, name: str) -> dict[str, Any]:
        device = make_device(name, model=self.random.choice("xy"))
        device["attributes"]["numa"] = {"int": self.random.randrange(2)}
        device["attributes"]["serial"] = {"string": str(self.random.random())}
        if self.random.random() < 0.1:
            device["attributes"]["odd"] = {"int": 1}
        if self.random.random() < 0.2:
            device["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
        if self.random.random() < 0.6:
            device["capacity"] = {"memory": {"value": self.random.choice(["2Gi", "4Gi"])}}
        device["allowMultipleAllocations"] = self.random.random() < 0.3
        return device

    def decided(self, pod: Pod) -> tuple[dict[str, Status | None], dict[str, Any]]:
        """Returns the plugin's statuses, and scores and devices of feasible nodes."""
        harness = Harness([], [self.shared])
        harness.cache = self.cache
        cycle, view, refusal = harness.begin(pod)
        assert refusal is None
        answers = self.shared.filter(cycle, view).to_list()
        statuses = dict(zip(view.names, answers, strict=True))
        attempt = cycle.state_of(self.shared.name)
        self.searched_count = len(attempt.allocations)
        devices = {}
        for name, status in statuses.items():
            if status is None:
                score = attempt.score(name)
                allocation = attempt.allocation_on(name)
                assert allocation is not None
                devices[name] = allocation.solution.results(lambda: "share"), score
        return statuses, devices

    def searched(self, *claims: ResourceClaim) -> tuple[dict[str, Status | None], dict[str, Any]]:
        """Returns the same by a search on every node."""
        all_devices = self.cache.snapshot().devices
        prepared = [prepare_claim(claim, all_devices.classes.get) for claim in claims]
        allocator = Allocator(all_devices.allocated, Selectors(CELCompiler()))
        statuses: dict[str, Status | None] = {}
        devices = {}
        nodes = self.cache.snapshot().nodes
        for name in NODES:
            labels = nodes.node(nodes.live_row(name)).metadata.labels
            target = TargetNode(name, labels)
            statuses[name] = None
            try:
                found = allocator.allocate(target, all_devices.slices.gather(target), prepared)
            except InvalidPools as error:
                statuses[name] = Reject(str(error), resolvable=False)
                continue
            except AllocationError as error:
                statuses[name] = NodeError(str(error))
                continue
            if found is None:
                statuses[name] = Reject("cannot allocate all claims", resolvable=False)
            else:
                results = found.results(lambda: "share")
                taken = [{item.request for item in each.devices.results} for each in results]
                devices[name] = results, sum(map(score_of, claims, taken))
        return statuses, devices


@pytest.mark.parametrize("seed", range(12))
def test_shared_results_are_those_of_a_search_on_every_node(seed: int) -> None:
    twins = Twins(seed)
    templates = [*TEMPLATES, READS_ALL] if seed % 4 == 0 else TEMPLATES
    feasible = 0
    for step in range(60):
        twins.change()
        request, constraints = twins.random.choice(templates)
        requests = request if isinstance(request, list) else [request]
        claim = make_claim(f"mine-{step}", *requests, constraints=constraints)
        twins.cache.put_object("ResourceClaim", claim)
        entry = {"name": "c", "resourceClaimName": claim.metadata.name}
        pod = make_pod("new", spec={"resourceClaims": [entry]})

        decided = twins.decided(pod)
        assert decided == twins.searched(claim)
        feasible += len(decided[1])
    assert feasible > 50
    assert audit(twins.cache) == []


class EqualPools(Twins):
    """Nodes whose devices are one of two lists, so that they differ by what is in use."""

    share_rate = 0.1
    devices_max = 6
    kinds = ("allocate", "allocate", "allocate", "allocate", "free", "slice")

    def devices(self) -> list[dict[str, Any]]:
        is_mixed = self.random.random() < 0.5
        devices = []
        for number in range(self.devices_max):
            device = make_device(f"d{number}", model="xy"[number % 2 if is_mixed else number // 3])
            device["attributes"]["numa"] = {"int": number // 2 if is_mixed else number % 3}
            device["capacity"] = {"memory": {"value": "4Gi" if number % 3 else "2Gi"}}
            device["allowMultipleAllocations"] = number == 4
            devices.append(device)
        return devices


DISTINCT_NUMA = [{"distinctAttribute": "gpu.test/numa"}]
#: Requests and constraints for which it matters which devices are free.
CHOOSY: list[tuple[Any, list[dict[str, Any]]]] = [
    (exactly(count=2), SAME_NUMA),
    (exactly(count=3), DISTINCT_NUMA),
    ([exactly("r", count=2), exactly("s")], DISTINCT_NUMA),
    ([exactly("r"), exactly("s", selectors=cel(f'{attribute("model")} == "y"'))], SAME_NUMA),
    (first_of("r", "x", "gpu"), []),
    (exactly(count=2, capacity={"requests": {"memory": "3Gi"}}), []),
    (exactly(selectors=cel(f'{attribute("model")} == "x"')), []),
    (all_of(device_class="x"), []),
]


@pytest.mark.parametrize("seed", range(8))
def test_results_that_follow_from_others_are_those_of_a_search(seed: int) -> None:
    twins = EqualPools(seed)
    for _ in range(80):
        twins.change()
    without_search = 0
    for step in range(40):
        twins.change()
        request, constraints = twins.random.choice(CHOOSY)
        requests = request if isinstance(request, list) else [request]
        more = exactly(f"more-{step}", count=1 + step % 2)  # so that the template is new
        claim = make_claim(f"mine-{step}", *requests, more, constraints=constraints)
        twins.cache.put_object("ResourceClaim", claim)
        entry = {"name": "c", "resourceClaimName": claim.metadata.name}
        pod = make_pod("new", spec={"resourceClaims": [entry]})

        decided = twins.decided(pod)
        assert decided == twins.searched(claim)
        signatures = twins.cache.devices.signatures.column[: len(NODES)].tolist()
        feasible = {signatures[NODES.index(name)] for name in decided[1]}
        without_search += len(feasible) - twins.searched_count
    assert without_search > 20


@pytest.mark.parametrize("position", [None, 0, 1])
def test_a_result_that_depends_on_released_devices_is_not_that_of_another_node(
    position: int | None,
) -> None:
    """The pod has a second claim at ``position``, which does not depend on released devices."""
    # Upstream forgets the distinct value of d0 when it releases d1, whose rack is another: so
    # with d1 free it takes d2 with the value of d0, and without d1 it does not.
    twins = Twins(0)
    devices = []
    for number, (numa, rack) in enumerate([(1, 1), (2, 0), (1, 1), (0, 1)]):
        device = make_device(f"d{number}")
        device["attributes"].update({"numa": {"int": numa}, "rack": {"int": rack}})
        devices.append(device)
    devices.append(make_device("d4", model="x"))
    for name in NODES:
        twins.cache.put_object("ResourceSlice", make_slice(f"s-{name}", devices, node=name))
    used = make_claim("used", allocated=[result_of("d1", "n1")])
    constraints = [*DISTINCT_NUMA, {"matchAttribute": "gpu.test/rack"}]
    claim = make_claim("mine", exactly(count=2), constraints=constraints)
    claims = [claim]
    if position is not None:
        only_x = exactly(selectors=cel('"model" in device.attributes["gpu.test"]'))
        claims.insert(position, make_claim("other", only_x))
    for changed in (used, *claims):
        twins.cache.put_object("ResourceClaim", changed)
    names = [entry.metadata.name for entry in claims]
    entries = [{"name": name, "resourceClaimName": name} for name in names]

    decided = twins.decided(make_pod("new", spec={"resourceClaims": entries}))
    assert decided == twins.searched(*claims)
    taken = {
        name: [result.device for result in decided[1][name][0][names.index("mine")].devices.results]
        for name in ("n0", "n1")
    }
    assert taken == {"n0": ["d0", "d2"], "n1": ["d0", "d3"]}


def test_an_error_names_the_claim_of_its_own_pod() -> None:
    names = ["one", "two", "three"]
    failing = exactly(selectors=cel(f"{attribute('odd')} == 1"))
    objects = [
        make_node("a"),
        make_class("gpu"),
        make_slice("s", [make_device("d0"), make_device("d1")], node="a"),
        *(make_claim(name, failing) for name in names),
    ]
    driver = Driver(objects, rng=seeded_random(1), clock=VirtualClock())
    for name in names:
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        message = driver.attempt(make_pod(f"pod-{name}", spec=spec)).decision().message
        assert message is not None
        assert f"claim default/{name}: selector #0: CEL runtime error: no such key" in message


def test_devices_that_were_taken_after_filter_are_not_planned_again() -> None:
    cache = Cache()
    cache.put_node(make_node("a"))
    cache.put_object("DeviceClass", make_class("gpu"))
    slices = make_slice("s", [make_device(f"d{number}") for number in range(4)], node="a")
    cache.put_object("ResourceSlice", slices)
    plugin = DynamicResources()
    taken = []
    for name in ("first", "second", "third"):
        cache.put_object("ResourceClaim", make_claim(name, exactly()))
        spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
        harness = Harness([], [plugin])
        harness.cache = cache
        cycle, view, refusal = harness.begin(make_pod(name, spec=spec))
        assert refusal is None
        assert plugin.filter(cycle, view).to_list() == [None]
        if name == "third":
            # Another claim gets the first device in the meantime.
            other = make_claim("other", allocated=[result_of("d0", "a")])
            cache.put_object("ResourceClaim", other)
        allocation = cycle.state_of(plugin.name).allocation_on("a")
        assert allocation is not None
        (result,) = allocation.solution.results(lambda: "share")
        taken += [entry.device for entry in result.devices.results]
    assert taken == ["d0", "d0", "d1"]


def test_a_class_that_changed_counts_for_templates_that_are_known() -> None:
    cache = Cache()
    for name, model in (("a", "x"), ("b", "y")):
        cache.put_node(make_node(name))
        devices = [make_device(f"d{number}", model=model) for number in range(2)]
        cache.put_object("ResourceSlice", make_slice(f"s-{name}", devices, node=name))
    plugin = DynamicResources()
    feasible = []
    for name, model in (("one", "x"), ("two", "y")):
        cache.put_object("DeviceClass", make_class("gpu", f'{attribute("model")} == "{model}"'))
        cache.put_object("ResourceClaim", make_claim(name, exactly()))
        spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
        harness = Harness([], [plugin])
        harness.cache = cache
        cycle, view, refusal = harness.begin(make_pod(name, spec=spec))
        assert refusal is None
        statuses = zip(view.names, plugin.filter(cycle, view).to_list(), strict=True)
        feasible.append([node for node, status in statuses if status is None])
    assert feasible == [["a"], ["b"]]


def test_a_known_template_is_rejected_while_its_claim_is_in_flight_or_its_class_is_gone() -> None:
    cache = Cache()
    cache.put_node(make_node("a"))
    cache.put_object("DeviceClass", make_class("gpu"))
    cache.put_object("ResourceSlice", make_slice("s", [make_device("d")], node="a"))
    plugin = DynamicResources()

    def refusal_of(name: str) -> Status | None:
        cache.put_object("ResourceClaim", make_claim(name, exactly()))
        spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
        harness = Harness([], [plugin])
        harness.cache = cache
        cycle, view, refusal = harness.begin(make_pod(name, spec=spec))
        if refusal is None:
            plugin.filter(cycle, view)
        return refusal

    assert refusal_of("first") is None
    assert refusal_of("second") is None
    devices = cache.snapshot().devices
    claim = devices.claims.get("default/second")
    assert claim is not None
    devices.in_use.begin(claim)
    text = "resource claim default/second is in the process of being allocated"
    refusal = refusal_of("second")
    assert refusal is not None
    assert refusal.reasons == (text,)
    devices.in_use.end(claim.metadata.uid)
    cache.remove_object("DeviceClass", "gpu")
    refusal = refusal_of("third")
    assert refusal is not None
    assert refusal.reasons == ("request r: device class gpu does not exist",)
