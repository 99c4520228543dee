"""Nodes have equal signatures if a search cannot tell them apart."""

from __future__ import annotations

import numpy as np

from mooring.state.audit import audit
from mooring.state.cache import Cache
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
