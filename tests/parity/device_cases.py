"""1 023 recorded calls of kube-scheduler's allocator of devices, and mooring's answers to them.

A case is a node, classes, slices, claims and devices in use; ``data/README.md`` describes the
fields. Selectors are answered by ``mooring.cel``, or from a second file, which kube-scheduler's
CEL compiler wrote: so the allocator is compared alone, too. For some sets of feature gates that are
off there are further answers, where these differ (``bench/peer/devices``).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

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
    Solution,
    TargetNode,
    prepare_claim,
)
from mooring.dra.devices import SliceDevice
from mooring.dra.requests import PreparedClaim
from mooring.dra.selectors import Names, whole_content
from mooring.objects.codec.decode import convert
from mooring.objects.quantity import Quantity
from mooring.objects.resource import AllocationResult, Device, ResourceSlice

DATA = Path(__file__).parent / "data"

SHARE = "00000000-0000-0000-0000-000000000000"
#: The sets of gates for which there are answers; all others are on.
GATES_OFF: Final[tuple[tuple[str, ...], ...]] = (
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
)


class Answer(NamedTuple):
    """An answer of an allocator.

    Attributes:
        results: The allocation of each claim; None = there is none.
        error: Its text; "" = there is none.
        is_of_node: Whether the error is of the node alone.
        steps: The number of steps of the search; 0 without results.
    """

    results: list[Any] | None
    error: str
    is_of_node: bool
    steps: int


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yields the documents of a file."""
    with gzip.open(DATA / name, "rt") as file:
        yield from map(json.loads, file)


# -- selectors ------------------------------------------------------------------------------------


class RecordedProgram:
    """A selector whose answers are in the file."""

    names: Names = None

    def __init__(self, answers: dict[Hashable, dict[str, Any]]) -> None:
        self._answers = answers

    def matches(self, device: SliceDevice) -> bool:
        """Returns the recorded answer for a device.

        Raises:
            SelectorFailed: it is an error.
        """
        answer = self._answers[content(device.driver, device.device)]
        if answer.get("error"):
            raise SelectorFailed(f"CEL runtime error: {answer['error']}")
        return bool(answer["matches"])

    def content(self, device: SliceDevice) -> Hashable:
        """Returns all of a device."""
        return whole_content(device)


class RecordedCompiler:
    """Compiles the expressions that are in the file."""

    def compile(self, expression: str) -> RecordedProgram:
        """Returns the program with the recorded answers.

        Raises:
            SelectorFailed: the expression does not compile.
        """
        line = _recorded_selectors()[expression]
        if line.get("compile_error"):
            raise SelectorFailed(f"CEL compile error: {line['compile_error']}")
        answers = {}
        for document, answer in zip(line["devices"], line["answers"], strict=True):
            device = {name: value for name, value in document.items() if name != "driver"}
            answers[content(document["driver"], device_of(device))] = answer
        return RecordedProgram(answers)


def device_of(document: dict[str, Any]) -> Device:
    """Returns a device that is written as in a slice."""
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
def _recorded_selectors() -> dict[str, dict[str, Any]]:
    """Returns the recorded answers by expression."""
    return {line["expression"]: line for line in lines("dra-allocator-selectors.jsonl.gz")}


def selectors(name: str) -> Selectors:
    """Returns new selectors: with "recorded" answers, or else with mooring's own compiler."""
    return Selectors(RecordedCompiler() if name == "recorded" else CELCompiler())


# -- what a case has ------------------------------------------------------------------------------


def node_of(case: dict[str, Any]) -> TargetNode:
    """Returns the node of a case."""
    metadata = case["node"]["metadata"]
    return TargetNode(metadata["name"], metadata.get("labels") or {})


def claims_of(case: dict[str, Any], features: DeviceFeatures) -> list[PreparedClaim]:
    """Returns the claims of a case."""
    classes = {
        document["metadata"]["name"]: convert(document, "DeviceClass")
        for document in case["classes"] or []
    }
    return [
        prepare_claim(convert(document, "ResourceClaim"), classes.get, features)
        for document in case["claims"] or []
    ]


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


def allocated_of(case: dict[str, Any], features: DeviceFeatures) -> AllocatedState:
    """Returns the devices in use; if devices cannot be shared, who has a share has the device."""
    dedicated, shared = case.get("allocated") or [], case.get("allocated_shared") or []
    if not features.is_shareable:
        return AllocatedState(dedicated={DeviceID(*it[:3]) for it in (*dedicated, *shared)})
    return AllocatedState(
        dedicated={DeviceID(*device) for device in dedicated},
        shared={DeviceID(*device[:3]) for device in shared},
        consumed={
            DeviceID(*entry["device"]): {
                name: Quantity.from_wire(amount).nanos for name, amount in entry["capacity"].items()
            }
            for entry in case.get("consumed") or []
        },
    )


# -- answers --------------------------------------------------------------------------------------


def answer(
    case: dict[str, Any],
    of_devices: Selectors,
    features: DeviceFeatures = ALL_FEATURES,
    slices: Slices | None = None,
) -> Answer:
    """Returns mooring's answer to a case.

    Args:
        case: The case.
        of_devices: Answers the selectors of devices.
        features: The feature gates.
        slices: The slices of the case; None = they are put in their order.
    """
    if slices is None:
        slices = Slices(slices_of(case), features=features)
    node, claims = node_of(case), claims_of(case, features)
    allocator = Allocator(allocated_of(case, features), of_devices)
    return answer_of(lambda: allocator.allocate(node, slices.pools(node), claims))


def answer_of(search: Callable[[], Solution | None]) -> Answer:
    """Returns what a search for devices ends with."""
    try:
        solution = search()
        if solution is None:
            return Answer(None, "", False, 0)
        results = solution.results(lambda: SHARE)
    except AllocationError as error:
        return Answer(None, str(error), False, 0)
    except InvalidPools as error:
        return Answer(None, str(error), True, 0)
    return Answer([comparable(result) for result in results], "", False, solution.steps)


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


def expected(case: dict[str, Any]) -> Answer:
    """Returns kube-scheduler's answer with default feature gates."""
    expect = case.get("expect_default") or case["expect"]
    results = expect["results"]
    if results is not None:
        results = [comparable(allocation(document)) for document in results]
    # The lister of the recording wrote the resource, that of kube-scheduler writes the kind.
    error = expect.get("error", "").replace("deviceclasses.resource", "deviceclass.resource")
    steps = expect.get("invocations") or 0
    is_of_node = bool(expect.get("error_on_node"))
    return Answer(results, error, is_of_node, steps if results is not None else 0)


def expected_without(case: dict[str, Any], off: tuple[str, ...]) -> list[Answer]:
    """Returns kube-scheduler's answers without some gates, of which each is right.

    Several: upstream visits pools in random order then. Only results and errors are recorded.
    """
    recorded = answers_without(off).get(case["name"])
    if recorded is None:
        return [expected(case)]
    return [expected({"expect": {**one, "error": one.get("error", "")}}) for one in recorded]


@cache
def answers_without(off: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Returns kube-scheduler's answers by case, where they differ from those by default."""
    return {
        line["name"]: line["answers"]
        for line in lines("dra-gates-answers.jsonl.gz")
        if tuple(line["off"]) == off
    }


def is_expected(actual: Answer, answers: list[Answer]) -> bool:
    """Returns whether results and error are one of upstream's, which was asked 24 times.

    Cases with many pools have more orders of the pools: there, which requests get how many devices
    is compared.
    """
    if actual[:2] in [one[:2] for one in answers]:
        return True
    return len(answers) > 4 and _form(actual.results) in [_form(one.results) for one in answers]


def _form(results: list[Any] | None) -> Any:
    return [[device[0] for device in one["results"]] for one in results] if results else None


def allocation(document: dict[str, Any]) -> AllocationResult:
    """Returns an allocation that is written as in a claim."""
    claim = convert(
        {"metadata": {"name": "c", "namespace": "d"}, "status": {"allocation": document}},
        "ResourceClaim",
    )
    result: AllocationResult = claim.status.allocation
    return result


CASES: Final = list(lines("dra-allocator-cases.jsonl.gz"))
