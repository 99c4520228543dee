"""Nodes have equal signatures if a search cannot tell them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.state.devices import signatures as module
from mooring.state.devices.signatures import NO_NODE, UNSHARED
from mooring.testing import make_node
from tests.helpers.devices import make_claim, make_device, make_slice, result_of

MODEL = frozenset({("gpu.test", "model")})


def cluster(*models: str) -> Cache:
    """Returns a cluster with one node and one device for each model."""
    cache = Cache()
    for number, model in enumerate(models):
        cache.put_node(make_node(f"n{number}"))
        device = make_device("d0", model=model)
        cache.put_object("ResourceSlice", make_slice(f"s{number}", [device], node=f"n{number}"))
    return cache


def signatures(cache: Cache) -> list[int]:
    snapshot = cache.snapshot()
    snapshot.devices.signatures.refresh(snapshot.nodes)
    rows = [snapshot.nodes.live_row(name) for name in sorted(snapshot.nodes.names) if name]
    result: list[int] = snapshot.devices.signatures.column[np.array(rows)].tolist()
    return result


def test_attributes_count_from_the_first_template_that_reads_them_on() -> None:
    cache = cluster("x", "x", "y")
    a, b, c = signatures(cache)
    assert a == b == c != UNSHARED

    cache.snapshot().devices.signatures.read(MODEL)
    a, b, c = signatures(cache)
    assert a == b != c


BAD = {"key": "bad", "effect": "NoSchedule"}
ATTRIBUTES = {"attributes": {"model": {"string": "x"}}}


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        ({"taints": [BAD]}, {}),
        ({"taints": [BAD]}, {"taints": [BAD | {"effect": "NoExecute"}]}),
        ({"taints": [BAD]}, {"taints": [BAD | {"value": "x"}]}),
        ({"taints": [BAD]}, {"taints": [BAD, BAD | {"key": "worse"}]}),
        ({"capacity": {"memory": {"value": "1"}}}, {}),
        ({"capacity": {"memory": {"value": "1"}}}, {"capacity": {"memory": {"value": "2"}}}),
        ({"capacity": {"memory": {"value": "1"}}}, {"capacity": {"cores": {"value": "1"}}}),
        ({"allowMultipleAllocations": True}, {}),
        ({}, {"attributes": {"model": {"bool": True}}}),
        ({}, {"attributes": {"model": {"string": "y"}}}),
        ({}, {"attributes": {}}),
        ({}, {"attributes": {"other.test/model": {"string": "x"}}}),
        # With such a version each selector fails, whether it reads the version or not.
        ({}, {"attributes": {**ATTRIBUTES["attributes"], "v": {"version": "none"}}}),
    ],
)
def test_what_a_search_reads_of_a_device_makes_a_difference(
    fields: dict[str, Any], others: dict[str, Any]
) -> None:
    cache = Cache()
    cache.snapshot().devices.signatures.read(MODEL)
    for number, part in enumerate((fields, fields, others)):
        cache.put_node(make_node(f"n{number}"))
        device = make_device("d0", **{**ATTRIBUTES, **part})
        cache.put_object("ResourceSlice", make_slice(f"s{number}", [device], node=f"n{number}"))

    first, equal, other = signatures(cache)
    assert UNSHARED != first == equal != other


def test_pools_that_are_incomplete_and_devices_of_other_nodes_make_a_difference() -> None:
    cache = Cache()
    for name in ("n0", "n1", "n2", "n3"):
        cache.put_node(make_node(name))
        devices = [
            make_device("d0", nodeName=name),
            make_device("d1", nodeName="elsewhere" if name == "n3" else name),
        ]
        count = 2 if name == "n2" else 1
        slice_ = make_slice(name, devices, pool=name, count=count, perDeviceNodeSelection=True)
        cache.put_object("ResourceSlice", slice_)

    first, equal, incomplete, other = signatures(cache)
    assert UNSHARED != first == equal
    assert len({first, incomplete, other}) == 3


def test_devices_of_another_driver_or_in_another_order_make_a_difference() -> None:
    cache = Cache()
    for number, (models, driver) in enumerate(
        (("xy", "gpu.test"), ("xy", "gpu.test"), ("yx", "gpu.test"), ("xy", "other.test"))
    ):
        cache.put_node(make_node(f"n{number}"))
        devices = [make_device(f"d{model}", capacity={model: {"value": "1"}}) for model in models]
        slice_ = make_slice(f"s{number}", devices, node=f"n{number}", driver=driver)
        cache.put_object("ResourceSlice", slice_)

    first, equal, *others = signatures(cache)
    assert UNSHARED != first == equal
    assert len({first, *others}) == 3


def test_reading_everything_stays() -> None:
    cache = cluster("x", "y")
    known = cache.snapshot().devices.signatures
    known.read(None)
    epoch = known.epoch
    known.read(MODEL)

    assert known.epoch == epoch
    a, b = signatures(cache)
    assert a != b


def test_a_device_in_use_makes_a_difference_until_it_is_free() -> None:
    cache = cluster("x", "x")
    before = signatures(cache)
    cache.put_object("ResourceClaim", make_claim("c", allocated=[result_of("d0", "n0")]))
    during = signatures(cache)
    cache.remove_object("ResourceClaim", "default/c")

    assert before[0] == before[1] == during[1] != during[0]
    assert signatures(cache) == before


def test_what_shares_consume_makes_a_difference() -> None:
    cache = cluster("x", "x", "x")
    for number, amount in enumerate(("1Gi", "1Gi", "2Gi")):
        share = result_of("d0", f"n{number}", shareID="s", consumedCapacity={"memory": amount})
        cache.put_object("ResourceClaim", make_claim(f"c{number}", allocated=[share]))
    a, b, c = signatures(cache)

    assert a == b != c


def test_nodes_with_counters_share_nothing() -> None:
    cache = cluster("x")
    counters = {"slots": {"value": "1"}}
    device = make_device("d0", consumesCounters=[{"counterSet": "all", "counters": counters}])
    sets = [{"name": "all", "counters": counters}]
    for part in (
        make_slice("s0", [device], node="n0", count=2),
        make_slice("s1", node="n0", count=2, sharedCounters=sets),
    ):
        cache.put_object("ResourceSlice", part)

    assert signatures(cache) == [UNSHARED]


def test_a_slice_for_several_nodes_changes_all_of_them() -> None:
    cache = cluster("x", "x")
    before = signatures(cache)
    network = make_slice("net", [make_device("p0", model="x")], pool="net", allNodes=True)
    cache.put_object("ResourceSlice", network)
    a, b = signatures(cache)

    assert a == b
    assert a not in before


def test_the_audit_finds_a_signature_that_does_not_follow_from_the_devices() -> None:
    cache = cluster("x", "x", "y")
    known = cache.snapshot().devices.signatures
    known.read(MODEL)
    same, _, other = signatures(cache)
    assert audit(cache) == []

    rows = [cache.nodes.live_row(name) for name in ("n0", "n2")]
    known.column[rows[1]] = same
    assert any("n2: they share a signature, or should" in problem for problem in audit(cache))
    known.column[rows] = [other, other]
    assert any("they share a signature, or should" in problem for problem in audit(cache))
    known.column[rows] = [UNSHARED, other]
    assert any(problem.startswith("node n0: signature is 0") for problem in audit(cache))
    known.column[rows] = [same, other]
    assert audit(cache) == []


def test_the_log_has_the_rows_with_another_signature_than_before() -> None:
    cache = cluster("x", "x")
    signatures(cache)
    known = cache.snapshot().devices.signatures
    layout, generation = known.layout, known.log.generation
    row = cache.nodes.live_row("n1")

    cache.put_object("ResourceClaim", make_claim("c", allocated=[result_of("d0", "n1")]))
    signatures(cache)
    changed = known.log.since(generation)
    assert changed is not None
    assert (changed[0].tolist(), known.layout) == ([row], layout)

    cache.put_object("ResourceClaim", make_claim("other", allocated=[result_of("d9", "n1")]))
    signatures(cache)
    assert known.log.generation == generation + 1

    cache.remove_node("n1")
    signatures(cache)
    assert known.column[row] == NO_NODE
    assert known.log.generation == generation + 2


def test_a_change_of_all_nodes_starts_a_new_layout() -> None:
    cache = cluster("x", "x")
    signatures(cache)
    known = cache.snapshot().devices.signatures
    layout = known.layout
    cache.put_object("ResourceSlice", make_slice("net", [make_device("p0")], allNodes=True))
    signatures(cache)

    assert known.layout == layout + 1


def test_attributes_that_are_read_already_do_not_start_the_numbers_again() -> None:
    there = cluster("x").snapshot().devices.signatures
    there.read(MODEL | {("gpu.test", "numa")})
    epoch = there.epoch

    there.read(MODEL)
    there.read(frozenset())
    assert there.epoch == epoch
    there.read(frozenset({("gpu.test", "serial")}))
    assert there.epoch == epoch + 1
    assert there.names == MODEL | {("gpu.test", "numa"), ("gpu.test", "serial")}
    there.read(None)
    assert there.epoch == epoch + 2
    assert there.names is None


def test_a_node_whose_pools_cannot_be_read_shares_nothing() -> None:
    cache = cluster("x", "x")
    bad = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["1"]}]}
    selector = {"nodeSelectorTerms": [bad]}
    cache.put_object("ResourceSlice", make_slice("net", pool="net", nodeSelector=selector))

    assert signatures(cache) == [UNSHARED, UNSHARED]


def test_the_meaning_of_a_number_is_what_is_in_use() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.put_node(make_node(name))
        devices = [make_device(f"d{number}") for number in range(4)]
        cache.put_object("ResourceSlice", make_slice(f"s-{name}", devices, node=name))
    amount = {"memory": "1Gi", "cores": "2"}
    used = [result_of("d1", "a"), result_of("d3", "a")]
    share = result_of("d2", "a", shareID="s", consumedCapacity=amount)
    cache.put_object("ResourceClaim", make_claim("c", allocated=[*used, share]))
    numbers = cache.snapshot().devices.signatures
    of_a, of_b = (numbers.usage(number) for number in signatures(cache))

    assert of_a.pools == of_b.pools
    assert (of_a.alone, of_b.alone) == (0b1010, 0)
    assert of_a.shares == ((2, (("cores", 2 * 10**9), ("memory", 2**30 * 10**9))),)
    assert of_b.shares == ()


@pytest.mark.parametrize("listed", [256, 0])
def test_each_number_of_some_nodes_comes_with_one_of_their_rows(
    listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUMBERS_LISTED", listed)
    cache = cluster("x", "x", "y", "z")
    there = cache.snapshot().devices.signatures
    there.read(MODEL)
    x, _, y, z = signatures(cache)
    rows = [cache.nodes.live_row(f"n{number}") for number in range(4)]

    def by_number(*of: int) -> dict[int, int]:
        pairs = there.one_row_of_each(np.array([rows[number] for number in of]) if of else None)
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    assert by_number().keys() == {x, y, z}
    assert by_number()[x] in rows[:2]
    assert (by_number()[y], by_number()[z]) == (rows[2], rows[3])
    assert by_number(0, 2) == {x: rows[0], y: rows[2]}
    assert by_number(1) == {x: rows[1]}

    # The row that got a number last has another now; and one number has no row any more.
    cache.put_object("ResourceSlice", make_slice("s1", [make_device("d0", model="y")], node="n1"))
    cache.remove_node("n3")
    assert signatures(cache) == [x, y, y]
    assert by_number().keys() == {x, y}
    assert by_number()[x] == rows[0]
    assert by_number()[y] in (rows[1], rows[2])
    cache.put_object("ResourceSlice", make_slice("s0", [make_device("d0", model="z")], node="n0"))
    assert signatures(cache) == [z, y, y]
    assert by_number()[z] == rows[0]
    assert by_number().keys() == {y, z}


def test_the_numbers_start_again_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUMBERS_MAX", 3)
    cache = cluster("x", "y")
    there = cache.snapshot().devices.signatures
    there.read(MODEL)
    signatures(cache)
    epoch = there.epoch
    for number in range(1, 4):
        device = make_device("d0", model=f"new-{number}")
        cache.put_object("ResourceSlice", make_slice("s0", [device], node="n0"))
        a, b = signatures(cache)
        assert a != b
        assert there.count <= 5
    assert there.epoch > epoch
    assert audit(cache) == []


def test_the_audit_goes_on_after_a_row_without_a_node() -> None:
    cache = cluster("x", "x", "y")
    there = cache.snapshot().devices.signatures
    there.read(MODEL)
    signatures(cache)
    cache.remove_node("n0")
    same, other = signatures(cache)
    assert same != other
    assert audit(cache) == []

    there.column[cache.nodes.live_row("n2")] = same

    assert any("n2: they share a signature, or should" in problem for problem in audit(cache))
