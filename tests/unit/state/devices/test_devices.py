"""The devices in use, and what the version of the devices follows."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import DeviceID
from mooring.state.audit.devices import audit_devices
from mooring.state.cache import Cache
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
