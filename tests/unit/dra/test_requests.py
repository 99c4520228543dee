"""Requests in prepared form: choices, conditions, capacities, and the messages of problems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.dra import ALL_FEATURES, DeviceFeatures, PreparedClaim, prepare_claim
from mooring.objects.quantity import Quantity
from tests.helpers.devices import all_of, exactly, first_of, make_claim, make_class

UNSHAREABLE = replace(ALL_FEATURES, is_shareable=False)
STABLE = replace(UNSHAREABLE, has_binding_conditions=False)
CLASSES = {name: make_class(name, *of) for name, of in (("gpu", ()), ("x", ("model=x", "b=c")))}


def prepared(
    *requests: Any, features: DeviceFeatures = ALL_FEATURES, **claim: Any
) -> PreparedClaim:
    return prepare_claim(make_claim("c", *requests, **claim), CLASSES.get, features)


def cel(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": text}} for text in expressions]


def test_a_request_without_alternatives_is_its_only_choice() -> None:
    more = {
        "adminAccess": True,
        "tolerations": [{"key": "bad", "operator": "Exists"}],
        "capacity": {"requests": {"memory": "2Gi"}},
        "selectors": cel("a=b", "c=d"),
    }
    claim = prepared(exactly("r", device_class="x", count=3, **more))

    ((choice,),) = [request.choices for request in claim.requests]
    assert not claim.requests[0].has_alternatives
    assert (choice.parent, choice.sub, choice.full_name) == ("r", "", "r")
    assert choice.where == "claim default/c, request r"
    assert choice.problem == ""
    assert choice.device_class is CLASSES["x"]
    assert [tuple(condition) for condition in choice.conditions] == [
        ("class x: selector #0: ", "model=x"),
        ("class x: selector #1: ", "b=c"),
        ("claim default/c: selector #0: ", "a=b"),
        ("claim default/c: selector #1: ", "c=d"),
    ]
    assert [toleration.key for toleration in choice.tolerations] == ["bad"]
    assert choice.capacity == {"memory": Quantity.from_wire("2Gi")}
    assert (choice.is_admin, choice.wants_all, choice.count) == (True, False, 3)


def test_each_alternative_is_a_choice_in_its_order() -> None:
    (request,) = prepared(first_of("r", "x", "gpu")).requests

    assert request.has_alternatives
    assert [choice.full_name for choice in request.choices] == ["r/x", "r/gpu"]
    assert [choice.where for choice in request.choices] == [
        "claim default/c, request x",
        "claim default/c, request gpu",
    ]
    assert [choice.device_class for choice in request.choices] == [CLASSES["x"], CLASSES["gpu"]]
    assert not any(choice.is_admin for choice in request.choices)


def test_a_single_alternative_is_one_too() -> None:
    (request,) = prepared(first_of("r", "x")).requests

    assert request.has_alternatives
    assert [choice.full_name for choice in request.choices] == ["r/x"]


def test_a_request_for_all_devices_wants_all() -> None:
    (request,) = prepared(all_of("r")).requests

    (choice,) = request.choices
    assert (choice.wants_all, choice.is_admin, choice.problem) == (True, False, "")


WITH_CAPACITY = exactly("r", capacity={"requests": {"memory": "2Gi"}})
NOTHING_REQUESTED = exactly("r", capacity={})


def alternatives(second_has_capacity: bool) -> Any:
    request = first_of("r", "x", "gpu")
    if second_has_capacity:
        request["firstAvailable"][1]["capacity"] = {"requests": {"memory": "2Gi"}}
    return request


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            WITH_CAPACITY,
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity "
            "feature is disabled",
        ),
        (
            NOTHING_REQUESTED,
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity "
            "feature is disabled",
        ),
        (
            alternatives(True),
            "claim default/c, subrequest gpu: has capacity requests, but the "
            "DRAConsumableCapacity feature is disabled",
        ),
        (alternatives(False), ""),
        (exactly("r"), ""),
    ],
)
def test_capacities_need_devices_that_can_be_shared(request_: Any, problem: str) -> None:
    choices = prepared(request_, features=UNSHAREABLE).requests[0].choices
    assert {choice.problem for choice in choices} == {problem}
    assert all(choice.capacity == {} for choice in choices)
    for features in (ALL_FEATURES, STABLE):
        choices = prepared(request_, features=features).requests[0].choices
        assert {choice.problem for choice in choices} == {""}
    assert all(choice.capacity == {} for choice in choices)  # stable ignores them


@pytest.mark.parametrize(
    ("constraints", "problem", "stable_problem"),
    [
        ([], None, None),
        ([{"matchAttribute": "a/b"}], None, None),
        ([{"distinctAttribute": "a/b"}], None, 0),
        ([{"matchAttribute": "a/b"}, {"requests": ["r"]}], 1, 1),
        ([{}, {}], 0, 0),
        ([{"matchAttribute": "a/b"}, {"distinctAttribute": "a/b"}], None, 1),
    ],
)
def test_a_constraint_without_an_attribute_is_a_problem(
    constraints: list[dict[str, Any]], problem: int | None, stable_problem: int | None
) -> None:
    for features, index in ((ALL_FEATURES, problem), (STABLE, stable_problem)):
        claim = prepared(exactly(), constraints=constraints, features=features)
        expected = (
            ""
            if index is None
            else f"claim default/c, constraint #{index}: empty constraint (unsupported constraint "
            "type?)"
        )
        assert claim.constraint_problem == expected
        assert len(claim.constraints) == len(constraints)


def test_problems_are_those_of_the_request_in_order() -> None:
    unknown = exactly("r", device_class="none", selectors=[{}], allocationMode="Some")
    selector = "claim default/c, request r, selector #0: CEL expression empty"
    (choice,) = prepared(unknown).requests[0].choices
    assert choice.problem.startswith(selector)
    assert choice.conditions == ()  # without a class there is nothing to select by
    (choice,) = prepared(exactly("r", selectors=[*cel("a=b"), {}])).requests[0].choices
    assert choice.problem.startswith("claim default/c, request r, selector #1: ")
    (choice,) = prepared({"name": "r"}).requests[0].choices
    assert "missing device class name" in choice.problem
    broken = first_of("r", "none", "x")
    first, second = prepared(broken).requests[0].choices
    assert "could not retrieve device class none" in first.problem
    assert second.problem == ""


def test_another_claim_of_the_same_spec_shares_the_requests() -> None:
    one = prepared(exactly(), constraints=[{}])
    other = make_claim("other", namespace="ns")

    same = one.of_claim(other)

    assert (same.claim, same.key) == (other, "ns/other")
    assert same.requests is one.requests
    assert same.constraints is one.constraints
    assert same.constraint_problem == one.constraint_problem != ""
