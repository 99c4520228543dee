"""DynamicResources: pods without devices pass unharmed, pods that ask for some are refused."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code, Reject
from mooring.framework.runtime.post_filter import post_filter
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.resource import DeviceClass
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.state import PodInfo
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.testing import Harness, check_conformance, make_node, make_pod
from tests.plugins.reference_plugins import hints

CLAIMS = "DynamicResources cannot allocate devices yet, and the pod has resource claims"
GPU = "example.com/gpu"
STANDS_FOR = "DynamicResources cannot allocate devices yet, and {} stands for device class {}"
CLAIMING = make_pod("new", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    spec = {"extendedResourceName": resource} if resource else {}
    found: DeviceClass = convert({"metadata": {"name": name}, "spec": spec}, "DeviceClass")
    return found


def harness(*classes: DeviceClass, before: Any = None) -> Harness:
    nodes = [make_node(name, allocatable={GPU: 4}) for name in ("a", "b")]
    plugins = [before, DynamicResources()] if before else [DynamicResources()]
    there = Harness(nodes, plugins)
    for each in classes:
        there.cache.put_object("DeviceClass", each)
    return there


def wanting(resource: str, amount: str = "1") -> Pod:
    return make_pod("new", requests={resource: amount})


# ---------------------------------------------------------------- pods without devices


def test_a_pod_without_claims_is_not_filtered_and_scores_0_everywhere() -> None:
    there = harness()
    cycle, _ = there.open(make_pod())

    assert "DynamicResources" in cycle.skipped
    assert there.raw_scores(make_pod()) == there.scores(make_pod()) == {"a": 0, "b": 0}


def test_an_extended_resource_that_stands_for_no_class_is_none_of_its_business() -> None:
    there = harness(device_class("tpu", "example.com/tpu"))

    assert there.begin(wanting(GPU)).refusal is None
    assert there.begin(wanting("deviceclass.resource.kubernetes.io/gpu")).refusal is None
    assert there.begin(wanting("example.com/tpu", "0")).refusal is None
    assert there.begin(wanting("cpu")).refusal is None


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
    there = harness(before=Refuser(at_once=at_once))
    cycle, _, refusal = there.begin(make_pod())
    diagnosis: Any = there.diagnose(make_pod())
    assert refusal is not None

    post_filter(there.framework, cycle, diagnosis)

    assert diagnosis.message == f"0/2 nodes are available: no. {text}"


# ---------------------------------------------------------------- pods with devices


def test_a_pod_with_claims_is_refused_everywhere_and_told_why() -> None:
    decided = harness().decide(CLAIMING)

    assert decided.node is None
    assert decided.message == f"0/2 nodes are available: {CLAIMS}."
    assert decided.decision.unschedulable_plugins == ("DynamicResources",)
    assert decided.decision.prefilter is not None
    assert decided.decision.prefilter.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE.value


@pytest.mark.parametrize(
    "resource", [GPU, "deviceclass.resource.kubernetes.io/gpu"], ids=["named", "implicit"]
)
def test_a_resource_that_stands_for_a_class_is_refused_even_where_a_node_has_it(
    resource: str,
) -> None:
    status = harness(device_class("gpu", GPU)).begin(wanting(resource)).refusal

    assert status is not None
    assert status.message == STANDS_FOR.format(resource, "gpu")


def test_what_was_shared_with_an_equal_pod_does_not_outlive_a_new_class() -> None:
    there = harness()
    assert there.decide(wanting(GPU)).node == "a"

    there.cache.put_object("DeviceClass", device_class("gpu", GPU))
    assert there.decide(wanting(GPU)).node is None
    there.cache.remove_object("DeviceClass", "gpu")
    assert there.decide(wanting(GPU)).node == "a"


def test_pods_are_alike_by_what_may_be_devices() -> None:
    sign = DynamicResources().sign

    assert sign(PodInfo(make_pod("a"))) == sign(PodInfo(wanting("cpu"))) == ()
    assert sign(PodInfo(wanting(GPU, "0"))) == ()
    assert sign(PodInfo(wanting(GPU, "1"))) == sign(PodInfo(wanting(GPU, "2"))) == (GPU,)
    assert sign(PodInfo(CLAIMING)) is None


def test_it_keeps_the_contract() -> None:
    check_conformance(DynamicResources())


# ---------------------------------------------------------------- events

CLASS = ("resource.k8s.io/DeviceClass", ActionType.UPDATE | ActionType.DELETE)


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (device_class("gpu", GPU), None, True),
        (device_class("gpu", GPU), device_class("gpu"), True),
        (device_class("gpu", GPU), device_class("gpu", GPU), False),
        (device_class("tpu", "example.com/tpu"), None, False),
    ],
)
def test_a_class_helps_that_the_resource_stands_for_no_more(
    old: Any, new: Any, helps: bool
) -> None:
    (hint,) = [hints(DynamicResources())[CLASS]]

    assert (hint(PodInfo(wanting(GPU)), old, new) is QueueingHint.QUEUE) is helps
    assert hint(PodInfo(CLAIMING), old, new) is QueueingHint.SKIP


def test_it_hears_of_nothing_else_and_needs_the_classes() -> None:
    assert list(hints(DynamicResources())) == [CLASS]
    assert DynamicResources().needs == ("DeviceClass",)


# ---------------------------------------------------------------- the classes


def test_a_resource_stands_for_the_classes_that_name_it() -> None:
    classes = DeviceClasses()
    classes.put(device_class("b", GPU))
    classes.put(device_class("a", GPU))
    assert (len(classes), classes.class_of(GPU)) == (2, "a")

    classes.put(device_class("a", "example.com/tpu"))
    assert classes.class_of(GPU) == "b"
    assert classes.class_of("example.com/tpu") == "a"
    classes.remove("DeviceClass", "b")
    classes.remove("DeviceClass", "never there")

    assert classes.class_of(GPU) is None
    assert classes.class_of("deviceclass.resource.kubernetes.io/b") is None
    assert classes.class_of("deviceclass.resource.kubernetes.io/a") == "a"
