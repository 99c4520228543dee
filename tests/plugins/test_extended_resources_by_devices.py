"""The requests of the claim for extended resources that stand for a device class."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.dynamic_resources.extended_resources import requests_and_mappings
from mooring.state.cache import Cache
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.testing import make_pod
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
