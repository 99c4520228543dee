"""Nodes with eight devices each, and pods that claim one or two of them.

Each pod has a claim of its own. Known: all claims are as made from one template, two devices of one
NUMA node. New: every claim has a spec that no pod had before, another count of another kind of
device by constraint and capacity.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mooring.clock import SystemClock
from mooring.framework import Cycle, Status
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceSlice
from mooring.simulation.driver import Driver

DEVICES = 8
DRIVER = "gpu.example.com"

CLASS = convert(
    {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    },
    "DeviceClass",
)

#: The PreBind method of a plugin.
PreBind = Callable[[Cycle, str], Awaitable[Status | None]]

#: The spec of the claim of a pod by number.
Spec = Callable[[int], dict[str, Any]]


def resource_slice(number: int) -> ResourceSlice:
    """Returns the slice of a node: two models, two NUMA nodes, 80Gi each."""
    node = f"node-{number:05}"
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": ("a", "b")[index % 2]},
                "numa": {"int": index * 2 // DEVICES},
                "uuid": {"string": f"GPU-{number:05}-{index}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    made: ResourceSlice = convert({"metadata": {"name": node}, "spec": spec}, "ResourceSlice")
    return made


def time_pre_bind(driver: Driver, clock: SystemClock) -> list[float]:
    """Notes the seconds of each PreBind from now on, which writes claims to an API server."""
    spent_s: list[float] = []
    for framework in driver.frameworks.values():
        for plugin in framework.plugins("pre_bind"):
            if plugin.name == "DynamicResources":
                plugin.pre_bind = _timed(plugin.pre_bind, clock, spent_s)
    return spent_s


def _timed(pre_bind: PreBind, clock: SystemClock, spent_s: list[float]) -> PreBind:
    """Returns a PreBind method that notes its seconds."""

    async def timed(cycle: Cycle, node_name: str) -> Status | None:
        started_s = clock.cpu_s()
        status = await pre_bind(cycle, node_name)
        spent_s.append(clock.cpu_s() - started_s)
        return status

    return timed


def known_spec(number: int) -> dict[str, Any]:
    """Returns one device of model a; the same for all pods."""
    del number
    return _spec(1, "a", "1Gi")


def new_spec(number: int) -> dict[str, Any]:
    """Returns one or two devices with an amount of memory that no other pod requests."""
    return _spec(1 + number % 2, ("a", "b")[number % 3 % 2], f"{1 + number}Mi")


def _spec(count: int, model: str, memory: str) -> dict[str, Any]:
    selector = f'device.attributes["{DRIVER}"].model == "{model}"'
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": selector}}],
        "capacity": {"requests": {"memory": memory}},
    }
    constraint = {"requests": ["gpu"], "matchAttribute": f"{DRIVER}/numa"}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"devices": {"requests": requests, "constraints": [constraint]}}


def objects(spec: Spec, node_count: int, pod_count: int) -> Iterable[Any]:
    """Yields the class, a slice of each node, and a claim of each pod."""
    yield CLASS
    yield from map(resource_slice, range(node_count))
    for number in range(pod_count):
        yield claim(number, spec(number))


def claim(number: int, spec: dict[str, Any]) -> ResourceClaim:
    """Returns the claim of a pod."""
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-claim-{number}"}
    metadata["resourceVersion"] = str(1 + number)
    made: ResourceClaim = convert({"metadata": metadata, "spec": spec}, "ResourceClaim")
    return made


def pod(number: int) -> Pod:
    """Returns a pod with its claim."""
    requests = {"cpu": "10m", "memory": "50Mi"}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim-{number}"}],
    }
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-pod-{number}"}
    made: Pod = convert({"metadata": metadata, "spec": spec}, "Pod")
    return made
