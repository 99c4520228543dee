"""The devices that one search has taken: users, shares, counters, taints and constraints."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import AllocatedState, AllocationError, DeviceID, Slices, TargetNode, prepare_claim
from mooring.dra.counters import AvailableCounters
from mooring.dra.devices import SliceDevice
from mooring.dra.ledger import Ledger, tolerates
from mooring.dra.requests import Choice
from mooring.objects.resource import DeviceTaint, DeviceToleration
from tests.helpers.devices import all_of, exactly, make_claim, make_class, make_device, make_slice

NODE = TargetNode("a", {})
CLASSES = {"gpu": make_class("gpu")}


class Searched:
    """A ledger over the devices of a node, for claims of one request each."""

    def __init__(
        self,
        devices: list[dict[str, Any]],
        *requests: Any,
        allocated: AllocatedState | None = None,
        constraints: list[dict[str, Any]] | None = None,
        counters: dict[str, str] | None = None,
    ) -> None:
        parts = [make_slice("s", devices, pool="p", node="a", count=1 + (counters is not None))]
        if counters is not None:
            amounts = {name: {"value": amount} for name, amount in counters.items()}
            sets = [{"name": "gpu", "counters": amounts}]
            parts.append(make_slice("t", pool="p", allNodes=True, count=2, sharedCounters=sets))
        pools = Slices(parts).pools(NODE)
        self.claims = [
            prepare_claim(make_claim(f"c{number}", request, constraints=constraints), CLASSES.get)
            for number, request in enumerate(requests)
        ]
        state = allocated or AllocatedState()
        self.ledger = Ledger(pools, self.claims, state, AvailableCounters(state))
        self._devices = {device.id.device: device for device in pools.devices}

    def choice(self, claim: int) -> Choice:
        return self.claims[claim].requests[0].choices[0]

    def device(self, name: str) -> SliceDevice:
        return self._devices[name]

    def take(self, name: str, claim: int = 0) -> bool:
        return self.ledger.take(claim, self.choice(claim), self.device(name))

    def is_in_use(self, name: str, claim: int = 0) -> bool:
        return self.ledger.is_in_use(claim, self.choice(claim), self.device(name))

    def has_capacity(self, name: str, claim: int = 0) -> bool:
        return self.ledger.has_capacity(self.choice(claim), self.device(name))

    def taken(self, claim: int = 0) -> list[str]:
        return [entry.device.id.device for entry in self.ledger.taken[claim]]


def id_of(name: str) -> DeviceID:
    return DeviceID("gpu.test", "p", name)


# ---------------------------------------------------------------- users


def test_a_device_is_in_use_from_its_taking_to_its_release() -> None:
    there = Searched([make_device("d0"), make_device("d1")], exactly(), exactly())
    assert there.take("d0")
    assert (there.is_in_use("d0", 0), there.is_in_use("d0", 1)) == (True, True)
    assert not there.is_in_use("d1", 1)
    assert there.take("d1", 1)
    assert (there.taken(0), there.taken(1)) == (["d0"], ["d1"])

    there.ledger.release(0)
    assert (there.is_in_use("d0", 1), there.is_in_use("d1", 0)) == (False, True)
    assert (there.taken(0), there.taken(1)) == ([], ["d1"])


def test_a_device_of_another_pod_is_in_use_except_for_administration() -> None:
    allocated = AllocatedState(dedicated={id_of("d0")})
    there = Searched(
        [make_device("d0")],
        exactly(),
        exactly(adminAccess=True),
        exactly(adminAccess=True),
        allocated=allocated,
    )
    assert there.is_in_use("d0", 0)
    assert not there.is_in_use("d0", 1)
    assert there.take("d0", 1)
    # Once per claim, but another claim may have it as well.
    assert there.is_in_use("d0", 1)
    assert not there.is_in_use("d0", 2)
    assert there.take("d0", 2)
    there.ledger.release(2)
    assert (there.is_in_use("d0", 1), there.is_in_use("d0", 2)) == (True, False)


# ---------------------------------------------------------------- shares


SHARED: dict[str, Any] = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "10"}, "cores": {"value": "4"}},
}


def wants(memory: str, **more: Any) -> Any:
    return exactly(capacity={"requests": {"memory": memory, "cores": "0"}}, **more)


def test_shares_of_a_device_add_up_until_they_are_released() -> None:
    there = Searched([make_device("d0", **SHARED)], wants("6"), wants("4"), wants("1"))
    assert there.take("d0", 0)
    assert not there.is_in_use("d0", 1)
    assert there.has_capacity("d0", 1)
    assert there.take("d0", 1)
    assert not there.has_capacity("d0", 2)
    there.ledger.release(1)
    assert there.has_capacity("d0", 2)
    assert there.take("d0", 2)
    assert not there.has_capacity("d0", 1)
    there.ledger.release(0)
    assert there.has_capacity("d0", 1)


def test_what_shares_in_the_cluster_consume_is_added() -> None:
    allocated = AllocatedState(shared={id_of("d0")}, consumed={id_of("d0"): {"memory": 3 * 10**9}})
    there = Searched(
        [make_device("d0", **SHARED), make_device("d1", **SHARED)],
        wants("7"),
        wants("8"),
        allocated=allocated,
    )
    assert there.has_capacity("d0", 0)
    assert not there.has_capacity("d0", 1)
    assert there.has_capacity("d1", 1)
    assert not there.is_in_use("d0", 0)


def test_shares_of_the_cluster_and_of_this_search_add_up() -> None:
    allocated = AllocatedState(shared={id_of("d0")}, consumed={id_of("d0"): {"memory": 3 * 10**9}})
    there = Searched(
        [make_device("d0", **SHARED)], wants("4"), wants("3"), wants("4"), allocated=allocated
    )
    assert there.take("d0", 0)
    assert there.has_capacity("d0", 1)
    assert not there.has_capacity("d0", 2)
    there.ledger.release(0)
    assert there.has_capacity("d0", 2)


def test_a_capacity_that_the_device_lacks_is_refused_and_none_is_always_there() -> None:
    there = Searched([make_device("d0"), make_device("d1", **SHARED)], wants("1"), exactly())
    assert not there.has_capacity("d0", 0)
    assert there.has_capacity("d0", 1)
    assert there.has_capacity("d1", 1)


def test_all_devices_are_taken_only_with_capacity_for_each_share() -> None:
    constraints = [{"matchAttribute": "gpu.test/model"}]
    all_devices = all_of()
    all_devices["exactly"]["capacity"] = {"requests": {"memory": "6", "cores": "0"}}
    there = Searched(
        [make_device("d0", model="x", **SHARED), make_device("d1", model="y")],
        all_devices,
        constraints=constraints,
    )
    assert there.take("d0")
    assert not there.take("d0")  # the second share of 6 is too much
    assert there.taken() == ["d0"]
    there.ledger.release(0)
    # The refused share is not counted by the constraint, so another model may come first now.
    assert there.ledger._constraints[0][0].add("r", "", there.device("d1"))


# ---------------------------------------------------------------- counters


def consuming(name: str, **amounts: str) -> dict[str, Any]:
    counters = {counter: {"value": amount} for counter, amount in amounts.items()}
    return make_device(name, consumesCounters=[{"counterSet": "gpu", "counters": counters}])


def test_counters_are_consumed_and_given_back() -> None:
    devices = [
        consuming("d0", memory="5"),
        consuming("d1", memory="4", cores="1"),
        consuming("d2", memory="3"),
    ]
    there = Searched(devices, exactly(), counters={"memory": "8", "cores": "2"})
    assert there.take("d0")
    assert not there.take("d1")
    assert there.take("d2")
    assert there.taken() == ["d0", "d2"]
    there.ledger.release(0)
    there.ledger.release(0)
    assert there.take("d1")
    assert not there.take("d0")


@pytest.mark.parametrize(
    ("more", "constraints"),
    [
        ({"taints": [{"key": "bad", "effect": "NoSchedule"}]}, None),
        ({}, [{"matchAttribute": "gpu.test/none"}]),
    ],
)
def test_a_device_that_is_refused_consumes_no_counters(
    more: dict[str, Any], constraints: list[dict[str, Any]] | None
) -> None:
    refused = consuming("d0", memory="5") | more
    good = consuming("d1", memory="5")
    if constraints is not None:
        good["attributes"] = {"none": {"string": "x"}}
    there = Searched([refused, good], exactly(), counters={"memory": "8"}, constraints=constraints)
    assert not there.take("d0")
    assert there.take("d1")
    assert there.taken() == ["d1"]


def test_only_the_first_share_of_a_device_consumes_its_counters() -> None:
    device = consuming("d0", memory="5") | SHARED
    there = Searched([device], wants("1"), wants("1"), counters={"memory": "8"})
    assert there.take("d0", 0)
    assert there.take("d0", 1)
    assert [there.ledger.taken[number][0].consumes_counters for number in (0, 1)] == [True, False]
    allocated = AllocatedState(consumed={id_of("d0"): {"memory": 1}})
    there = Searched([device], wants("1"), counters={"memory": "8"}, allocated=allocated)
    assert there.take("d0")
    assert not there.ledger.taken[0][0].consumes_counters


# ---------------------------------------------------------------- constraints and taints


def test_a_device_that_a_later_constraint_refuses_counts_in_none() -> None:
    devices = [
        {"name": "d0", "attributes": {"a": {"string": "1"}}},
        {"name": "d1", "attributes": {"a": {"string": "2"}, "b": {"string": "2"}}},
    ]
    constraints = [{"matchAttribute": "gpu.test/a"}, {"matchAttribute": "gpu.test/b"}]
    there = Searched(devices, exactly(), constraints=constraints)
    assert not there.take("d0")
    assert there.take("d1")


def test_constraints_of_a_claim_do_not_concern_another_claim() -> None:
    devices = [make_device("d0", model="x"), make_device("d1", model="y")]
    constraints = [{"matchAttribute": "gpu.test/model"}]
    there = Searched(devices, exactly(), exactly(), constraints=constraints)
    assert there.take("d0", 0)
    assert there.take("d1", 1)
    assert there.take("d0", 0)
    assert not there.take("d1", 0)


def test_a_constraint_that_all_devices_cannot_meet_is_an_error() -> None:
    devices = [make_device("d0", model="x"), make_device("d1", model="y")]
    constraints = [{"matchAttribute": "gpu.test/model"}]
    there = Searched(devices, all_of(), constraints=constraints)
    assert there.take("d0")
    with pytest.raises(AllocationError) as caught:
        there.take("d1")

    assert str(caught.value) == (
        "claim default/c0, request r: cannot add device gpu.test/p/d1 because a claim constraint "
        "would not be satisfied"
    )


def taint(effect: str = "NoSchedule", **fields: str) -> dict[str, Any]:
    return {"key": "bad", "effect": effect, **fields}


@pytest.mark.parametrize(
    ("toleration", "matches"),
    [
        ({}, False),  # operator Equal, value ""
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "bad"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "bad", "value": "v"}, True),
        ({"key": "bad", "operator": "Equal", "value": "v"}, True),
        ({"key": "bad", "operator": "Equal", "value": "w"}, False),
        ({"operator": "Equal", "value": "v"}, True),
        ({"key": "other", "operator": "Equal", "value": "v"}, False),
        ({"key": "bad", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "bad", "operator": "Equal", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "bad", "operator": "Near", "value": "v"}, False),
    ],
)
def test_tolerations_of_taints(toleration: dict[str, str], matches: bool) -> None:
    device = make_device("d0", taints=[taint(value="v")])
    there = Searched([device], exactly(tolerations=[toleration]))
    decoded: DeviceToleration = there.choice(0).tolerations[0]
    of_device: DeviceTaint = there.device("d0").taints[0]

    assert tolerates(decoded, of_device) is matches
    assert there.take("d0") is matches


def test_every_taint_must_be_tolerated_by_some_toleration() -> None:
    taints = [taint(), {"key": "worse", "effect": "NoExecute"}]
    tolerations = [
        {"key": "bad", "operator": "Exists"},
        {"key": "worse", "operator": "Exists"},
    ]
    device = make_device("d0", taints=taints)
    assert Searched([device], exactly(tolerations=tolerations)).take("d0")
    assert not Searched([device], exactly(tolerations=tolerations[:1])).take("d0")
    assert not Searched([device], exactly(tolerations=tolerations[1:])).take("d0")
    assert not Searched([device], exactly()).take("d0")
    assert Searched([make_device("d0")], exactly()).take("d0")
