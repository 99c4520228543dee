"""The devices in use, and what the version of the devices follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.dra import ALL_FEATURES, DeviceID
from mooring.objects.resource import ResourceClaim
from mooring.state.audit.devices import audit_devices
from mooring.state.cache import Cache
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.devices import Devices
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.testing import make_node
from tests.helpers.devices import make_claim, make_class, make_device, make_slice, result_of

D0, D1 = DeviceID("gpu.test", "a", "d0"), DeviceID("gpu.test", "a", "d1")


def devices() -> Devices:
    return Devices(DeviceClasses())


def share(device: str, share_id: str, amount: str) -> dict[str, Any]:
    return result_of(device, "a", shareID=share_id, consumedCapacity={"memory": amount})


def gibi(count: int) -> int:
    return count * 2**30 * 10**9


def test_allocated_claims_have_their_devices() -> None:
    there = devices()
    there.put(make_claim("free"))
    there.put(make_claim("c", allocated=[result_of("d0", "a")]))
    assert there.allocated.dedicated == {D0}

    there.put(make_claim("c"))
    assert there.allocated.dedicated == set()
    there.put(make_claim("c", allocated=[result_of("d1", "a")]))
    there.remove("ResourceClaim", "default/c")
    assert there.allocated.dedicated == set()
    assert audit_devices(there) == []


def test_admin_access_does_not_count() -> None:
    there = devices()
    there.put(make_claim("c", allocated=[result_of("d0", "a", adminAccess=True)]))

    assert not there.allocated.uses(D0)
    assert audit_devices(there) == []


def test_a_device_of_two_claims_is_free_when_one_of_them_ends() -> None:
    there = devices()
    there.put(make_claim("one", allocated=[result_of("d0", "a")]))
    there.put(make_claim("two", allocated=[result_of("d0", "a")]))
    there.remove("ResourceClaim", "default/one")

    assert not there.allocated.uses(D0)


def test_an_allocation_that_replaces_another_frees_its_devices() -> None:
    there = devices()
    there.put(make_claim("c", allocated=[result_of("d0", "a"), share("d2", "s1", "1Gi")]))
    there.put(make_claim("c", allocated=[result_of("d1", "a"), share("d2", "s2", "3Gi")]))

    assert there.allocated.dedicated == {D1}
    assert list(there.allocated.consumed.values()) == [{"memory": gibi(3)}]
    assert audit_devices(there) == []


def test_shares_add_up_and_vanish_with_the_last() -> None:
    there = devices()
    there.put(make_claim("one", allocated=[share("d0", "s1", "2Gi")]))
    there.put(make_claim("two", allocated=[share("d0", "s2", "3Gi")]))
    assert there.allocated.dedicated == set()
    assert there.allocated.shared == {D0}
    assert there.allocated.consumed == {D0: {"memory": gibi(5)}}
    assert audit_devices(there) == []

    there.remove("ResourceClaim", "default/two")
    assert there.allocated.consumed == {D0: {"memory": gibi(2)}}
    there.put(make_claim("one"))
    assert (there.allocated.shared, there.allocated.consumed) == (set(), {})
    assert audit_devices(there) == []


def test_a_device_is_shared_until_its_last_share_ends() -> None:
    there = devices()
    for name in ("one", "two"):
        there.put(make_claim(name, allocated=[share("d0", f"share-{name}", "1Gi")]))

    there.remove("ResourceClaim", "default/one")
    assert there.allocated.shared == {D0}
    assert audit_devices(there) == []

    there.remove("ResourceClaim", "default/two")
    assert there.allocated.shared == set()
    assert not there.allocated.uses(D0)


def test_claims_in_flight_count_until_they_end() -> None:
    there = devices()
    there.put(make_claim("c"))
    reserved = make_claim("c", allocated=[result_of("d0", "a"), share("d1", "s", "1Gi")])
    there.in_use.begin(reserved)
    assert there.in_use.in_flight("uid-c") is reserved
    assert (there.allocated.dedicated, there.allocated.shared) == ({D0}, {D1})
    assert there.allocated.consumed == {D1: {"memory": gibi(1)}}
    assert audit_devices(there) == []

    there.put(reserved)
    assert there.in_use.end("uid-c")
    assert not there.in_use.end("uid-c")
    assert (there.allocated.dedicated, there.allocated.shared) == ({D0}, {D1})
    assert there.allocated.consumed == {D1: {"memory": gibi(1)}}
    assert audit_devices(there) == []


def test_a_claim_that_is_given_up_leaves_nothing() -> None:
    there = devices()
    there.in_use.begin(make_claim("c", allocated=[result_of("d0", "a"), share("d1", "s", "1Gi")]))
    there.in_use.end("uid-c")

    state = there.allocated
    assert (state.dedicated, state.shared, state.consumed) == (set(), set(), {})


class Following:
    """Devices in use, and the pools that are reported with their changes."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []
        self.devices = AllocatedDevices(self.reported.append)
        self.claims: dict[str, ResourceClaim] = {}

    def put(self, name: str, *allocated: dict[str, Any]) -> list[tuple[str, str]]:
        """Changes the allocation of a claim; returns the pools that this reports."""
        new = make_claim(name, allocated=list(allocated) or None)
        self.reported.clear()
        self.devices.claim_changed(self.claims.get(name), new)
        self.claims[name] = new
        return list(self.reported)

    def begin(self, name: str, *allocated: dict[str, Any]) -> list[tuple[str, str]]:
        self.reported.clear()
        self.devices.begin(make_claim(name, allocated=list(allocated)))
        return list(self.reported)

    def end(self, name: str) -> list[tuple[str, str]]:
        self.reported.clear()
        assert self.devices.end(f"uid-{name}")
        return list(self.reported)


POOL = ("gpu.test", "a")


def test_pools_are_reported_when_what_is_in_use_changes() -> None:
    there = Following()
    dedicated = result_of("d0", "a")
    assert there.begin("c", dedicated) == [POOL]
    assert there.put("c", dedicated) == []  # it was in use before
    assert there.end("c") == []
    assert there.put("c", result_of("d0", "a", adminAccess=True)) == [POOL]
    assert there.put("c") == []


def test_pools_are_reported_when_consumed_amounts_change() -> None:
    there = Following()
    one, two = share("d0", "s1", "1Gi"), share("d0", "s2", "2Gi")
    assert there.put("one", one) == [POOL]
    # The device is shared as before, but there is less left of it.
    assert there.put("two", two) == [POOL]
    assert there.devices.state.consumed == {D0: {"memory": gibi(3)}}
    assert there.begin("three", share("d0", "s3", "4Gi")) == [POOL]
    assert there.devices.state.consumed == {D0: {"memory": gibi(7)}}
    assert there.end("three") == [POOL]
    assert there.begin("three", share("d0", "s3", "0")) == []
    assert there.end("three") == []
    assert there.put("two") == [POOL]
    assert there.devices.state.consumed == {D0: {"memory": gibi(1)}}


def test_a_share_beside_a_dedicated_use_of_the_device_is_reported() -> None:
    there = Following()
    assert there.put("whole", result_of("d0", "a")) == [POOL]
    part = result_of("d0", "a", shareID="s1")
    assert there.put("part", part) == [POOL]
    assert (there.devices.state.dedicated, there.devices.state.shared) == ({D0}, {D0})
    assert there.devices.state.consumed == {}
    assert there.put("whole") == [POOL]
    assert (there.devices.state.dedicated, there.devices.state.shared) == (set(), {D0})


def test_the_version_of_devices_in_use_rises_with_every_result() -> None:
    there = Following()
    before = there.devices.version
    there.put("c", result_of("d0", "a"), result_of("d1", "a"))
    assert there.devices.version == before + 2
    there.begin("c", result_of("d0", "a"))
    assert there.devices.version == before + 3
    there.end("c")
    assert there.devices.version == before + 4
    assert not there.devices.end("uid-c")
    there.put("c", result_of("d0", "a"), result_of("d1", "a"))
    assert there.devices.version == before + 4


def test_devices_that_cannot_be_shared_belong_to_the_claim_alone() -> None:
    features = replace(ALL_FEATURES, is_shareable=False)
    there = AllocatedDevices(features=features)
    there.claim_changed(None, make_claim("c", allocated=[share("d0", "s1", "1Gi")]))
    there.begin(make_claim("d", allocated=[share("d1", "s2", "1Gi")]))

    assert (there.state.dedicated, there.state.shared) == ({D0, D1}, set())
    assert there.state.consumed == {}


def test_claims_in_flight_are_listed_and_the_last_of_a_claim_counts() -> None:
    there = Following()
    assert there.devices.in_flight("uid-c") is None
    there.begin("c", result_of("d0", "a"))
    there.begin("c", result_of("d1", "a"))
    there.begin("other", share("d1", "s1", "1Gi"))

    assert there.devices.state.dedicated == {D1}
    assert there.devices.state.shared == {D1}
    assert [claim.metadata.name for claim in there.devices.all_in_flight()] == ["c", "other"]
    there.end("c")
    assert (there.devices.state.dedicated, there.devices.state.shared) == (set(), {D1})
    assert [claim.metadata.name for claim in there.devices.all_in_flight()] == ["other"]


@pytest.mark.parametrize("kind", ["class", "slice", "claim", "in flight", "deleted slice"])
def test_the_version_rises_with_every_change(kind: str) -> None:
    there = devices()
    there.put(make_slice("s", [make_device("d0")], node="a"))
    before = there.version
    if kind == "class":
        there.classes.put(make_class("gpu"))
    elif kind == "slice":
        there.put(make_slice("s", [make_device("d1")], node="a"))
    elif kind == "deleted slice":
        there.remove("ResourceSlice", "s")
    elif kind == "claim":
        there.put(make_claim("c"))
    else:
        there.in_use.begin(make_claim("c", allocated=[result_of("d0", "a")]))

    assert there.version > before


def test_the_cache_keeps_devices_and_drops_the_pools_of_deleted_nodes() -> None:
    cache = Cache()
    node = make_node("a")
    cache.put_node(node)
    cache.put_object("ResourceSlice", make_slice("s", [make_device("d0")], node="a"))
    cache.put_object("ResourceClaim", make_claim("c", allocated=[result_of("d0", "a")]))
    cache.put_object("DeviceClass", make_class("gpu"))
    snapshot = cache.snapshot().devices
    (pool,) = snapshot.pools(node).pools
    assert (pool.name, snapshot.allocated.uses(D0)) == ("gpu.test/a", True)
    assert snapshot.classes.get("gpu") is not None

    cache.remove_node("a")
    assert snapshot.slices.cached() == []


def test_the_audit_reports_devices_that_do_not_follow_from_claims() -> None:
    there = devices()
    there.put(make_claim("c", allocated=[result_of("d0", "a")]))
    there.in_use._all_dedicated.add(D1)

    (problem,) = audit_devices(there)

    assert problem.startswith("devices in use are ")


def test_what_is_left_of_several_capacities_is_kept_until_all_are_free() -> None:
    there = Following()
    consumed = {"memory": "2", "cores": "3"}
    both = result_of("d0", "a", shareID="s1", consumedCapacity=consumed)
    memory = result_of("d0", "a", shareID="s2", consumedCapacity={"memory": "1"})
    there.put("both", both)
    there.put("memory", memory)
    assert there.devices.state.consumed == {D0: {"memory": 3 * 10**9, "cores": 3 * 10**9}}

    there.put("both")
    assert there.devices.state.consumed == {D0: {"memory": 10**9, "cores": 0}}
    there.put("memory")
    assert there.devices.state.consumed == {}


def test_two_shares_of_a_claim_on_one_device_end_together() -> None:
    there = Following()
    shares = [share("d0", "s1", "1Gi"), share("d0", "s2", "2Gi"), result_of("d1", "a")]
    there.put("c", *shares)
    there.begin("flight", result_of("d0", "a"), share("d0", "s3", "4Gi"))
    assert there.devices.state.consumed == {D0: {"memory": gibi(7)}}
    assert there.devices.state.dedicated == {D0, D1}

    there.put("c", shares[0])
    assert there.devices.state.consumed == {D0: {"memory": gibi(5)}}
    assert there.devices.state.dedicated == {D0}
    there.end("flight")
    assert (there.devices.state.dedicated, there.devices.state.shared) == (set(), {D0})
    assert there.devices.state.consumed == {D0: {"memory": gibi(1)}}
