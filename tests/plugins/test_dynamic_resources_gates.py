"""DynamicResources without some of its gates, and steps of an attempt that have nothing to do."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.dra import ALL_FEATURES
from mooring.errors import PluginError
from mooring.framework import SKIP, NodeError, Reject
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.simulation.offline_claims import OfflineClaims
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import (
    exactly,
    first_of,
    make_claim,
    make_class,
    result_of,
    selectors,
)
from tests.plugins.test_dynamic_resources import Cluster, claiming


def test_alternatives_need_their_gate() -> None:
    features = replace(ALL_FEATURES, has_alternatives=False)
    cache = Cache(features)
    cache.put_node(make_node("a"))
    cache.put_object("DeviceClass", make_class("gpu"))
    for claim in (
        make_claim("plain", exactly()),
        make_claim("mine", exactly("p"), first_of("r", "gpu")),
    ):
        cache.put_object("ResourceClaim", claim)
    harness = Harness([], [DynamicResources(selectors=selectors())])
    harness.cache = cache

    assert harness.begin(claiming("plain")).refusal is None
    refusal = harness.begin(claiming("mine")).refusal
    assert refusal is not None
    assert refusal.reasons == (
        "resource claim default/mine, request r: has subrequests, but the DRAPrioritizedList "
        "feature is disabled",
    )


def test_without_its_gate_binding_conditions_are_neither_read_nor_waited_for() -> None:
    result = result_of("d0", "a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    conditions = [{"type": "broken", "status": "True"}]
    device = {"driver": "gpu.test", "pool": "a", "device": "d0", "conditions": conditions}
    claim = make_claim("mine", exactly(), allocated=[result], on="a", status={"devices": [device]})
    features = replace(ALL_FEATURES, has_binding_conditions=False)
    for cache, is_usable in ((Cache(features), True), (Cache(), False)):
        cache.put_node(make_node("a"))
        cache.put_object("DeviceClass", make_class("gpu"))
        cache.put_object("ResourceClaim", claim)
        handle = OfflineHandle(cache, VirtualClock(), seeded_random(0))
        harness = Harness([], [DynamicResources(handle=handle, selectors=selectors())])
        harness.cache = cache
        reasons = () if is_usable else ("resourceclaim not available on the node",)
        assert harness.reasons(claiming("mine")) == {"a": reasons}


def test_a_node_that_filter_did_not_accept_cannot_be_reserved() -> None:
    there = Cluster(make_claim("mine", exactly()))
    cycle, view, _ = there.harness.begin(claiming("mine"))
    there.plugin.filter(cycle, view)
    attempt = cycle.state_of(there.plugin.name)
    attempt._has_verdicts = False

    status = there.plugin.reserve(cycle, "c")

    assert status == NodeError("claim allocation not found for node")
    assert there.in_use() == set()


def test_an_allocated_claim_needs_no_devices_in_reserve() -> None:
    there = Cluster(make_claim("mine", exactly(), allocated=[result_of("d0", "a")], on="a"))
    cycle, view, _ = there.harness.begin(claiming("mine"))
    there.plugin.filter(cycle, view)

    assert there.plugin.reserve(cycle, "a") is None
    assert there.cache.devices.in_use.all_in_flight() == []
    assert there.plugin.pre_bind_pre_flight(cycle, "a") is None


def test_a_pod_without_claims_has_nothing_to_reserve_or_to_bind() -> None:
    there = Cluster()
    cycle, _, _ = there.harness.begin(make_pod("plain"))

    assert there.plugin.reserve(cycle, "a") is None
    there.plugin.unreserve(cycle, "a")
    assert there.plugin.pre_bind_pre_flight(cycle, "a") is SKIP
    assert run_to_end(there.plugin.pre_bind(cycle, "a")) is None


def test_scores_count_the_devices_of_claims_that_are_allocated_already() -> None:
    alternatives = first_of("r", "on-b", "gpu")
    taken = make_claim(
        "taken", alternatives, allocated=[{**result_of("d0", "b"), "request": "r/gpu"}]
    )
    there = Cluster(taken, make_claim("mine", alternatives))

    decision = there.harness.decide(claiming("taken", "mine")).decision

    # 7 for the second alternative of the allocated claim; 7 on a, and 8 on b for the other one.
    assert decision.raw is not None
    assert decision.raw["DynamicResources"] == {"a": 14, "b": 15}


def test_an_allocation_with_a_broken_node_selector_is_an_error() -> None:
    there = Cluster()
    claim = make_claim("mine", exactly(), allocated=[result_of("d0", "a")], on="a")
    allocation = claim.status.allocation
    assert allocation is not None
    assert allocation.node_selector is not None
    (term,) = allocation.node_selector.node_selector_terms
    (field,) = term.match_fields
    broken = msgspec.structs.replace(
        allocation.node_selector,
        node_selector_terms=(
            msgspec.structs.replace(
                term, match_fields=(msgspec.structs.replace(field, operator="Near"),)
            ),
        ),
    )
    allocation = msgspec.structs.replace(allocation, node_selector=broken)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    there.put(msgspec.structs.replace(claim, status=status))

    with pytest.raises(PluginError) as caught:
        there.harness.begin(claiming("mine"))

    assert str(caught.value).startswith('running PreFilter plugin "DynamicResources": ')
    assert "Near" in str(caught.value)


def test_the_alternatives_of_each_claim_are_its_own() -> None:
    claims = [
        make_claim("one", first_of("r", "on-b", "gpu")),
        make_claim("two", first_of("r", "gpu", "on-b")),
    ]

    decision = Cluster(*claims).harness.decide(claiming("one", "two")).decision

    assert decision.raw is not None
    assert decision.raw["DynamicResources"] == {"a": 7 + 8, "b": 8 + 8}


# ---------------------------------------------------------------- PostFilter and Unreserve


def elsewhere(name: str, *users: str) -> ResourceClaim:
    """Returns a claim that is allocated on a node that does not exist, for these pods."""
    reserved = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    allocated = [result_of("d0", f"of-{name}")]
    status = {"reservedFor": reserved}
    return make_claim(name, exactly(), allocated=allocated, on="gone", status=status)


@pytest.mark.parametrize(
    ("users", "freed"),
    [
        (((), ()), "one"),
        ((("u-other",), ()), "two"),
        ((("u-other",), ("u-new",)), "two"),
        ((("u-new",), ("u-other",)), "one"),
        ((("u-other",), ("u-other",)), None),
    ],
)
def test_the_first_claim_that_others_do_not_use_is_freed(
    users: tuple[tuple[str, ...], ...], freed: str | None
) -> None:
    claims = [elsewhere(name, *of) for name, of in zip(("one", "two"), users, strict=True)]
    there = Cluster(*claims)

    result = there.post_filter(claiming("one", "two"))

    change = result.claim_change
    assert (None if change is None else change.claim.metadata.name) == freed
    assert change is None or not change.is_deletion


def test_a_special_claim_that_no_node_can_use_is_deleted_and_not_freed() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "u-new", "controller": True}
    stale = make_claim(
        "new-extended-resources-x",
        exactly(),
        allocated=[result_of("d0", "x")],
        on="gone",
        annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
        ownerReferences=[owner],
    )
    there = Cluster(make_class("ext", resource="example.com/gpu"), stale)
    pod = make_pod("new", uid="u-new", requests={"example.com/gpu": "1"})

    result = there.post_filter(pod)

    assert result.status == Reject("deletion of ResourceClaim completed")
    assert result.claim_change is not None
    assert (result.claim_change.claim, result.claim_change.is_deletion) == (stale, True)


def test_a_special_claim_in_memory_is_not_deleted() -> None:
    there = Cluster(make_class("ext", resource="example.com/gpu"))
    pod = make_pod("new", uid="u-new", requests={"example.com/gpu": "9"})

    result = there.post_filter(pod)

    assert result.status == Reject("still not schedulable")
    assert result.claim_change is None


class TakingBack(OfflineClaims):
    """A writer that lists what is taken back."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.taken_back: list[str] = []

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        self.taken_back.append(f"{pod.metadata.name} from {claim.metadata.name}")

    def delete(self, claim: ResourceClaim) -> None:
        self.taken_back.append(f"delete of {claim.metadata.name.rpartition('-')[0]}")


def test_reservations_for_the_pod_are_taken_back_and_its_special_claim_is_deleted_once() -> None:
    there = Cluster(
        make_class("ext", resource="example.com/gpu"),
        make_claim("first", exactly()),
        make_claim("other", exactly(), allocated=[result_of("d1", "b")], on="b"),
    )
    writer = there.handle.claim_writer = TakingBack(there.cache)
    claims = [{"name": name, "resourceClaimName": name} for name in ("first", "other")]
    pod = make_pod(
        "new",
        uid="u-new",
        requests={"example.com/gpu": "1"},
        spec={"resourceClaims": claims[:1]},
    )
    cycle = there.reserve(pod, "a")
    there.plugin.unreserve(cycle, "a")
    assert writer.taken_back == []  # nothing was written yet

    cycle = there.reserve(pod, "a")
    run_to_end(there.plugin.pre_bind(cycle, "a"))
    there.plugin.unreserve(cycle, "a")
    assert writer.taken_back == ["new from first", "delete of new-extended-resources"]
    there.plugin.unreserve(cycle, "a")
    assert writer.taken_back.count("delete of new-extended-resources") == 1
