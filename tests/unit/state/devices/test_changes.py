"""The log of nodes whose devices changed."""

from __future__ import annotations

from mooring.state.devices.changes import ALL_NODES, LENGTH_MAX, DeviceChanges
from mooring.state.devices.devices import Devices
from mooring.state.kinds.device_classes import DeviceClasses
from tests.helpers.devices import make_claim, make_device, make_slice, result_of


def test_a_cache_gets_the_nodes_since_its_generation() -> None:
    changes = DeviceChanges()
    changes.add("a")
    before = changes.generation
    assert changes.since(before) == set()
    changes.add("b")
    changes.add("c")
    changes.add("b")

    assert changes.since(before) == {"b", "c"}
    assert changes.since(0) == {"a", "b", "c"}
    changes.add(ALL_NODES)
    assert changes.since(before) is None


def test_a_cache_that_is_too_far_behind_starts_again() -> None:
    changes = DeviceChanges()
    for _ in range(LENGTH_MAX + 1):
        changes.add("a")

    assert changes.since(1) == {"a"}
    assert changes.since(0) is None


def test_slices_and_claims_change_the_nodes_of_their_pools() -> None:
    devices = Devices(DeviceClasses())
    devices.put(make_slice("own", [make_device("d0")], node="a"))
    devices.put(make_slice("other", [make_device("d0")], node="b"))
    start = devices.changes.generation

    devices.put(make_claim("c", allocated=[result_of("d0", "b")]))
    assert devices.changes.since(start) == {"b"}
    devices.remove("ResourceSlice", "own")
    assert devices.changes.since(start) == {"a", "b"}
    devices.put(make_slice("net", [make_device("d0")], allNodes=True))
    assert devices.changes.since(start) is None


def test_a_claim_in_flight_that_is_written_changes_its_nodes_once() -> None:
    devices = Devices(DeviceClasses())
    devices.put(make_slice("own", [make_device("d0")], node="a"))
    devices.put(make_claim("c"))
    reserved = make_claim("c", allocated=[result_of("d0", "a")])
    devices.in_use.begin(reserved)
    begun = devices.changes.generation

    devices.put(reserved)
    devices.in_use.end("uid-c")
    assert devices.changes.since(begun) == set()
    devices.put(make_claim("c"))
    assert devices.changes.since(begun) == {"a"}


def test_a_claim_that_is_given_up_changes_its_nodes_back() -> None:
    devices = Devices(DeviceClasses())
    devices.put(make_slice("own", [make_device("d0")], node="a"))
    share = result_of("d0", "a", shareID="s", consumedCapacity={"memory": "1Gi"})
    devices.in_use.begin(make_claim("c", allocated=[share]))
    begun = devices.changes.generation

    devices.in_use.end("uid-c")
    assert devices.changes.since(begun) == {"a"}
