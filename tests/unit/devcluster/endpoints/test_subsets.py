"""Endpoints have the addresses of a Service by port, and not more than a thousand.

Source: the cases of pkg/controller/endpoint/endpoints_controller_test.go (TestTruncateEndpoints)
and pkg/api/v1/endpoints/util_test.go (TestRepackSubsets).
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.devcluster.endpoints.slices import Group
from mooring.devcluster.endpoints.subsets import subsets_of
from mooring.objects.meta import ObjectMeta
from mooring.simulation.controllers.objects import Workload


def service(**spec: Any) -> Workload:
    spec = {"clusterIP": "10.0.0.1", "ports": [{"port": 1}], **spec}
    return Workload(metadata=ObjectMeta(name="web", namespace="default"), spec=spec)


def port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "protocol": "TCP"}


def endpoint(number: int, *, serving: bool = True, terminating: bool = False) -> dict[str, Any]:
    return {
        "addresses": [f"10.{number // 10000}.{number // 100 % 100}.{number % 100}"],
        "conditions": {"serving": serving, "terminating": terminating},
        "targetRef": {"namespace": "default", "name": f"p{number}", "uid": f"u{number}"},
    }


def group(ports: list[dict[str, Any]], *endpoints: dict[str, Any]) -> Group:
    result = Group(ports)
    for item in endpoints:
        result.add(item)
    return result


def sizes(*groups: Group) -> list[tuple[int, int]]:
    """Returns the numbers of addresses of each subset, ready and not ready."""
    subsets, _ = subsets_of(service(), groups)
    return [
        (len(item.get("addresses", ())), len(item.get("notReadyAddresses", ()))) for item in subsets
    ]


def ips(subset: dict[str, Any]) -> list[str]:
    return [item["ip"] for item in subset["addresses"]]


def test_ports_of_the_same_pods_share_a_subset() -> None:
    http, metrics = port("http", 80), port("metrics", 90)
    both = group([http, metrics], endpoint(2), endpoint(1))
    subsets, is_truncated = subsets_of(service(), [both])
    [subset] = subsets
    assert subset["ports"] == [http, metrics]
    assert ips(subset) == ["10.0.0.1", "10.0.0.2"]
    assert not is_truncated


def test_a_port_of_fewer_pods_has_its_own_subset() -> None:
    http, metrics = port("http", 80), port("metrics", 90)
    subsets, _ = subsets_of(
        service(), [group([http, metrics], endpoint(1)), group([http], endpoint(2))]
    )
    assert {item["ports"][0]["name"]: ips(item) for item in subsets} == {
        "http": ["10.0.0.1", "10.0.0.2"],
        "metrics": ["10.0.0.1"],
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [(["10.0.0.1"], ["10.0.0.2"])]),
        (
            {"publishNotReadyAddresses": True},
            [(["10.0.0.1", "10.0.0.2", "10.0.0.3"], [])],
        ),
    ],
)
def test_addresses_are_ready_or_not(spec: dict[str, Any], expected: Any) -> None:
    pods = endpoint(1), endpoint(2, serving=False), endpoint(3, terminating=True)
    subsets, _ = subsets_of(service(**spec), [group([port("", 80)], *pods)])
    assert [
        (ips(item), [address["ip"] for address in item.get("notReadyAddresses", ())])
        for item in subsets
    ] == expected
    assert subsets[0]["ports"] == [{"port": 80, "protocol": "TCP"}], "an empty name is left out"


def test_only_headless_services_need_no_ports() -> None:
    pods = group([], endpoint(1))
    assert subsets_of(service(), [pods]).subsets == []
    [subset] = subsets_of(service(clusterIP="None", ports=[]), [pods]).subsets
    assert ips(subset) == ["10.0.0.1"]
    assert "ports" not in subset


def many(name: str, first: int, ready: int, not_ready: int) -> Group:
    return group(
        [port(name, 80)],
        *(endpoint(first + number) for number in range(ready)),
        *(endpoint(first + ready + number, serving=False) for number in range(not_ready)),
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([(500, 500)], [(500, 500)]),
        ([(1001, 500)], [(1000, 0)]),
        ([(500, 501)], [(500, 500)]),
        # Shares are rounded up; the last subset has what remains.
        ([(601, 0), (600, 10)], [(501, 0), (499, 0)]),
        ([(400, 400), (400, 200)], [(400, 134), (400, 66)]),
    ],
)
def test_addresses_beyond_the_limit_are_left_out(
    counts: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    groups = [many(f"p{number}", 2000 * number, *pair) for number, pair in enumerate(counts)]
    assert sizes(*groups) == expected
    is_truncated = sum(map(sum, counts)) > 1000
    assert subsets_of(service(), groups).is_truncated is is_truncated
