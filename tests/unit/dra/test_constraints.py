"""Constraints: one attribute is equal on all devices of some requests, or distinct."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra.constraints import (
    Constraint,
    attribute_of,
    constraint_of,
    ignore_released,
    value_of,
)
from mooring.dra.devices import PreparedSlice, SliceDevice
from mooring.objects.codec.decode import convert
from mooring.objects.resource import DeviceConstraint
from tests.helpers.devices import make_slice

VALUES: dict[str, Any] = {
    "string": {"string": "1"},
    "other-string": {"string": "2"},
    "int": {"int": 1},
    "zero": {"int": 0},
    "bool": {"bool": True},
    "false": {"bool": False},
    "version": {"version": "1.0.0"},
    "list": {"strings": ["1"]},
}


def device(driver: str = "gpu.test", **attributes: Any) -> SliceDevice:
    entry = {"name": "d", "attributes": attributes}
    return PreparedSlice(make_slice("s", [entry], node="a", driver=driver)).devices[0]


def spec(*requests: str, match: str = "", distinct: str = "") -> DeviceConstraint:
    document: dict[str, Any] = {"requests": list(requests)}
    if match:
        document["matchAttribute"] = match
    if distinct:
        document["distinctAttribute"] = distinct
    claim = convert(
        {"metadata": {"name": "c"}, "spec": {"devices": {"constraints": [document]}}},
        "ResourceClaim",
    )
    constraint: DeviceConstraint = claim.spec.devices.constraints[0]
    return constraint


def of(value: str) -> SliceDevice:
    """Returns a device whose attribute ``a`` has one of VALUES."""
    return device(a=VALUES[value])


def match(*requests: str) -> Constraint:
    return constraint_of(spec(*requests, match="gpu.test/a"))


def distinct(*requests: str) -> Constraint:
    return constraint_of(spec(*requests, distinct="gpu.test/a"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("string", ("string", "1")),
        ("int", ("int", 1)),
        ("zero", ("int", 0)),
        ("bool", ("bool", True)),
        ("false", ("bool", False)),
        ("version", ("version", "1.0.0")),
        ("list", None),
    ],
)
def test_a_value_has_its_kind(value: str, expected: Any) -> None:
    attribute = attribute_of(of(value), "gpu.test/a")
    assert attribute is not None
    assert value_of(attribute) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu.test/a", "own"),
        ("gpu.test/b", "qualified"),
        ("other.test/a", None),
        ("other.test/c", "of another"),
        ("a", "own"),
        ("gpu.test/none", None),
        ("/a", None),
    ],
)
def test_attributes_of_the_driver_need_no_domain(name: str, value: str | None) -> None:
    attributes: dict[str, Any] = {
        "a": {"string": "own"},
        "b": {"string": "plain"},
        "gpu.test/b": {"string": "qualified"},
        "other.test/c": {"string": "of another"},
    }
    there = device(**attributes)

    attribute = attribute_of(there, name)

    assert (attribute.string_value if attribute is not None else None) == value


@pytest.mark.parametrize("second", VALUES)
@pytest.mark.parametrize("first", VALUES)
def test_equal_values_are_of_one_kind_and_lists_are_equal_to_none(first: str, second: str) -> None:
    is_equal = first == second and first != "list"
    matching, distinguishing = match(), distinct()

    assert matching.add("r", "", of(first))
    assert matching.add("r", "", of(second)) is is_equal
    assert distinguishing.add("r", "", of(first))
    # A second device without a value is refused, too.
    assert distinguishing.add("s", "", of(second)) is not (is_equal or second == "list")


def test_a_device_without_the_attribute_is_refused() -> None:
    for constraint in (match(), distinct()):
        assert not constraint.add("r", "", device(b={"string": "1"}))
        assert constraint.add("r", "", of("string"))


@pytest.mark.parametrize(
    ("requests", "parent", "sub", "concerns"),
    [
        ((), "r", "", True),
        ((), "r", "x", True),
        (("r",), "r", "", True),
        (("r",), "r", "x", True),
        (("r/x",), "r", "x", True),
        (("r/x",), "r", "y", False),
        (("r/x",), "r", "", False),
        (("s", "r"), "r", "", True),
        (("s",), "r", "", False),
        (("r/",), "r", "", False),
    ],
)
def test_a_constraint_concerns_the_requests_that_it_names(
    requests: tuple[str, ...], parent: str, sub: str, concerns: bool
) -> None:
    without = device(b={"string": "1"})
    for constraint in (match(*requests), distinct(*requests)):
        assert constraint.add(parent, sub, without) is not concerns
        constraint.remove("other", "")


def test_the_first_device_after_all_were_released_sets_the_value_anew() -> None:
    constraint = match()
    assert constraint.add("r", "", of("string"))
    assert constraint.add("r", "", of("string"))
    constraint.remove("r", "")
    assert not constraint.add("r", "", of("other-string"))
    constraint.remove("r", "")
    assert constraint.add("r", "", of("other-string"))
    assert not constraint.add("r", "", of("string"))


def test_the_release_of_a_request_that_is_not_concerned_changes_nothing() -> None:
    constraint = match("r")
    assert constraint.add("r", "", of("string"))
    assert constraint.add("s", "", of("other-string"))
    constraint.remove("s", "")
    assert not constraint.add("r", "", of("other-string"))


def test_a_refused_device_is_not_counted() -> None:
    constraint = match()
    assert constraint.add("r", "", of("string"))
    assert not constraint.add("r", "", of("other-string"))
    constraint.remove("r", "")
    assert constraint.add("r", "", of("other-string"))


def test_distinct_values_are_those_of_the_last_device_of_each_request() -> None:
    # kube-scheduler stores one value for each request.
    constraint = distinct()
    assert constraint.add("r", "", of("string"))
    assert not constraint.add("s", "", of("string"))
    assert constraint.add("r", "", of("other-string"))
    assert not constraint.add("r", "", of("other-string"))
    assert constraint.add("s", "", of("string"))
    assert not constraint.add("t", "", of("string"))
    constraint.remove("s", "")
    assert constraint.add("t", "", of("string"))


def test_after_a_release_a_request_has_no_value() -> None:
    constraint = distinct()
    assert constraint.add("r", "", of("string"))
    assert constraint.add("r", "", of("other-string"))
    constraint.remove("r", "")
    assert constraint.add("r", "", of("string"))


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([], True),
        ([spec(match="a/b")], True),
        ([spec(distinct="a/b")], False),
        ([spec(match="a/b"), spec(distinct="a/b")], False),
        ([spec(distinct="a/b"), spec(match="a/b")], False),
        ([spec(match="a/b"), spec(match="a/c")], True),
    ],
)
def test_released_devices_matter_to_distinct_attributes_alone(
    specs: list[DeviceConstraint], expected: bool
) -> None:
    assert ignore_released(specs) is expected
