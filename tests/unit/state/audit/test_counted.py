"""The audit of devices, terms and counters: damage is reported with its place, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.dra import DeviceID, TargetNode
from mooring.objects.selectors import Selector, requirement, selector_of
from mooring.state import PodInfo, audit
from mooring.state.audit.devices import audit_devices
from mooring.state.cache import Cache
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.state.tables.counters import CounterKey
from mooring.testing import cluster, make_node, make_pod
from tests.helpers.devices import make_claim, make_device, make_slice, result_of
from tests.plugins.affinity_clusters import avoids, namespace, near, wants, web

D0, D1, D2 = (DeviceID("gpu.test", "a", f"d{number}") for number in range(3))
SHARED = DeviceID("gpu.test", "a", "shared")
WEB = selector_of([requirement("app", "In", ("web",))])
KEY = CounterKey(frozenset({"default"}), WEB, with_terminating=False)


def healthy() -> Cache:
    """Returns a cluster with devices in use, terms of both sorts, and a counter."""
    cache = cluster(make_node("a"), make_node("b"))
    devices = [make_device(name) for name in ("d0", "d1", "d2", "shared")]
    cache.put_object("ResourceSlice", make_slice("s", devices, node="a"))
    share = result_of("shared", "a", shareID="s1", consumedCapacity={"memory": "2"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    for claim in (
        make_claim("c", allocated=[result_of("d0", "a"), share]),
        make_claim("admin", allocated=[result_of("d2", "a", adminAccess=True)]),
        make_claim(
            "special",
            annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
            ownerReferences=[owner],
        ),
    ):
        cache.put_object("ResourceClaim", claim)
    cache.devices.slices.pools(TargetNode("a", {}))
    for name, affinity in (("one", avoids(near())), ("two", wants(near("rack")))):
        cache.put_pod(web(name, affinity, node="a"))
    cache.counters.counter(KEY)
    cache.put_object("Namespace", namespace("red", {"team": "a"}))
    cache.put_object("Namespace", namespace("blue", {}))
    cache.namespaces.selected_by(selector_of([requirement("team", "In", ("a",))]))
    return cache


def in_use(cache: Cache) -> None:
    cache.devices.in_use._all_dedicated.discard(D0)


def in_use_with_admin_access(cache: Cache) -> None:
    cache.devices.in_use._all_dedicated.add(D2)


def shared_device(cache: Cache) -> None:
    cache.devices.in_use._all_shared.add(D1)


def consumed_amount(cache: Cache) -> None:
    cache.devices.in_use._all_consumed[SHARED]["memory"] += 1


def consumed_device(cache: Cache) -> None:
    cache.devices.in_use._all_consumed[D1] = {"memory": 1}


def cached_pools(cache: Cache) -> None:
    slices = cache.devices.slices
    ((node, _),) = slices.cached()
    slices._pools[node.name] = node.labels, slices.gather(TargetNode("b", {}))


def owner_of_claim(cache: Cache) -> None:
    cache.devices.claims._of_pod["other"] = {"default/special": None}


def term_rows(cache: Cache) -> None:
    (shared,) = cache.terms.affinity
    shared.rows.change(cache.nodes.row("b"), 2)


def term_without_pods(cache: Cache) -> None:
    (shared,) = cache.terms.affinity
    shared.rows.change(cache.nodes.row("a"), -1)


def set_of_terms(cache: Cache) -> None:
    terms, term_set = next(iter(cache.terms._sets.items()))
    cache.terms._sets[terms._replace(problems=("x",))] = term_set


def counter_row(cache: Cache) -> None:
    cache.counters.counter(KEY).change(cache.nodes.row("b"), 1)


def counter_length(cache: Cache) -> None:
    counter = cache.counters.counter(KEY)
    counter.set_all(np.array(counter.counts)[:-1])


def selected_namespaces(cache: Cache) -> None:
    ((selector, names),) = cache.namespaces.selections()
    cache.namespaces._selected[selector] = names | {"blue"}


def test_a_cluster_in_order_has_no_problems() -> None:
    assert audit(healthy()) == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (in_use, f"devices in use are [], should be [{tuple(D0)}]"),
        (in_use_with_admin_access, f"devices in use are [{D0!r}, {D2!r}], should be "),
        (shared_device, f"shared devices in use are [{D1!r}, {SHARED!r}], should be "),
        (
            consumed_amount,
            f"device {tuple(SHARED)}: consumed is {{'memory': 2000000001}}, should be "
            "{'memory': 2000000000}",
        ),
        (consumed_device, "devices with consumed capacity are ["),
        (cached_pools, "pools of node a are [], should be [('gpu.test/a', "),
        (owner_of_claim, "pods with claims for extended resources are {"),
        (term_rows, "affinity term "),
        (term_without_pods, "affinity term "),
        (set_of_terms, "3 sets of terms, should be 2"),
        (counter_row, f"counter {KEY}: rows have {{0: 2, 1: 1}}, should have {{0: 2}}"),
        (counter_length, f"counter {KEY}: 63 rows of 64"),
        (selected_namespaces, "namespaces selected by "),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_damage_of_what_is_counted_is_reported(
    damage: Callable[[Cache], None], problem: str
) -> None:
    cache = healthy()

    damage(cache)

    (reported,) = audit(cache)
    assert reported.startswith(problem)


def test_pods_whose_terms_are_not_those_of_their_spec_are_reported() -> None:
    cache = healthy()
    placed = cache.pods.get(web("one").metadata.uid)
    assert placed is not None

    placed.info = PodInfo(web("one", avoids(near("other")), node="a"))  # behind the table's back

    assert any(
        problem == "pod default/one: its terms are not those of its spec"
        for problem in audit(cache)
    )


def test_a_device_of_two_claims_is_not_compared() -> None:
    cache = healthy()
    for name in ("one", "two"):
        share = result_of("d1", "a", shareID="same")
        claim = make_claim(name, allocated=[result_of("d2", "a"), share])
        cache.put_object("ResourceClaim", claim)
    assert audit_devices(cache.devices) == []

    cache.remove_object("ResourceClaim", "default/one")  # frees the device and the share

    assert audit_devices(cache.devices) != []
    cache.remove_object("ResourceClaim", "default/two")
    assert audit_devices(cache.devices) == []
    for name in ("one", "two", "three"):
        claim = make_claim(name, allocated=[result_of("d2", "a")])
        cache.put_object("ResourceClaim", claim)
    cache.remove_object("ResourceClaim", "default/two")  # frees it, and two claims have it
    assert audit_devices(cache.devices) == []


def test_more_counters_than_the_limit_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cluster(make_node("a"), make_pod("p", node="a"))
    keys = [CounterKey(None, Selector(), with_terminating=flag) for flag in (True, False)]
    for key in keys:
        cache.counters.counter(key)
    limit: Any = property(lambda _: 1)
    monkeypatch.setattr(type(cache.counters), "limit", limit)

    assert audit(cache) == ["2 counters, at most 1"]
