"""Endpoints are divided into slices, as upstream's reconciler does.

Source: the cases of k8s.io/endpointslice v0.36.3, reconciler_test.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from mooring.devcluster.endpoints.slices import (
    Content,
    EndpointSlice,
    Group,
    Plan,
    plan,
    ports_key,
)
from mooring.objects.meta import ObjectMeta, OwnerReference
from mooring.simulation.controllers.objects import Workload

HTTP = [{"name": "http", "port": 80, "protocol": "TCP"}]
OTHER = [{"name": "http", "port": 90, "protocol": "TCP"}]
SERVICE = Workload(
    metadata=ObjectMeta(name="web", namespace="default", uid="u", labels={"team": "a"}),
    spec={"clusterIP": "10.0.0.1"},
)
LABELS = {
    "team": "a",
    "kubernetes.io/service-name": "web",
    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
}


def endpoint(number: int, *, ready: bool = True) -> dict[str, Any]:
    return {
        "addresses": [f"10.1.{number // 250}.{number % 250}"],
        "conditions": {"ready": ready},
        "targetRef": {"namespace": "default", "name": f"pod-{number:04}"},
    }


def part(
    name: str,
    numbers: Iterable[int],
    *,
    ports: list[dict[str, Any]] = HTTP,
    labels: dict[str, str] = LABELS,
    owner: str = "u",
) -> EndpointSlice:
    owners = (OwnerReference(api_version="v1", kind="Service", name="web", uid=owner),)
    metadata = ObjectMeta(name=name, namespace="default", labels=labels, owner_references=owners)
    return EndpointSlice(metadata=metadata, endpoints=[*map(endpoint, numbers)], ports=ports)


def changes(
    existing: Sequence[EndpointSlice],
    numbers: Iterable[int],
    *,
    ports: list[dict[str, Any]] = HTTP,
    not_ready: int | None = None,
) -> Plan:
    group = Group(ports)
    for number in numbers:
        group.add(endpoint(number, ready=number != not_ready))
    groups = {ports_key(ports): group} if group.endpoints else {}
    return plan(SERVICE, existing, groups)


def sizes(contents: Iterable[Content]) -> list[int]:
    return sorted(len(content.endpoints) for content in contents)


def updates(result: Plan) -> dict[str, int]:
    return {old.metadata.name: len(content.endpoints) for old, content in result.update}


def numbers_after(existing: Sequence[EndpointSlice], result: Plan) -> Counter[str]:
    """Counts the endpoints of each pod after the changes."""
    contents = {old.metadata.name: old.endpoints or [] for old in existing}
    contents |= {old.metadata.name: content.endpoints for old, content in result.update}
    for old in result.delete:
        del contents[old.metadata.name]
    contents |= {f"new-{n}": content.endpoints for n, content in enumerate(result.create)}
    return Counter(
        item["targetRef"]["name"] for endpoints in contents.values() for item in endpoints
    )


def test_many_endpoints_have_slices_of_a_hundred() -> None:
    result = changes([part("a", [], ports=[])], range(250))
    assert updates(result) in ({"a": 50}, {"a": 100})
    assert sorted([*sizes(result.create), *updates(result).values()]) == [50, 100, 100]
    assert not result.delete


def test_one_change_of_a_pod_writes_one_slice() -> None:
    existing = [part("a", range(100)), part("b", range(100, 200)), part("c", range(200, 250))]
    result = changes(existing, range(250), not_ready=120)
    assert updates(result) == {"b": 100}
    assert not result.create
    assert not result.delete


@pytest.mark.parametrize(
    ("existing", "numbers", "expected"),
    [
        # New endpoints fit in a slice that changes anyway.
        ([part("a", range(50)), part("b", range(50, 90))], [*range(1, 50), *range(50, 95)], "a"),
        # No slice changes: the fullest one with room for all.
        ([part("a", range(50)), part("b", range(50, 140))], range(145), "b"),
        ([part("a", range(50)), part("b", range(50, 148))], range(153), "a"),
    ],
)
def test_new_endpoints_are_added_to_one_slice(
    existing: list[EndpointSlice], numbers: Iterable[int], expected: str
) -> None:
    numbers = list(numbers)
    result = changes(existing, numbers)
    assert list(updates(result)) == [expected]
    assert not result.create
    assert numbers_after(existing, result) == Counter(f"pod-{n:04}" for n in numbers)


def test_new_endpoints_that_fit_in_no_slice_have_a_new_one() -> None:
    existing = [part("a", range(99)), part("b", range(100, 198))]
    numbers = [*range(99), *range(100, 198), 300, 301, 302]
    result = changes(existing, numbers)
    assert updates(result) == {}
    assert sizes(result.create) == [3]


def test_a_slice_without_endpoints_is_deleted() -> None:
    existing = [part("a", range(100)), part("b", [200])]
    result = changes(existing, range(100))
    assert [old.metadata.name for old in result.delete] == ["b"]
    assert updates(result) == {}


def test_the_last_endpoint_leaves_a_slice_without_ports() -> None:
    result = changes([part("a", [1])], [])
    assert [(old.metadata.name, content) for old, content in result.update] == [
        ("a", Content([], []))
    ]
    assert not result.delete
    assert not result.create
    empty = [part("a", [], ports=[])]
    assert changes(empty, []) == Plan([], [], [])


def test_other_ports_are_other_slices() -> None:
    first, second = Group(HTTP), Group(OTHER)
    first.add(endpoint(1))
    second.add(endpoint(2))
    existing = [part("a", [1, 2])]
    result = plan(SERVICE, existing, {ports_key(HTTP): first, ports_key(OTHER): second})
    assert updates(result) == {"a": 1}
    assert [(content.ports, len(content.endpoints)) for content in result.create] == [(OTHER, 1)]


def test_changed_labels_are_written() -> None:
    labels = {**LABELS, "team": "b"}
    result = changes([part("a", [1], labels=labels), part("b", [2])], [1, 2])
    assert updates(result) == {"a": 1}


def test_a_slice_of_another_service_is_deleted() -> None:
    result = changes([part("old", [1], owner="other"), part("a", [1])], [1])
    assert [old.metadata.name for old in result.delete] == ["old"]
    assert updates(result) == {}
