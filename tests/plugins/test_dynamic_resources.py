"""DynamicResources, point by point; its decisions as a whole are compared in ``tests/parity``."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.cluster_event import ActionType, QueueingHint
from mooring.config import default_configuration
from mooring.dra import DeviceID
from mooring.errors import PluginError
from mooring.framework import Code, Reject
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod
from mooring.objects.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.binding_conditions import Readiness, readiness_of
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.simulation.driver import Driver
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.state import PodInfo, audit
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.testing import Harness, check_conformance, make_node, make_pod
from tests.helpers.devices import (
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
    selectors,
)
from tests.plugins.reference_plugins import hints

GPU = "example.com/gpu"
NODES = ("a", "b", "c")
DEVICES = ("d0", "d1")


def slices() -> list[ResourceSlice]:
    return [
        make_slice(f"gpu-{node}", [make_device(name, model=node) for name in DEVICES], node=node)
        for node in NODES[:2]
    ]


class Cluster:
    """Three nodes, two of them with two devices each; the plugin reads it through its handle."""

    def __init__(
        self, *objects: Any, before: Any = None, handle_type: type[OfflineHandle] = OfflineHandle
    ) -> None:
        nodes = [make_node(name) for name in NODES]
        self.harness = Harness(nodes, [])
        self.cache = self.harness.cache
        self.clock = VirtualClock()
        self.handle = handle_type(self.cache, self.clock, seeded_random(1))
        self.plugin = DynamicResources(handle=self.handle, selectors=selectors())
        plugins = [before, self.plugin] if before else [self.plugin]
        self.harness = Harness(nodes, plugins)
        self.harness.cache = self.cache
        for obj in (make_class("gpu"), make_class("on-b", "model=b"), *slices(), *objects):
            self.put(obj)

    def put(self, obj: DeviceClass | ResourceClaim | ResourceSlice) -> None:
        self.cache.put_object(type(obj).__name__, obj)

    def cycle(self, pod: Pod) -> Any:
        return self.harness.begin(pod).cycle

    def reserve(self, pod: Pod, node: str) -> Any:
        self.harness.statuses(pod, self.plugin)
        cycle, view, _ = self.harness.begin(pod)
        self.plugin.filter(cycle, view)
        assert self.plugin.reserve(cycle, node) is None
        return cycle

    def post_filter(self, pod: Pod) -> PostFilterResult:
        cycle, view, _ = self.harness.begin(pod)
        self.plugin.filter(cycle, view)
        return self.plugin.post_filter(cycle, self.harness.diagnose(pod))  # type: ignore[arg-type]

    def in_use(self) -> set[DeviceID]:
        return set(self.cache.snapshot().devices.allocated.dedicated)


def claiming(*names: str, pod: str = "new", **fields: Any) -> Pod:
    claims = [{"name": name, "resourceClaimName": name} for name in names]
    return make_pod(pod, uid=f"u-{pod}", spec={"resourceClaims": claims}, **fields)


def refused(reason: str) -> dict[str, Any]:
    return {"code": Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "reasons": (reason,)}


# ---------------------------------------------------------------- claims of the pod


TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "u-new", "controller": True}


def generated(name: str | None) -> Pod:
    entry = {"name": "gpu"} if name is None else {"name": "gpu", "resourceClaimName": name}
    return make_pod("new", uid="u-new", spec=TEMPLATE, status={"resourceClaimStatuses": [entry]})


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (claiming("none"), 'could not find ResourceClaim "default/none"'),
        (claiming("ends"), 'resourceclaim "ends" is being deleted'),
        (make_pod("new", spec=TEMPLATE), 'pod "default/new": ResourceClaim not created yet'),
        (
            make_pod("new", spec={"resourceClaims": [{"name": "gpu"}]}),
            'pod "default/new", spec.resourceClaim "gpu": none of the supported fields are set',
        ),
        (
            generated("other"),
            "ResourceClaim default/other was not created for Pod default/new (Pod is not owner)",
        ),
        (claiming("mine"), None),
        (generated("own"), None),
        (generated(None), None),
        (make_pod("new"), None),
    ],
)
def test_a_pod_is_gated_until_it_has_its_claims(pod: Pod, text: str | None) -> None:
    there = Cluster(
        make_claim("mine", exactly()),
        make_claim("ends", exactly(), deletionTimestamp="2026-01-01T00:00:00Z"),
        make_claim("other", exactly()),
        make_claim("own", exactly(), ownerReferences=[OWNER]),
    )

    status = there.plugin.pre_enqueue(PodInfo(pod))

    assert status == (None if text is None else Reject(text, resolvable=False))


# ---------------------------------------------------------------- PreFilter, Filter


def test_a_pod_without_claims_is_not_filtered_and_scores_0_everywhere() -> None:
    there = Cluster()

    assert "DynamicResources" in there.cycle(make_pod()).skipped
    assert there.harness.raw_scores(make_pod()) == dict.fromkeys(NODES, 0)


def test_nodes_with_free_devices_are_feasible() -> None:
    taken = make_claim("taken", exactly(), allocated=[result_of("d1", "a")])
    there = Cluster(make_claim("mine", exactly(count=2)), taken)

    assert there.harness.reasons(claiming("mine")) == {
        "a": ("cannot allocate all claims",),
        "b": (),
        "c": ("cannot allocate all claims",),
    }


def test_an_allocated_claim_is_available_where_its_devices_are() -> None:
    there = Cluster(make_claim("mine", exactly(), allocated=[result_of("d0", "b")], on="b"))

    assert there.harness.reasons(claiming("mine")) == {
        "a": ("resourceclaim not available on the node",),
        "b": (),
        "c": ("resourceclaim not available on the node",),
    }


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (exactly(device_class="none"), "request r: device class none does not exist"),
        (first_of("r", "gpu", "none"), "request r/none: device class none does not exist"),
        ({"name": "r"}, "resource claim default/mine, request r: unknown request type"),
    ],
)
def test_pre_filter_rejects_claims_that_cannot_be_allocated(request_: Any, text: str) -> None:
    status = Cluster(make_claim("mine", request_)).harness.begin(claiming("mine")).refusal

    assert status is not None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def test_a_request_without_a_class_is_an_error() -> None:
    there = Cluster(make_claim("mine", exactly(device_class="")))

    with pytest.raises(PluginError, match="request r: unsupported request type"):
        there.harness.begin(claiming("mine"))


def test_an_error_of_a_selector_ends_the_attempt() -> None:
    there = Cluster(make_claim("mine", exactly(selectors=[{"cel": {"expression": "color=red"}}])))

    with pytest.raises(PluginError) as caught:
        there.harness.decide(claiming("mine"))

    assert str(caught.value) == (
        'running "DynamicResources" filter plugin: '
        "claim default/mine: selector #0: CEL runtime error: no such key: color"
    )


@pytest.mark.parametrize(
    ("conditions", "elapsed_s", "is_available"),
    [
        ([], 0, True),
        ([("ready", "True")], 10_000, True),
        ([("ready", "False")], 0, True),
        ([], 601, False),
        ([("ready", "True"), ("broken", "True")], 0, False),
    ],
    ids=["waits", "ready", "not ready", "timed out", "failed"],
)
def test_binding_conditions_decide_about_an_allocated_claim(
    conditions: list[tuple[str, str]], elapsed_s: int, is_available: bool
) -> None:
    result = result_of("d0", "a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    claim = make_claim("mine", exactly(), allocated=[result], on="a")
    reported = [{"type": name, "status": value} for name, value in conditions]
    device = {"driver": "gpu.test", "pool": "a", "device": "d0", "conditions": reported}
    document_status = {"devices": [device]} if conditions else {}
    claim = make_claim("mine", exactly(), allocated=[result], on="a", status=document_status)
    there = Cluster()
    there.put(with_timestamp(claim, "2026-01-01T00:00:00Z"))
    there.clock.advance(elapsed_s)

    assert (there.harness.reasons(claiming("mine"))["a"] == ()) is is_available


def with_timestamp(claim: ResourceClaim, text: str) -> ResourceClaim:
    from msgspec.structs import replace

    assert claim.status.allocation is not None
    allocation = replace(claim.status.allocation, allocation_timestamp=text)
    return replace(claim, status=replace(claim.status, allocation=allocation))


# ---------------------------------------------------------------- PostFilter


class Refuser:
    """Refuses every pod before DynamicResources sees it, or every node after."""

    name = "Refuser"

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def pre_filter(self, cycle: Any) -> Any:
        return Reject("no", resolvable=False) if self.at_once else Reject("no")


@pytest.mark.parametrize(
    ("at_once", "text"), [(False, "no new claims to deallocate"), (True, "not found")]
)
def test_post_filter_adds_its_text_to_the_message(at_once: bool, text: str) -> None:
    there = Cluster(before=Refuser(at_once=at_once)).harness
    cycle, _, refusal = there.begin(make_pod())
    diagnosis: Any = there.diagnose(make_pod())
    assert refusal is not None

    post_filter(there.framework, cycle, diagnosis)

    assert diagnosis.message == f"0/3 nodes are available: no. {text}"


@pytest.mark.parametrize(
    ("users", "text"),
    [
        ([], "deallocation of ResourceClaim completed"),
        (["u-new"], "deallocation of ResourceClaim completed"),
        (["u-other"], "still not schedulable"),
        (["u-new", "u-other"], "still not schedulable"),
    ],
)
def test_a_claim_that_no_node_can_use_is_deallocated_unless_others_use_it(
    users: list[str], text: str
) -> None:
    reserved = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    claim = make_claim(
        "mine",
        exactly(),
        allocated=[result_of("d0", "x")],
        on="gone",
        status={"reservedFor": reserved},
    )
    there = Cluster(claim)

    result = there.post_filter(claiming("mine"))

    assert result.status is not None
    assert result.status.reasons == (text,)
    assert (result.claim_change is not None) is (text != "still not schedulable")


def test_without_devices_for_another_claim_an_unavailable_claim_is_not_deallocated() -> None:
    elsewhere = make_claim("elsewhere", exactly(), allocated=[result_of("d0", "x")], on="gone")
    there = Cluster(elsewhere, make_claim("large", exactly(count=3)))
    pod = claiming("elsewhere", "large")

    statuses = there.harness.statuses(pod, there.plugin)
    result = there.post_filter(pod)

    reasons = {status.reasons for status in statuses.values() if status is not None}
    assert reasons == {("cannot allocate all claims",)}
    assert result.status is not None
    assert result.status.reasons == ("still not schedulable",)


# ---------------------------------------------------------------- Score


def test_earlier_alternatives_score_higher() -> None:
    there = Cluster(make_claim("mine", first_of("r", "on-b", "gpu")))

    decision = there.harness.decide(claiming("mine")).decision

    assert decision.raw is not None
    assert decision.scores is not None
    assert decision.raw["DynamicResources"] == {"a": 7, "b": 8}
    assert decision.scores["DynamicResources"] == {"a": 87, "b": 100}


def test_the_alternatives_of_all_claims_are_added_up() -> None:
    claims = [make_claim(name, first_of("r", "on-b", "gpu")) for name in ("one", "two")]

    decision = Cluster(*claims).harness.decide(claiming("one", "two")).decision

    assert decision.raw is not None
    assert decision.raw["DynamicResources"] == {"a": 14, "b": 16}


# ---------------------------------------------------------------- Reserve, PreBind


def test_the_second_claim_of_a_pod_may_be_in_flight_for_another_pod() -> None:
    there = Cluster(make_claim("first", exactly()), make_claim("mine", exactly()))
    there.reserve(claiming("mine"), "a")

    refusal = there.harness.begin(claiming("first", "mine")).refusal

    assert refusal is not None
    assert refusal.reasons == ("resource claim default/mine is in the process of being allocated",)


@pytest.mark.parametrize(
    ("status", "readiness"),
    [
        ("True", Readiness.READY),
        ("Unknown", Readiness.WAITING),
        ("False", Readiness.WAITING),
    ],
)
def test_a_binding_condition_counts_only_if_it_is_true(status: str, readiness: Readiness) -> None:
    condition = {"type": "ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    reported = {"driver": "gpu.test", "pool": "a", "device": "d0", "conditions": [condition]}
    result = result_of("d0", "a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    claim = make_claim("mine", exactly(), allocated=[result], status={"devices": [reported]})

    assert readiness_of(claim) is readiness


def test_reserved_devices_are_in_use_until_unreserve() -> None:
    there = Cluster(make_claim("mine", exactly()), make_claim("next", exactly(count=2)))
    cycle = there.reserve(claiming("mine"), "a")
    assert there.in_use() == {DeviceID("gpu.test", "a", "d0")}
    assert there.harness.reasons(claiming("next"))["a"] == ("cannot allocate all claims",)
    refusal = there.harness.begin(claiming("mine")).refusal
    assert refusal is not None
    assert refusal.reasons == ("resource claim default/mine is in the process of being allocated",)

    there.plugin.unreserve(cycle, "a")
    there.plugin.unreserve(cycle, "a")
    assert there.in_use() == set()
    assert there.harness.reasons(claiming("next"))["a"] == ()
    assert audit(there.cache) == []


def test_pre_bind_writes_the_allocation_and_the_user() -> None:
    there = Cluster(make_claim("mine", exactly()))
    cycle = there.reserve(claiming("mine"), "b")

    run_to_end(there.plugin.pre_bind(cycle, "b"))

    claim = there.cache.devices.claims.get("default/mine")
    assert claim is not None
    assert claim.status.allocation is not None
    (result,) = claim.status.allocation.devices.results
    assert (result.pool, result.device) == ("b", "d0")
    assert [user.uid for user in claim.status.reserved_for] == ["u-new"]
    assert claim.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert there.cache.devices.in_use.all_in_flight() == []
    assert audit(there.cache) == []


def test_without_a_writer_a_pod_with_claims_is_not_bound() -> None:
    there = Cluster(make_claim("mine", exactly()))
    cycle = there.reserve(claiming("mine"), "a")
    plugin = DynamicResources(selectors=selectors())

    with pytest.raises(PluginError, match="allocations of resource claims cannot be written"):
        run_to_end(plugin.pre_bind(cycle, "a"))


def test_the_offline_scheduler_allocates_frees_and_shares_devices() -> None:
    nodes = [make_node(name) for name in NODES]
    claims = [make_claim(f"c{number}", exactly()) for number in range(5)]
    driver = Driver(
        [*nodes, make_class("gpu"), *slices(), *claims],
        config=default_configuration(),
        rng=seeded_random(1),
        clock=VirtualClock(),
    )

    def schedule(name: str, *claim_names: str) -> str | None:
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claim_names]
        pod = make_pod(name, uid=name, spec={"resourceClaims": entries})
        return driver.apply(driver.attempt(pod)).node

    placed = [schedule(f"p{number}", f"c{number}") for number in range(5)]
    assert sorted(node for node in placed if node) == ["a", "a", "b", "b"]
    assert placed[4] is None
    assert schedule("also", "c0") == placed[0]
    assert audit(driver.cache) == []


# ---------------------------------------------------------------- extended resources


def wanting(amount: str = "1", resource: str = GPU) -> Pod:
    return make_pod("new", uid="u-new", requests={resource: amount})


def test_an_extended_resource_of_a_class_is_provided_by_devices_where_no_plugin_does() -> None:
    there = Cluster(make_class("ext", resource=GPU))
    there.cache.put_node(make_node("c", allocatable={GPU: 1}))

    assert there.harness.reasons(wanting("2")) == {
        "a": (),
        "b": (),
        "c": (),
    }
    assert there.harness.reasons(wanting("3"))["a"] == ("cannot allocate all claims",)


def test_node_resources_fit_leaves_out_what_devices_provide() -> None:
    nodes = [make_node("a", allocatable={"cpu": "1"}), make_node("b", allocatable={GPU: 1})]
    there = Harness(nodes, [NodeResourcesFit()])
    assert there.reasons(wanting("2")) == {
        "a": (f"Insufficient {GPU}",),
        "b": (f"Insufficient {GPU}",),
    }

    there.cache.put_object("DeviceClass", make_class("ext", resource=GPU))
    assert there.reasons(wanting("2")) == {"a": (), "b": (f"Insufficient {GPU}",)}


def test_a_node_that_grew_helps_a_pod_whose_resource_devices_provide() -> None:
    there = Cluster()
    hint = hints(NodeResourcesFit(handle=there.handle))[
        "Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
    ]
    small, large = (make_node("a", allocatable={"cpu": cpu}) for cpu in ("1", "4"))
    pod = PodInfo(make_pod("new", requests={"cpu": "2", GPU: "1"}))
    assert hint(pod, small, large) is QueueingHint.SKIP

    there.put(make_class("ext", resource=GPU))
    assert hint(pod, small, large) is QueueingHint.QUEUE
    assert hint(pod, small, small) is QueueingHint.SKIP


def test_the_special_claim_has_the_requests_of_the_containers() -> None:
    there = Cluster(make_class("ext", resource=GPU))
    pod = wanting("2")
    cycle = there.reserve(pod, "a")
    assert there.in_use() == {DeviceID("gpu.test", "a", name) for name in DEVICES}

    run_to_end(there.plugin.pre_bind(cycle, "a"))

    claim = there.cache.devices.claims.for_extended_resources("new", "u-new")
    assert claim is not None
    assert claim.metadata.annotations == {EXTENDED_RESOURCE_ANNOTATION: "true"}
    (request,) = claim.spec.devices.requests
    assert request.name == "container-0-request-0"
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count) == ("ext", 2)
    assert audit(there.cache) == []


def test_the_special_claim_of_an_earlier_attempt_is_deleted() -> None:
    stale = make_claim(
        "new-extended-resources-x",
        exactly(),
        annotations={EXTENDED_RESOURCE_ANNOTATION: "true"},
        ownerReferences=[OWNER],
    )
    there = Cluster(make_class("ext", resource=GPU), stale)
    assert set(there.harness.reasons(wanting()).values()) == {
        ("cannot schedule extended resource claim",)
    }

    result = there.post_filter(wanting())

    assert result.status is not None
    assert result.status.reasons == ("deletion of ResourceClaim completed",)
    assert result.claim_change == (stale, True)


def test_results_of_equal_pods_are_shared_only_while_nothing_stands_for_devices() -> None:
    there = Cluster()
    assert there.plugin.sign(PodInfo(wanting())) == ()
    assert there.plugin.sign(PodInfo(claiming("mine"))) is None

    there.put(make_class("ext", resource=GPU))
    assert there.plugin.sign(PodInfo(wanting())) is None
    assert there.plugin.sign(PodInfo(wanting("0"))) == ()


def test_it_keeps_the_contract() -> None:
    check_conformance(DynamicResources())


# ---------------------------------------------------------------- events

CLAIM_CHANGED = ("resource.k8s.io/ResourceClaim", ActionType.ADD | ActionType.UPDATE)
POD_CHANGED = ("Pod", ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
ALLOCATED = [result_of("d0", "a")]


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (make_claim("x", allocated=ALLOCATED), make_claim("x"), True),
        (make_claim("x"), make_claim("x", allocated=ALLOCATED), False),
        (None, make_claim("x"), False),
        (None, make_claim("mine"), True),
        (make_claim("mine"), make_claim("mine"), False),
        (make_claim("mine"), make_claim("mine", allocated=ALLOCATED), True),
    ],
    ids=["freed", "taken", "added", "own", "own, the same", "own, allocated"],
)
def test_claims_that_help(old: ResourceClaim | None, new: ResourceClaim, helps: bool) -> None:
    there = Cluster(make_claim("mine"))
    hint = hints(there.plugin)[CLAIM_CHANGED]

    assert (hint(PodInfo(claiming("mine")), old, new) is QueueingHint.QUEUE) is helps
    assert hint(PodInfo(claiming("none")), old, new) is QueueingHint.SKIP


def test_the_pod_is_requeued_when_it_has_its_claims() -> None:
    there = Cluster(make_claim("own", exactly(), ownerReferences=[OWNER]))
    hint = hints(there.plugin)[POD_CHANGED]
    pod = PodInfo(make_pod("new", uid="u-new", spec=TEMPLATE))

    assert hint(pod, pod.pod, generated("own")) is QueueingHint.QUEUE
    assert hint(pod, pod.pod, generated("absent")) is QueueingHint.SKIP
    assert hint(pod, pod.pod, make_pod("other", uid="u-other")) is QueueingHint.SKIP


def test_nodes_classes_and_slices_always_help() -> None:
    always = {at for at, hint in hints(Cluster().plugin).items() if hint is None}

    change = ActionType.ADD | ActionType.UPDATE
    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    assert always == {
        ("Node", node),
        ("resource.k8s.io/DeviceClass", change),
        ("resource.k8s.io/ResourceSlice", change),
    }


def test_unreserve_returns_to_the_version_that_the_api_server_reported() -> None:
    reported = make_claim("mine", exactly(), resourceVersion="1")
    there = Cluster(reported)
    claims = there.cache.devices.claims
    claims.assume(make_claim("mine", exactly(), resourceVersion="2"))
    cycle = there.reserve(claiming("mine"), "a")
    assert there.in_use() == {DeviceID("gpu.test", "a", "d0")}

    there.plugin.unreserve(cycle, "a")

    assert claims.get("default/mine") is reported
    assert there.in_use() == set()
