"""Files of devices: which slices and classes they make, and what is wrong with bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.resource import DeviceClass, ResourceSlice
from mooring.simulation.device_file import (
    DeviceFile,
    device_objects,
    read_device_file,
    slices_of_node,
)
from mooring.testing import make_node

GPUS = """
drivers:
- driver: gpu.example.com
  nodes: {names: [gpu-*], matchLabels: {pool: ml}}
  devices:
  - model: H100 SXM
    count: 2
    attributes: {numa: [0, 1], nvlink: true, cores: 132, driverVersion: {version: 580.1.0}}
    capacity: {memory: 80Gi}
  - {model: A2, name: small, allowMultipleAllocations: true}
deviceClasses:
- name: gpu.example.com
  selectors: ["device.driver == 'gpu.example.com'"]
  extendedResourceName: example.com/gpu
"""


def read(folder: Path, text: str) -> DeviceFile:
    file = folder / "devices.yaml"
    file.write_text(text)
    return read_device_file(str(file))


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    error = caught.value
    errors = error.errors if isinstance(error, ConfigErrors) else [error]
    return [str(one).replace(f"{folder}/", "") for one in errors]


def test_a_node_has_the_devices_of_its_entry_as_one_pool(tmp_path: Path) -> None:
    file = read(tmp_path, GPUS)
    (part,) = slices_of_node(file, make_node("gpu-1", labels={"pool": "ml"}))
    spec = part.spec
    assert part.metadata.name == "gpu-1-gpu.example.com-0"
    assert (spec.driver, spec.node_name) == ("gpu.example.com", "gpu-1")
    pool = spec.pool
    assert (pool.name, pool.generation, pool.resource_slice_count) == ("gpu-1", 1, 1)
    assert [device.name for device in spec.devices] == ["h100-sxm-0", "h100-sxm-1", "small-0"]
    first, second, small = spec.devices
    assert first.attributes["model"].string_value == "H100 SXM"
    assert first.attributes["nvlink"].bool_value is True
    assert first.attributes["cores"].int_value == 132
    assert first.attributes["driverVersion"].version_value == "580.1.0"
    assert [device.attributes["numa"].int_value for device in (first, second)] == [0, 1]
    assert first.capacity["memory"].value == "80Gi"
    assert small.allow_multiple_allocations is True


@pytest.mark.parametrize(
    ("name", "labels"), [("cpu-1", {"pool": "ml"}), ("gpu-1", {"pool": "web"}), ("gpu-1", {})]
)
def test_other_nodes_have_none(tmp_path: Path, name: str, labels: dict[str, str]) -> None:
    assert slices_of_node(read(tmp_path, GPUS), make_node(name, labels=labels)) == []


def test_classes_come_before_the_slices(tmp_path: Path) -> None:
    file = read(tmp_path, GPUS)
    first, second = device_objects(file, [make_node("gpu-1", labels={"pool": "ml"})])
    assert isinstance(first, DeviceClass)
    assert first.spec.extended_resource_name == "example.com/gpu"
    assert isinstance(second, ResourceSlice)


def test_many_devices_are_several_slices_of_one_pool(tmp_path: Path) -> None:
    file = read(tmp_path, "drivers: [{driver: a.b, devices: [{model: M, count: 300}]}]")
    slices = slices_of_node(file, make_node("n"))
    assert [len(part.spec.devices) for part in slices] == [128, 128, 44]
    assert {part.spec.pool.resource_slice_count for part in slices} == {3}
    assert len({part.metadata.name for part in slices}) == 3


def test_two_entries_of_a_driver_cannot_have_the_same_node(tmp_path: Path) -> None:
    entry = "{driver: a.b, devices: [{model: M}]}"
    file = read(tmp_path, f"drivers: [{entry}, {entry}]")
    with pytest.raises(ConfigError, match=r"drivers\[1\].nodes: selects node 'n', which drivers"):
        slices_of_node(file, make_node("n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("driver: x", "devices.yaml: line 1: driver: unknown field (did you mean 'drivers'?)"),
        ("drivers: [{devices: []}]", "devices.yaml: line 1: drivers[0].driver: is required"),
        (
            "drivers:\n- driver: a.b\n  devices: []",
            "devices.yaml: line 3: drivers[0].devices: must not be empty",
        ),
        (
            "drivers: [{driver: a.b, devices: [{model: M, count: 0}]}]",
            "devices.yaml: line 1: drivers[0].devices[0].count: must be an integer from 1 to "
            "2048, got 0",
        ),
        (
            "drivers: [{driver: a.b, devices: [{model: M, attributes: {x: 1.5}}]}]",
            "devices.yaml: line 1: drivers[0].devices[0].attributes.x: must be a string, an "
            "integer, a boolean or {version: TEXT}, got 1.5",
        ),
        (
            "drivers: [{driver: a.b, devices: [{model: M, count: 2, attributes: {x: [1]}}]}]",
            "devices.yaml: line 1: drivers[0].devices[0].attributes.x: must have one value for "
            "each of the 2 devices, got [1]",
        ),
        (
            "drivers: [{driver: a.b, devices: [{model: M}, {model: m}]}]",
            "devices.yaml: line 1: drivers[0].devices[1].name: is the name prefix of earlier "
            "devices; set a different name, got 'm'",
        ),
        (
            "drivers: [{driver: A B, devices: [{model: M, attributes: {v: {version: '1'}}}]}]",
            "makes an invalid resource slice: spec.driver: ",
        ),
        (
            "drivers: [{driver: a.b, devices: [{model: M, capacity: {memory: lots}}]}]",
            "makes an invalid resource slice: ",
        ),
        (
            "deviceClasses: [{name: a, selectors: [device.x]}]",
            "makes an invalid device class: spec.selectors[0].cel.expression: ",
        ),
        ("deviceClasses: [{name: a}, {name: a}]", "is the name of an earlier class, got 'a'"),
        ("drivers: []\n---\ndrivers: []", "must be the only document of the file"),
    ],
)
def test_errors_name_the_line_the_field_and_the_value(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problem in "\n".join(problems_of(tmp_path, text))
