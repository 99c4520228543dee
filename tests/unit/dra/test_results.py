"""Allocations as the API has them: results, configurations, and the nodes that can use them."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from mooring.dra import (
    AllocatedState,
    AllocationError,
    Allocator,
    Slices,
    TargetNode,
    prepare_claim,
)
from mooring.objects.codec.decode import convert
from mooring.objects.resource import AllocationResult, DeviceClass, ResourceSlice
from tests.helpers.devices import (
    DRIVER,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selectors,
)

NODE = TargetNode("a", {"zone": "1", "rack": "2"})


def opaque(text: str) -> dict[str, Any]:
    return {"opaque": {"driver": DRIVER, "parameters": {"text": text}}}


def configured(name: str, *texts: str) -> DeviceClass:
    spec = {"config": [opaque(text) for text in texts]}
    result: DeviceClass = convert({"metadata": {"name": name}, "spec": spec}, "DeviceClass")
    return result


def allocated(
    *requests: Any,
    slices: list[ResourceSlice] | None = None,
    classes: dict[str, DeviceClass] | None = None,
    config: list[dict[str, Any]] | None = None,
    claims: int = 1,
) -> list[AllocationResult]:
    if slices is None:
        devices = [make_device(f"d{number}", model="y") for number in range(6)]
        slices = [make_slice("s", devices, node="a")]
    table = Slices(slices)
    by_name = classes or {"gpu": make_class("gpu"), "x": make_class("x", "model=x")}
    prepared = []
    for number in range(claims):
        claim = make_claim(f"c{number}", *requests)
        if config is not None:
            document = {"devices": {"requests": list(requests), "config": config}}
            claim = convert(
                {"metadata": {"name": "c0", "namespace": "default"}, "spec": document},
                "ResourceClaim",
            )
        prepared.append(prepare_claim(claim, by_name.get))
    allocator = Allocator(AllocatedState(), selectors())
    solution = allocator.allocate(NODE, table.pools(NODE), prepared)
    assert solution is not None
    numbers = count()
    return solution.results(lambda: f"share-{next(numbers)}")


def configurations(result: AllocationResult) -> list[tuple[str, tuple[str, ...], str]]:
    entries = []
    for entry in result.devices.config:
        assert entry.opaque is not None
        parameters = msgspec.to_builtins(entry.opaque.parameters)
        entries.append((entry.source, tuple(entry.requests), parameters["text"]))
    return entries


# ---------------------------------------------------------------- results


def test_a_result_has_what_the_request_and_the_device_say() -> None:
    device = make_device(
        "d0", bindingConditions=["ready"], bindingFailureConditions=["broken", "lost"]
    )
    tolerations = [{"key": "bad", "operator": "Exists"}]
    (result,) = allocated(
        exactly("r", adminAccess=True, tolerations=tolerations),
        slices=[make_slice("s", [device], pool="p", node="a")],
    )

    (entry,) = result.devices.results
    assert (entry.request, entry.driver, entry.pool, entry.device) == ("r", DRIVER, "p", "d0")
    assert entry.admin_access is True
    assert [toleration.key for toleration in entry.tolerations] == ["bad"]
    assert tuple(entry.binding_conditions) == ("ready",)
    assert tuple(entry.binding_failure_conditions) == ("broken", "lost")
    assert (entry.share_id, entry.consumed_capacity) == (None, {})


def test_a_device_that_cannot_be_shared_consumes_nothing_and_has_no_share() -> None:
    device = make_device("d0", capacity={"memory": {"value": "4Gi"}})
    (result,) = allocated(exactly(), slices=[make_slice("s", [device], node="a")])

    (entry,) = result.devices.results
    assert entry.admin_access is None
    assert (entry.share_id, entry.consumed_capacity) == (None, {})


def test_each_share_has_an_id_of_its_own_and_consumes_every_capacity() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {
        "memory": {"value": "8Gi", "requestPolicy": policy},
        "cores": {"value": "8", "requestPolicy": {"default": "2", "validValues": ["2", "4"]}},
    }
    device = make_device("d0", capacity=capacity, allowMultipleAllocations=True)
    results = allocated(
        exactly(capacity={"requests": {"memory": "1500Mi"}}),
        slices=[make_slice("s", [device], node="a")],
        claims=2,
    )

    entries = [entry for result in results for entry in result.devices.results]
    assert [entry.share_id for entry in entries] == ["share-0", "share-1"]
    assert [entry.consumed_capacity for entry in entries] == [{"memory": "2Gi", "cores": "2"}] * 2


# ---------------------------------------------------------------- configurations


def test_configurations_of_classes_come_first_each_with_the_requests_of_the_class() -> None:
    classes = {
        "gpu": configured("gpu", "g1", "g2"),
        "plain": make_class("plain"),
        "net": configured("net", "n"),
    }
    (result,) = allocated(
        exactly("r", device_class="net"),
        exactly("s", device_class="plain"),
        exactly("t"),
        exactly("u", device_class="net"),
        classes=classes,
        config=[opaque("own")],
    )

    assert configurations(result) == [
        ("FromClass", ("r", "u"), "n"),
        ("FromClass", ("t",), "g1"),
        ("FromClass", ("t",), "g2"),
        ("FromClaim", (), "own"),
    ]


@pytest.mark.parametrize(
    ("requests", "times"),
    [
        ([], 1),
        (["r"], 1),
        (["r", "s"], 2),
        (["s"], 1),
        (["s/gpu"], 1),
        (["s/x"], 0),
        (["r", "s/x"], 1),
        (["unknown"], 0),
    ],
)
def test_a_configuration_of_the_claim_is_there_for_each_request_that_it_names(
    requests: list[str], times: int
) -> None:
    config = [{"requests": requests, **opaque("c")}, opaque("last")]
    (result,) = allocated(exactly("r"), first_of("s", "x", "gpu"), config=config)

    expected = [("FromClaim", tuple(requests), "c")] * times
    assert configurations(result) == [*expected, ("FromClaim", (), "last")]


def test_the_class_of_the_alternative_that_was_taken_counts() -> None:
    classes = {"x": configured("x", "of x"), "gpu": configured("gpu", "of gpu")}
    (result,) = allocated(first_of("r", "gpu", "x"), classes=classes)

    assert configurations(result) == [("FromClass", ("r/gpu",), "of gpu")]


# ---------------------------------------------------------------- nodes


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelector": {"nodeSelectorTerms": list(terms)}}


def nodes_of(*slices: ResourceSlice, devices: int = 1) -> Any:
    """Returns the node selector of an allocation of one device of each slice."""
    (result,) = allocated(exactly(count=devices), slices=list(slices))
    return msgspec.to_builtins(result.node_selector)


def trimmed(node_selector: Any) -> Any:
    """Returns the requirements of the only term of a selector."""
    if node_selector is None:
        return None
    (term,) = node_selector["nodeSelectorTerms"]
    return [
        (entry["key"], entry["operator"], sorted(entry.get("values", ())))
        for entry in (*term.get("matchFields", ()), *term.get("matchExpressions", ()))
    ]


ZONE = label("zone", "In", "1")
NAME = ("metadata.name", "In", ["a"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"allNodes": True}, None),
        ({"nodeName": "a"}, [NAME]),
        (selector({"matchExpressions": [ZONE]}), [("zone", "In", ["1"])]),
    ],
)
@pytest.mark.parametrize("is_per_device", [True, False])
def test_the_nodes_are_those_of_the_slice_or_of_the_device(
    fields: dict[str, Any], expected: Any, is_per_device: bool
) -> None:
    if is_per_device:
        part = make_slice("s", [make_device("d0", **fields)], perDeviceNodeSelection=True)
    else:
        part = make_slice("s", [make_device("d0")], **fields)

    assert trimmed(nodes_of(part)) == expected


def test_requirements_of_several_devices_are_listed_once() -> None:
    values = label("zone", "In", "1", "3")
    parts = [
        make_slice(
            f"s{number}",
            [make_device("d0")],
            pool=f"p{number}",
            **selector({"matchExpressions": expressions}),
        )
        for number, expressions in enumerate(
            [
                [values, label("rack", "Exists")],
                [label("zone", "In", "3", "1")],
                [label("zone", "NotIn", "3"), label("rack", "Exists")],
            ]
        )
    ]

    assert trimmed(nodes_of(*parts, devices=3)) == [
        ("zone", "In", ["1", "3"]),
        ("rack", "Exists", []),
        ("zone", "NotIn", ["3"]),
    ]


def test_one_device_of_the_node_alone_makes_the_allocation_so() -> None:
    everywhere = make_slice("s0", [make_device("d0")], pool="p0", allNodes=True)
    zone = make_slice(
        "s1", [make_device("d0")], pool="p1", **selector({"matchExpressions": [ZONE]})
    )
    own = make_slice("s2", [make_device("d0")], pool="p2", node="a")

    assert trimmed(nodes_of(everywhere, zone, devices=2)) == [("zone", "In", ["1"])]
    assert trimmed(nodes_of(everywhere, zone, own, devices=3)) == [NAME]


@pytest.mark.parametrize("binds", [True, False])
def test_a_device_that_binds_to_its_node_makes_the_allocation_so(binds: bool) -> None:
    part = make_slice("s", [make_device("d0", bindsToNode=binds)], allNodes=True)

    assert trimmed(nodes_of(part)) == ([NAME] if binds else None)


def test_a_selector_of_several_terms_is_an_error() -> None:
    terms = {"matchExpressions": [ZONE]}, {"matchExpressions": [label("rack", "Exists")]}
    part = make_slice("s", [make_device("d0")], **selector(*terms))

    with pytest.raises(AllocationError) as caught:
        nodes_of(part)

    assert str(caught.value) == (
        "create NodeSelector for claim c0: unsupported ResourceSlice.NodeSelector with 2 terms"
    )
