"""The requests of the claim for extended resources that stand for a device class."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.dynamic_resources.extended_resources import (
    NAME_IN_MEMORY,
    claim_in_memory,
    has_class,
    may_be_devices,
    requested_resources,
    requests_and_mappings,
    resources_by_devices,
    with_requests,
)
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.devices.claims import EXTENDED_RESOURCE_ANNOTATION
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.testing import make_node, make_pod
from tests.helpers.devices import make_class

GPU = "example.com/gpu"


def classes() -> DeviceClasses:
    """Returns the classes of a cluster where one stands for GPUs."""
    cache = Cache()
    cache.put_object("DeviceClass", make_class("ext", resource=GPU))
    return cache.snapshot().device_classes


@pytest.mark.parametrize(
    ("init", "main", "names", "counts"),
    [
        (["1"], ["2"], ["container-1-request-0"], [2]),
        (["3"], ["2"], ["container-0-request-0", "container-1-request-0"], [1, 2]),
        (
            ["3", "5"],
            ["2"],
            ["container-1-request-0", "container-2-request-0"],
            [3, 2],
        ),
        (
            ["5", "3"],
            ["2"],
            ["container-0-request-0", "container-2-request-0"],
            [3, 2],
        ),
        (["3"], ["1", "2"], ["container-1-request-0", "container-2-request-0"], [1, 2]),
        (
            ["4"],
            ["1", "2"],
            ["container-0-request-0", "container-1-request-0", "container-2-request-0"],
            [1, 1, 2],
        ),
        ([], ["1500m", "1"], ["container-1-request-0"], [1]),
        ([], ["1", "2"], ["container-0-request-0", "container-1-request-0"], [1, 2]),
    ],
)
def test_init_containers_use_the_devices_of_those_that_start_later(
    init: list[str], main: list[str], names: list[str], counts: list[int]
) -> None:
    def containers(prefix: str, amounts: list[str]) -> list[dict[str, Any]]:
        return [
            {"name": f"{prefix}{number}", "resources": {"requests": {GPU: amount}}}
            for number, amount in enumerate(amounts)
        ]

    spec = {"initContainers": containers("i", init), "containers": containers("c", main)}
    extended = requests_and_mappings(make_pod("new", spec=spec), [GPU], classes())

    assert [request.name for request in extended.requests] == names
    assert [request.exactly and request.exactly.count for request in extended.requests] == counts
    assert {mapping.request_name for mapping in extended.mappings} == set(names)


def test_an_init_container_does_not_use_the_devices_of_an_earlier_sidecar() -> None:
    def container(name: str, amount: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {GPU: amount}}, **more}

    sidecar = container("sidecar", "2", restartPolicy="Always")
    spec = {
        "initContainers": [sidecar, container("init", "2")],
        "containers": [container("main", "1")],
    }
    extended = requests_and_mappings(make_pod("new", spec=spec), [GPU], classes())

    amounts = {
        request.name: request.exactly.count for request in extended.requests if request.exactly
    }
    assert amounts == {
        "container-0-request-0": 2,
        "container-1-request-0": 1,
        "container-2-request-0": 1,
    }


# ---------------------------------------------------------------- which resources, and where

PREFIXED = "deviceclass.resource.kubernetes.io/gpu"


def classes_of(*resources: str) -> DeviceClasses:
    table = DeviceClasses()
    for number, resource in enumerate(resources):
        table.put(make_class(f"c{number}", resource=resource))
    return table


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("example.com/gpu", True),
        (PREFIXED, True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
    ],
)
def test_only_extended_resources_may_be_devices(resource: str, expected: bool) -> None:
    assert may_be_devices(resource) is expected


def test_requested_resources_are_sorted_and_have_an_amount() -> None:
    requests = {"cpu": "1", "example.com/z": "1", "example.com/a": "2", "example.com/none": "0"}
    pod = PodInfo(make_pod(requests=requests))

    assert requested_resources(pod) == ["example.com/a", "example.com/z"]


@pytest.mark.parametrize(
    ("requests", "of_classes", "expected"),
    [
        ({"example.com/gpu": "1"}, ("example.com/gpu",), True),
        ({"example.com/gpu": "1"}, ("example.com/tpu",), False),
        ({"example.com/gpu": "0"}, ("example.com/gpu",), False),
        ({"example.com/gpu": "1"}, (), False),
        ({"example.com/a": "1", "example.com/b": "1"}, ("example.com/b",), True),
        ({"deviceclass.resource.kubernetes.io/c0": "1"}, ("example.com/gpu",), True),
        ({"cpu": "1"}, ("cpu",), False),
    ],
)
def test_a_pod_has_a_class_if_one_of_its_resources_does(
    requests: dict[str, str], of_classes: tuple[str, ...], expected: bool
) -> None:
    pod = PodInfo(make_pod(requests=requests))

    assert has_class(pod, classes_of(*of_classes)) is expected


@pytest.mark.parametrize(
    ("allocatable", "by_devices"),
    [
        ({}, None),
        ({"example.com/plugin": "2"}, ("example.com/gpu",)),
        ({"example.com/plugin": "0"}, ("example.com/gpu",)),
        ({"example.com/plugin": "2", "example.com/gpu": "0"}, ("example.com/gpu",)),
        ({"example.com/plugin": "2", "example.com/gpu": "1"}, ()),
        ({"example.com/gpu": "1"}, None),
    ],
)
def test_a_node_has_by_devices_what_no_device_plugin_serves(
    allocatable: dict[str, str], by_devices: tuple[str, ...] | None
) -> None:
    node = make_node("a", allocatable=allocatable)
    resources = ["example.com/gpu", "example.com/plugin"]

    assert resources_by_devices(node, resources, classes_of("example.com/gpu")) == by_devices


def test_resources_without_a_class_have_no_request() -> None:
    pod = make_pod(requests={"example.com/a": "1", "example.com/b": "2", "cpu": "1"})

    extended = requests_and_mappings(
        pod, ["example.com/a", "example.com/b"], classes_of("example.com/b")
    )

    (request,) = extended.requests
    assert request.exactly is not None
    # cpu, a and b are the resources of the container, in this order.
    assert request.name == "container-0-request-2"
    assert (request.exactly.device_class_name, request.exactly.count) == ("c0", 2)
    assert request.exactly.allocation_mode == "ExactCount"
    (mapping,) = extended.mappings
    assert (mapping.resource_name, mapping.request_name) == ("example.com/b", request.name)


def test_requests_of_several_resources_are_sorted_by_name() -> None:
    def container(name: str, **amounts: str) -> dict[str, Any]:
        requests = {f"example.com/{resource}": amount for resource, amount in amounts.items()}
        return {"name": name, "resources": {"requests": requests}}

    pod = make_pod(
        spec={"containers": [container("one", b="1"), container("two", a="1", b="500m")]}
    )
    resources = ["example.com/a", "example.com/b"]

    extended = requests_and_mappings(pod, resources, classes_of(*resources))

    # Half a device is no whole number, so the second container has no request for it.
    assert [request.name for request in extended.requests] == [
        "container-0-request-0",
        "container-1-request-0",
    ]
    mappings = [(entry.container_name, entry.resource_name) for entry in extended.mappings]
    assert mappings == [("two", "example.com/a"), ("one", "example.com/b")]


def test_the_claim_in_memory_belongs_to_its_pod() -> None:
    pod = make_pod("web", namespace="shop", uid="u")
    claim = claim_in_memory(pod, "uid-1")

    metadata = claim.metadata
    assert (metadata.namespace, metadata.name, metadata.uid) == ("shop", NAME_IN_MEMORY, "uid-1")
    assert metadata.generate_name == "web-extended-resources-"
    assert metadata.annotations == {EXTENDED_RESOURCE_ANNOTATION: "true"}
    (owner,) = metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
        "v1",
        "Pod",
        "web",
        "u",
        True,
    )
    assert claim.spec.devices.requests == ()
    requests = requests_and_mappings(
        make_pod(requests={"example.com/a": "1"}), ["example.com/a"], classes_of("example.com/a")
    ).requests
    filled = with_requests(claim, requests)
    assert (filled.metadata, filled.spec.devices.requests) == (metadata, requests)
