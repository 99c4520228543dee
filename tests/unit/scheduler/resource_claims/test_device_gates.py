"""A running scheduler with the feature gates of devices switched off.

The expectations are read from kube-scheduler v1.36.3; the allocator alone is compared with
upstream's in ``tests/parity/test_device_allocator.py``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.client.transport.transport import Request
from mooring.dra import DeviceID, features_of
from mooring.state.devices.allocated import AllocatedDevices
from mooring.testing import make_node, make_pod
from tests.helpers.devices import (
    DRIVER,
    exactly,
    first_of,
    make_claim,
    make_class,
    make_device,
    make_slice,
)
from tests.helpers.running_scheduler import Life, run_scheduler, virtually

CEL = f'device.driver == "{DRIVER}"'
TAINT = {"key": "broken", "effect": "NoSchedule"}
CONDITIONS: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["bad"]}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
CONSUMES = {"consumesCounters": [{"counterSet": "set", "counters": {"mem": {"value": "1Gi"}}}]}
COUNTERS = [{"name": "set", "counters": {"mem": {"value": "4Gi"}}}]
CONDITION_GATES = {
    "DRADeviceBindingConditions": False,
    "DRAResourceClaimDeviceStatus": False,
    "DRAResourceClaimGranularStatusAuthorization": False,
}


def claiming(name: str, claim: str) -> Any:
    return make_pod(name, spec={"resourceClaims": [{"name": "c", "resourceClaimName": claim}]})


async def outcome(life: Life, pod: Any) -> str:
    """Returns "bound", or the message of the first failure."""
    name = pod.metadata.name
    await life.create(pod)
    await life.until(lambda: any(_results(life, name)))
    return next(_results(life, name))


def _results(life: Life, name: str) -> Iterator[str]:
    for what, of, detail in life.observer.lines:
        if of == name and what in ("bound", "failed"):
            yield detail if what == "failed" else what


async def status_of(life: Life, claim: str) -> Any:
    path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim}"
    return json.loads(await life.client.read(Request("GET", path, deadline_s=5.0)))["status"]


NOT_ALLOCATED = "0/1 nodes are available: 1 cannot allocate all claims."
CAPACITY = {"requests": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("gate", "request_", "device", "with_gate", "without"),
    [
        ("DRADeviceTaints", exactly(), {"taints": [TAINT]}, NOT_ALLOCATED, "bound"),
        ("DRAPartitionableDevices", exactly(), CONSUMES, "bound", NOT_ALLOCATED),
        (
            "DRAPrioritizedList",
            first_of("r", "gpu"),
            {},
            "bound",
            "resource claim default/mine, request r: has subrequests, "
            "but the DRAPrioritizedList feature is disabled",
        ),
        (
            "DRAConsumableCapacity",
            exactly(capacity=CAPACITY),
            SHARED,
            "bound",
            'running "DynamicResources" filter plugin: claim default/mine, request r: '
            "has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("DRA") else "",
)
def test_a_gate_decides_whether_a_claim_is_allocated(
    gate: str, request_: Any, device: dict[str, Any], with_gate: str, without: str
) -> None:
    @virtually
    async def decide(is_on: bool, expected: str) -> None:
        has_counters = "consumesCounters" in device
        slices = [
            make_slice("gpus", [make_device("d0", **device)], node="a", count=1 + has_counters)
        ]
        if has_counters:
            slices.append(
                make_slice("sets", pool="a", count=2, nodeName="a", sharedCounters=COUNTERS)
            )
        objects = [make_node("a"), make_class("gpu", CEL), *slices, make_claim("mine", request_)]
        async with run_scheduler(
            *objects, feature_gates={} if is_on else {gate: False}, at_rest=False
        ) as life:
            assert expected in await outcome(life, claiming("web", "mine"))

    decide(True, with_gate)
    decide(False, without)


@virtually
async def test_without_binding_conditions_an_allocation_has_no_time() -> None:
    objects = [
        make_node("a"),
        make_class("gpu", CEL),
        make_slice("gpus", [make_device("d0"), make_device("d1", **CONDITIONS)], node="a"),
        make_claim("mine", exactly()),
        make_claim("late", exactly()),
    ]
    async with run_scheduler(*objects, feature_gates=CONDITION_GATES) as life:
        assert await outcome(life, claiming("web", "mine")) == "bound"
        allocation = (await status_of(life, "mine"))["allocation"]
        assert allocation["devices"]["results"][0]["device"] == "d0"
        assert "allocationTimestamp" not in allocation
        # A device with binding conditions cannot be allocated at all.
        assert (await outcome(life, claiming("late", "late"))).startswith(NOT_ALLOCATED)


def test_without_shared_devices_a_share_is_the_whole_device() -> None:
    share = {"request": "r", "driver": DRIVER, "pool": "a", "device": "d0", "shareID": "s"}
    held = make_claim("held", exactly(), allocated=[share], on="a")
    for gates, is_dedicated in (({}, False), ({"DRAConsumableCapacity": False}, True)):
        devices = AllocatedDevices(features=features_of(gates))
        devices.claim_changed(None, held)
        assert (DeviceID(DRIVER, "a", "d0") in devices.state.dedicated) is is_dedicated
        assert bool(devices.state.shared) is not is_dedicated
        devices.claim_changed(held, None)
        devices.begin(held)
        assert bool(devices.state.dedicated) is is_dedicated


@virtually
async def test_without_extended_resources_no_class_stands_for_one() -> None:
    objects = [
        make_node("a"),
        make_class("gpu", CEL, resource="example.com/gpu"),
        make_slice("gpus", [make_device("d0")], node="a"),
    ]
    async with run_scheduler(*objects, feature_gates={"DRAExtendedResource": False}) as life:
        pod = make_pod("web", limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"})
        assert "1 Insufficient example.com/gpu" in await outcome(life, pod)
        (framework,) = life.service.profiles.values()
        fit = next(one for one in framework.rejecting_plugins() if one.name == "NodeResourcesFit")
        assert all("DeviceClass" not in str(entry.event) for entry in fit.events())


@virtually
async def test_with_taint_rules_it_waits_for_a_server_that_serves_them() -> None:
    """As kube-scheduler; without the gate a server without the kind is enough."""
    with pytest.raises(TimeoutError):
        async with (
            asyncio.timeout(600),
            run_scheduler(feature_gates={"DRADeviceTaintRules": True}),
        ):
            pytest.fail("the embedded API server does not serve DeviceTaintRules")
    async with run_scheduler() as life:
        assert "DeviceTaintRule" not in life.world.service.informers
