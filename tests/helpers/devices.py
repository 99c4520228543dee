"""Slices, classes and claims for tests, and selectors that are plain comparisons of attributes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mooring.dra import SelectorFailed, Selectors
from mooring.dra.devices import SliceDevice
from mooring.dra.selectors import Names, whole_content
from mooring.objects.codec.decode import convert
from mooring.objects.resource import DeviceClass, ResourceClaim, ResourceSlice

DRIVER = "gpu.test"


class AttributeProgram:
    """A selector ``NAME=TEXT``: true if the string attribute has this value."""

    names: Names = None

    def __init__(self, expression: str) -> None:
        self._name, _, self._value = expression.partition("=")
        self.evaluated: list[str] = []

    def matches(self, device: SliceDevice) -> bool:
        self.evaluated.append(device.id.device)
        attribute = device.device.attributes.get(self._name)
        if attribute is None:
            raise SelectorFailed(f"CEL runtime error: no such key: {self._name}")
        return attribute.string_value == self._value

    def content(self, device: SliceDevice) -> Hashable:
        return whole_content(device)


class AttributeCompiler:
    """Compiles ``NAME=TEXT``; a text without "=" does not compile."""

    def __init__(self) -> None:
        self.programs: dict[str, AttributeProgram] = {}

    def compile(self, expression: str) -> AttributeProgram:
        if "=" not in expression:
            raise SelectorFailed(f"CEL compile error: {expression}")
        self.programs[expression] = AttributeProgram(expression)
        return self.programs[expression]


def selectors() -> Selectors:
    return Selectors(AttributeCompiler())


def make_device(name: str, *, model: str | None = None, **fields: Any) -> dict[str, Any]:
    attributes = {"model": {"string": model}} if model is not None else {}
    return {"name": name, "attributes": attributes} | fields


def make_slice(
    name: str,
    devices: list[dict[str, Any]] | None = None,
    *,
    node: str | None = None,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    if node is not None:
        spec["nodeName"] = node
    document = {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {
                "name": pool or node or name,
                "generation": generation,
                "resourceSliceCount": count,
            },
            "devices": devices or [],
            **spec,
        },
    }
    result: ResourceSlice = convert(document, "ResourceSlice")
    return result


def make_class(
    name: str, *selectors_of_class: str, resource: str | None = None, created: str | None = None
) -> DeviceClass:
    spec: dict[str, Any] = {
        "selectors": [{"cel": {"expression": text}} for text in selectors_of_class]
    }
    if resource is not None:
        spec["extendedResourceName"] = resource
    metadata = {"name": name, **({"creationTimestamp": created} if created else {})}
    result: DeviceClass = convert({"metadata": metadata, "spec": spec}, "DeviceClass")
    return result


def exactly(name: str = "r", *, device_class: str = "gpu", count: int = 1, **more: Any) -> Any:
    fields = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**fields, **more}}


def all_of(name: str = "r", *, device_class: str = "gpu") -> Any:
    return {"name": name, "exactly": {"deviceClassName": device_class, "allocationMode": "All"}}


def first_of(name: str, *device_classes: str) -> Any:
    alternatives = [
        {"name": text, "deviceClassName": text, "allocationMode": "ExactCount", "count": 1}
        for text in device_classes
    ]
    return {"name": name, "firstAvailable": alternatives}


def make_claim(
    name: str,
    *requests: Any,
    namespace: str = "default",
    allocated: list[dict[str, Any]] | None = None,
    on: str | None = None,
    constraints: list[dict[str, Any]] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> ResourceClaim:
    """Returns a claim; ``allocated`` are the results of its allocation, usable on node ``on``."""
    full_status: dict[str, Any] = dict(status or {})
    if allocated is not None:
        allocation: dict[str, Any] = {"devices": {"results": allocated}}
        if on is not None:
            field = {"key": "metadata.name", "operator": "In", "values": [on]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        full_status["allocation"] = allocation
    document = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
        "spec": {"devices": {"requests": list(requests), "constraints": constraints or []}},
        "status": full_status,
    }
    result: ResourceClaim = convert(document, "ResourceClaim")
    return result


def result_of(device: str, pool: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more}
