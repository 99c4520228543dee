"""Amounts that a request consumes of a capacity, and policies that allow them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra.capacity import consumed_amount, has_capacity
from mooring.dra.devices import Capacity, PreparedSlice, RequestPolicy
from mooring.objects.quantity import Quantity
from tests.helpers.devices import make_device, make_slice

RANGE = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
NO_MAXIMUM = {"default": "2Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
NO_STEP = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}
VALUES = {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}
#: The default is valid, although the range does not have it.
ODD_DEFAULT = {"default": "1500Mi", "validRange": {"min": "1Gi", "step": "1Gi"}}


def capacity_with(policy: dict[str, Any] | None, value: str = "8Gi") -> Capacity:
    entry: dict[str, Any] = {"value": value}
    if policy is not None:
        entry["requestPolicy"] = policy
    device = make_device("d0", capacity={"memory": entry}, allowMultipleAllocations=True)
    return PreparedSlice(make_slice("s", [device], node="a")).devices[0].capacity["memory"]


@pytest.mark.parametrize(
    ("policy", "requested", "consumed", "is_allowed"),
    [
        (None, None, "8Gi", True),
        (None, "3Gi", "3Gi", True),
        (None, "9Gi", "9Gi", False),
        (RANGE, None, "2Gi", True),
        (RANGE, "512Mi", "1Gi", True),
        (RANGE, "1Gi", "1Gi", True),
        (RANGE, "1500Mi", "2Gi", True),
        (RANGE, "4Gi", "4Gi", True),
        (RANGE, "4097Mi", "5Gi", False),
        (NO_MAXIMUM, "4097Mi", "5Gi", True),
        (NO_MAXIMUM, "9Gi", "9Gi", False),
        (NO_STEP, "1500Mi", "1500Mi", True),
        (NO_STEP, "5Gi", "5Gi", False),
        (VALUES, None, "1Gi", True),
        (VALUES, "1Gi", "1Gi", True),
        (VALUES, "1025Mi", "4Gi", True),
        (VALUES, "5Gi", "5Gi", False),
        (ODD_DEFAULT, None, "1500Mi", True),
    ],
)
def test_a_request_is_rounded_up_and_checked_by_the_policy(
    policy: dict[str, Any] | None, requested: str | None, consumed: str, is_allowed: bool
) -> None:
    capacity = capacity_with(policy)
    amount = Quantity.from_wire(requested) if requested is not None else None
    requests = {} if amount is None else {"memory": amount}

    assert consumed_amount(capacity, amount) == Quantity.from_wire(consumed)
    assert has_capacity({"memory": capacity}, requests) is is_allowed


@pytest.mark.parametrize("policy", [None, NO_MAXIMUM])
@pytest.mark.parametrize(
    ("used", "is_allowed"),
    [(("4Gi",), True), (("5Gi",), True), (("5121Mi",), False), (("2Gi", "3Gi"), True),
     (("2Gi", "3073Mi"), False)],
)  # fmt: skip
def test_what_others_consume_is_not_available(
    policy: dict[str, Any] | None, used: tuple[str, ...], is_allowed: bool
) -> None:
    amounts = [{"memory": Quantity.from_wire(amount).nanos} for amount in used]
    requests = {"memory": Quantity.from_wire("3Gi")}

    assert has_capacity({"memory": capacity_with(policy)}, requests, amounts) is is_allowed


def test_without_a_request_a_share_needs_the_whole_capacity() -> None:
    capacity = capacity_with(None)

    assert has_capacity({"memory": capacity}, {}, [])
    assert not has_capacity({"memory": capacity}, {}, [{"memory": 1}])


def test_a_capacity_that_the_device_lacks_is_not_available() -> None:
    requests = {"cores": Quantity.from_wire("1")}

    assert not has_capacity({"memory": capacity_with(None)}, requests)


ZERO_STEP = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "0"}}
ODD_STEP = {"default": "1", "validRange": {"min": "3", "max": "20", "step": "4"}}
NO_DEFAULT = {"validValues": ["2Gi", "4Gi"]}


@pytest.mark.parametrize(
    ("policy", "requested", "consumed", "is_allowed"),
    [
        (ZERO_STEP, "1500Mi", "1500Mi", True),
        (ZERO_STEP, "5Gi", "5Gi", False),
        (ODD_STEP, "1", "3", True),
        (ODD_STEP, "3", "3", True),
        (ODD_STEP, "4", "7", True),
        (ODD_STEP, "7", "7", True),
        (ODD_STEP, "8", "11", True),
        (ODD_STEP, "19", "19", True),
        (ODD_STEP, "20", "23", False),
        (ODD_STEP, None, "1", True),
        (NO_DEFAULT, None, "8Gi", False),
        (NO_DEFAULT, "3Gi", "4Gi", True),
    ],
)
def test_steps_are_counted_from_the_minimum(
    policy: dict[str, Any], requested: str | None, consumed: str, is_allowed: bool
) -> None:
    capacity = capacity_with(policy)
    amount = Quantity.from_wire(requested) if requested is not None else None
    requests = {} if amount is None else {"memory": amount}

    assert consumed_amount(capacity, amount) == Quantity.from_wire(consumed)
    assert has_capacity({"memory": capacity}, requests) is is_allowed


def test_a_range_without_a_minimum_begins_at_zero() -> None:
    capacity = capacity_with(None)
    policy = RequestPolicy(None, (), True, None, None, Quantity.from_wire("2Gi"))
    stepped = capacity._replace(policy=policy)

    for amount, is_allowed in (("2Gi", True), ("4Gi", True), ("3Gi", False)):
        requests = {"memory": Quantity.from_wire(amount)}
        assert has_capacity({"memory": stepped}, requests) is is_allowed


@pytest.mark.parametrize("order", [("memory", "cores"), ("cores", "memory")])
@pytest.mark.parametrize("used", [(), ({"memory": 0},)])
def test_every_capacity_must_be_large_enough(
    order: tuple[str, ...], used: tuple[dict[str, int], ...]
) -> None:
    values = {"memory": "8Gi", "cores": "4Gi"}
    capacities = {name: capacity_with(None, values[name]) for name in order}

    def fits(**amounts: str) -> bool:
        requests = {name: Quantity.from_wire(amount) for name, amount in amounts.items()}
        return has_capacity(capacities, requests, used)

    assert fits(memory="8Gi", cores="4Gi")
    assert not fits(memory="8Gi", cores="5Gi")
    assert not fits(memory="9Gi", cores="4Gi")
    assert fits(memory="8Gi")
    assert not fits(cores="5Gi")


def test_what_others_consume_of_another_capacity_does_not_matter() -> None:
    capacities = {"memory": capacity_with(None, "8Gi"), "cores": capacity_with(None, "4Gi")}
    requests = {name: Quantity.from_wire("4Gi") for name in capacities}
    gibi = 2**30 * 10**9

    assert has_capacity(capacities, requests, [{"memory": 4 * gibi}])
    assert not has_capacity(capacities, requests, [{"memory": 4 * gibi + 1}])
    assert not has_capacity(capacities, requests, [{"cores": 1}])
