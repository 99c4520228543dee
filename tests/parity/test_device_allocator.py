"""The allocator gives kube-scheduler's answers in 1 023 recorded calls.

A case is a node, classes, slices, claims and devices in use; ``data/README.md`` describes the
fields. Selectors are answered by ``mooring.cel``, and from a second file, which kube-scheduler's
CEL compiler wrote: so the allocator is compared alone, too.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mooring.dra import (
    ALL_FEATURES,
    AllocatedState,
    AllocationError,
    Allocator,
    CELCompiler,
    DeviceFeatures,
    DeviceID,
    InvalidPools,
    SelectorFailed,
    Selectors,
    Slices,
    TargetNode,
    features_of,
    prepare_claim,
)
from mooring.dra.devices import SliceDevice
from mooring.dra.selectors import Names, whole_content
from mooring.objects.codec.decode import convert
from mooring.objects.quantity import Quantity
from mooring.objects.resource import AllocationResult, Device, ResourceSlice

DATA = Path(__file__).parent / "data"

SHARE = "00000000-0000-0000-0000-000000000000"


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as file:
        yield from map(json.loads, file)


class RecordedProgram:
    """A selector whose answers are in the file."""

    names: Names = None

    def __init__(self, answers: dict[Hashable, dict[str, Any]]) -> None:
        self._answers = answers

    def matches(self, device: SliceDevice) -> bool:
        answer = self._answers[content(device.driver, device.device)]
        if answer.get("error"):
            raise SelectorFailed(f"CEL runtime error: {answer['error']}")
        return bool(answer["matches"])

    def content(self, device: SliceDevice) -> Hashable:
        return whole_content(device)


class RecordedCompiler:
    """Compiles the expressions that are in the file."""

    def __init__(self) -> None:
        self._selectors = {
            line["expression"]: line for line in lines("dra-allocator-selectors.jsonl.gz")
        }

    def compile(self, expression: str) -> RecordedProgram:
        line = self._selectors[expression]
        if line.get("compile_error"):
            raise SelectorFailed(f"CEL compile error: {line['compile_error']}")
        answers = {}
        for document, answer in zip(line["devices"], line["answers"], strict=True):
            driver = document.pop("driver")
            answers[content(driver, device_of(document))] = answer
        return RecordedProgram(answers)


def device_of(document: dict[str, Any]) -> Device:
    spec = {"metadata": {"name": "s"}, "spec": {"devices": [document]}}
    slice_of_one: ResourceSlice = convert(spec, "ResourceSlice")
    return slice_of_one.spec.devices[0]


def content(driver: str, device: Device) -> Hashable:
    """Returns what a selector can read of a device, in any order of attributes."""
    return (
        driver,
        bool(device.allow_multiple_allocations),
        frozenset(device.attributes.items()),
        frozenset(device.capacity.items()),
    )


@cache
def selectors(name: str) -> Selectors:
    return Selectors(RecordedCompiler() if name == "recorded" else CELCompiler())


def allocated_state(case: dict[str, Any]) -> AllocatedState:
    return AllocatedState(
        dedicated={DeviceID(*device) for device in case.get("allocated") or []},
        shared={DeviceID(*device[:3]) for device in case.get("allocated_shared") or []},
        consumed={
            DeviceID(*entry["device"]): {
                name: Quantity.from_wire(amount).nanos for name, amount in entry["capacity"].items()
            }
            for entry in case.get("consumed") or []
        },
    )


def allocated_alone(case: dict[str, Any]) -> AllocatedState:
    """Returns the state without shared devices: who has a share has the device."""
    entries = [*(case.get("allocated") or []), *(case.get("allocated_shared") or [])]
    return AllocatedState(dedicated={DeviceID(*entry[:3]) for entry in entries})


def slices_of(case: dict[str, Any]) -> list[ResourceSlice]:
    """Returns the slices, with names of their own: in three of upstream's tests they share one."""
    counts: Counter[str] = Counter()
    slices = []
    for document in case["slices"] or []:
        name = document["metadata"]["name"]
        counts[name] += 1
        unique = {**document["metadata"], "name": f"{name}-again" * (counts[name] > 1) or name}
        slices.append(convert({**document, "metadata": unique}, "ResourceSlice"))
    return slices


def answer(
    case: dict[str, Any], compiler: str, features: DeviceFeatures = ALL_FEATURES
) -> tuple[list[Any] | None, str, bool, int]:
    """Returns results, error, whether it is of the node alone, and steps."""
    classes = {
        document["metadata"]["name"]: convert(document, "DeviceClass")
        for document in case["classes"] or []
    }
    slices = Slices(slices_of(case), features=features)
    metadata = case["node"]["metadata"]
    node = TargetNode(metadata["name"], metadata.get("labels") or {})
    claims = [
        prepare_claim(convert(document, "ResourceClaim"), classes.get, features)
        for document in case["claims"] or []
    ]
    allocated = allocated_state(case) if features.is_shareable else allocated_alone(case)
    allocator = Allocator(allocated, selectors(compiler))
    try:
        solution = allocator.allocate(node, slices.pools(node), claims)
        if solution is None:
            return None, "", False, 0
        results = solution.results(lambda: SHARE)
    except AllocationError as error:
        return None, str(error), False, 0
    except InvalidPools as error:
        return None, str(error), True, 0
    return [comparable(result) for result in results], "", False, solution.steps


def comparable(result: AllocationResult) -> dict[str, Any]:
    """Returns the parts of an allocation with quantities by value and share IDs by presence."""
    return {
        "results": [
            (
                device.request,
                *(device.driver, device.pool, device.device),
                device.admin_access,
                device.tolerations,
                *(device.binding_conditions, device.binding_failure_conditions),
                device.share_id is not None,
                {name: Quantity.from_wire(raw) for name, raw in device.consumed_capacity.items()},
            )
            for device in result.devices.results
        ],
        "config": result.devices.config,
        "selector": result.node_selector,
    }


def expected(case: dict[str, Any]) -> tuple[list[Any] | None, str, bool, int]:
    """Returns kube-scheduler's answer with default feature gates."""
    expect = case.get("expect_default") or case["expect"]
    results = expect["results"]
    if results is not None:
        results = [comparable(allocation(document)) for document in results]
    # The lister of the recording wrote the resource, that of kube-scheduler writes the kind.
    error = expect.get("error", "").replace("deviceclasses.resource", "deviceclass.resource")
    steps = expect.get("invocations") or 0
    return results, error, bool(expect.get("error_on_node")), steps if results is not None else 0


def allocation(document: dict[str, Any]) -> AllocationResult:
    claim = convert(
        {"metadata": {"name": "c", "namespace": "d"}, "status": {"allocation": document}},
        "ResourceClaim",
    )
    result: AllocationResult = claim.status.allocation
    return result


CASES = list(lines("dra-allocator-cases.jsonl.gz"))


@pytest.mark.parametrize("compiler", ["recorded", "mooring.cel"])
@pytest.mark.parametrize("source", ["upstream unit test", "quirk", "random"])
def test_the_allocator_gives_the_recorded_answers(source: str, compiler: str) -> None:
    cases = [case for case in CASES if case["source"] == source]

    different = {case["name"]: (answer(case, compiler), expected(case)) for case in cases}

    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}


def test_all_cases_are_here() -> None:
    assert len(CASES) == 1023
    assert sum(case["expect"]["results"] is not None for case in CASES) > 400


# ---- feature gates switched off: data/dra-gates-answers.jsonl.gz, made by bench/peer/devices ----

GATES_OFF = [
    ("DRAPartitionableDevices",),
    ("DRADeviceTaints",),
    ("DRAConsumableCapacity",),
    ("DRADeviceBindingConditions",),
    ("DRAConsumableCapacity", "DRADeviceBindingConditions"),
    (
        "DRAPartitionableDevices",
        "DRADeviceTaints",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
    ),
]


@cache
def answers_without(off: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Returns kube-scheduler's answers by case, where they differ from those by default."""
    return {
        line["name"]: line["answers"]
        for line in lines("dra-gates-answers.jsonl.gz")
        if tuple(line["off"]) == off
    }


@pytest.mark.parametrize("off", GATES_OFF, ids="+".join)
def test_the_allocator_gives_the_recorded_answers_without_gates(off: tuple[str, ...]) -> None:
    features = features_of(dict.fromkeys(off, False))
    recorded = answers_without(off)
    different = {}
    for case in CASES:
        standard = answer(case, "mooring.cel", features)
        expects = [(results, error) for results, error, _, _ in [expected(case)]]
        if case["name"] in recorded:
            expects = [
                expected({"expect": {**one, "error": one.get("error", "")}})[:2]
                for one in recorded[case["name"]]
            ]
        if standard[:2] not in expects and not is_another_order(standard[0], expects):
            different[case["name"]] = standard[:2], expects
    assert different == {}


def is_another_order(results: list[Any] | None, expects: list[Any]) -> bool:
    """Returns whether upstream, which visits pools in random order, has answers of this form.

    It was asked 24 times. Cases with many pools have more orders: there, which requests get how
    many devices is compared.
    """

    def form(found: list[Any] | None) -> Any:
        return [[device[0] for device in one["results"]] for one in found] if found else None

    return len(expects) > 4 and form(results) in [form(found) for found, _ in expects]
