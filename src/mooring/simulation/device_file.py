"""Simulated drivers of devices: a file says which nodes have which devices.

::

    file ──strict──▶ DeviceFile ──nodes──▶ ResourceSlices, one pool for each node and driver
                                └────────▶ DeviceClasses

A driver publishes the devices of a node as the pool with the node's name. No device is prepared:
pods that use them are only scheduled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from mooring.apiserver.registry.existing_objects import ExistingObjects
from mooring.config import strict
from mooring.config.field_errors import FieldError
from mooring.config.load import located_errors
from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import with_defaults
from mooring.objects.files.sources import Source, iter_documents
from mooring.objects.kinds import kind_named
from mooring.objects.meta import KubernetesObject
from mooring.objects.node import Node
from mooring.objects.resource import DeviceClass, ResourceSlice
from mooring.simulation.workload import Workload

#: Limit of devices of one model on a node; sixteen slices of a pool.
COUNT_MAX: Final = 2048
#: The API server's limit of devices in one slice.
SLICE_DEVICES_MAX: Final = 128

_NOT_IN_NAMES: Final = re.compile("[^a-z0-9]+")
#: Stands for a node where only the devices are validated.
_ANY_NODE: Final = "node"


class DeviceModel(Struct, frozen=True, rename="camel"):
    """Equal devices of a node.

    Attributes:
        model: The model; becomes the attribute ``model``.
        count: Number of devices on each node.
        name: Prefix of the devices' names; "" = the model in lower case.
        attributes: Name -> a text, integer, boolean or ``{version: TEXT}``; a list has one value
            for each device.
        capacity: Name -> quantity.
        allow_multiple_allocations: True if several claims can share a device.
    """

    model: str
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    name: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    allow_multiple_allocations: bool = False

    @property
    def name_prefix(self) -> str:
        """The prefix of the devices' names."""
        return self.name or _NOT_IN_NAMES.sub("-", self.model.lower()).strip("-")


class NodeSelection(Struct, frozen=True, rename="camel"):
    """Nodes that have a name of ``names`` (patterns with * and ?) and all labels; none = all."""

    names: tuple[str, ...] = ()
    match_labels: dict[str, str] = field(default_factory=dict)

    def matches(self, node: Node) -> bool:
        """Returns whether the node is selected."""
        name, labels = node.metadata.name, node.metadata.labels
        if self.names and not any(fnmatchcase(name, pattern) for pattern in self.names):
            return False
        return all(labels.get(label) == value for label, value in self.match_labels.items())


class DriverDevices(Struct, frozen=True, rename="camel"):
    """The devices of one driver on some nodes."""

    driver: str
    devices: tuple[DeviceModel, ...]
    nodes: NodeSelection = NodeSelection()


class ClassEntry(Struct, frozen=True, rename="camel"):
    """A device class: CEL expressions that all match, and the extended resource it stands for."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource_name: str | None = None


class DeviceFile(Struct, frozen=True, rename="camel"):
    """The content of a file of devices."""

    drivers: tuple[DriverDevices, ...] = ()
    device_classes: tuple[ClassEntry, ...] = ()


def read_device_file(path: str) -> DeviceFile:
    """Reads a file of devices.

    Raises:
        ConfigError: it cannot be read, or has unknown fields, wrong types, or devices that an API
            server would reject; ``ConfigErrors`` if there are several errors.
    """
    documents = list(iter_documents([path]))
    source, value = documents[0]
    if len(documents) > 1:
        raise documents[1][0].fault("must be the only document of the file")
    errors: list[FieldError] = []
    plain = strict.checked(value, DeviceFile, (), errors)
    if errors:
        raise _located(errors, source)
    file: DeviceFile = strict.build(plain, DeviceFile)
    errors = [*_file_errors(file)]
    if errors:
        raise _located(errors, source)
    return file


def device_objects(file: DeviceFile, nodes: Iterable[Node]) -> list[KubernetesObject]:
    """Returns the device classes of a file, and the slices of the nodes.

    Raises:
        ConfigError: two entries of one driver select the same node.
    """
    objects: list[KubernetesObject] = [*device_classes(file)]
    for node in nodes:
        objects += slices_of_node(file, node)
    return objects


def with_devices(workload: Workload, file: DeviceFile) -> Workload:
    """Returns the workload with the devices of a file on its nodes.

    Raises:
        ConfigError: as ``device_objects``.
    """
    nodes = [obj for obj in workload.objects if isinstance(obj, Node)]
    return workload._replace(objects=[*workload.objects, *device_objects(file, nodes)])


def device_classes(file: DeviceFile) -> list[DeviceClass]:
    """Returns the device classes of a file."""
    return [convert(_class_document(entry), "DeviceClass") for entry in file.device_classes]


def slices_of_node(file: DeviceFile, node: Node) -> list[ResourceSlice]:
    """Returns the slices of a node, those of each driver as one pool.

    Raises:
        ConfigError: two entries of one driver select the node.
    """
    name, slices, entry_of = node.metadata.name, [], dict[str, int]()
    for number, entry in enumerate(file.drivers):
        if not entry.nodes.matches(node):
            continue
        other = entry_of.setdefault(entry.driver, number)
        if other != number:
            problem = f"selects node {name!r}, which drivers[{other}] of the same driver has"
            raise ConfigError(problem, path=f"drivers[{number}].nodes", value=entry.driver)
        slices += [convert(part, "ResourceSlice") for part in _slice_documents(entry, name)]
    return slices


# ---------------------------------------------------------------------------------- documents


def _class_document(entry: ClassEntry) -> dict[str, Any]:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": e}} for e in entry.selectors]}
    if entry.extended_resource_name is not None:
        spec["extendedResourceName"] = entry.extended_resource_name
    return _document("DeviceClass", entry.name, spec)


def _slice_documents(entry: DriverDevices, node_name: str) -> list[dict[str, Any]]:
    """Returns the slices of a driver on a node; devices of one model can be in several."""
    devices = [
        _device_document(model, number) for model in entry.devices for number in range(model.count)
    ]
    parts = [
        devices[start : start + SLICE_DEVICES_MAX]
        for start in range(0, len(devices), SLICE_DEVICES_MAX)
    ]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": len(parts)}
    return [
        _document(
            "ResourceSlice",
            f"{node_name}-{entry.driver}-{number}",
            {"driver": entry.driver, "nodeName": node_name, "pool": pool, "devices": part},
        )
        for number, part in enumerate(parts)
    ]


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _device_document(model: DeviceModel, number: int) -> dict[str, Any]:
    attributes = {"model": {"string": model.model}}
    for name, value in model.attributes.items():
        attributes[name] = _attribute(value[number] if isinstance(value, list) else value)
    device: dict[str, Any] = {"name": f"{model.name_prefix}-{number}", "attributes": attributes}
    if model.capacity:
        device["capacity"] = {name: {"value": value} for name, value in model.capacity.items()}
    if model.allow_multiple_allocations:
        device["allowMultipleAllocations"] = True
    return device


def _attribute(value: Any) -> dict[str, Any]:
    """Returns an attribute of a device; ``{version: TEXT}`` is one already."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"string": value} if isinstance(value, str) else value


# ------------------------------------------------------------------------------------- errors


def _located(errors: Iterable[FieldError], source: Source) -> ConfigError:
    """Returns the errors with file and line, as one exception."""
    faults = located_errors(list(errors), source.text.read(), source.file)
    return faults[0] if len(faults) == 1 else ConfigErrors(faults)


def _file_errors(file: DeviceFile) -> Iterator[FieldError]:
    classes: set[str] = set()
    for number, entry in enumerate(file.device_classes):
        path = ("deviceClasses", number)
        if entry.name in classes:
            yield FieldError((*path, "name"), "is the name of an earlier class", entry.name)
        classes.add(entry.name)
        yield from _api_errors(_class_document(entry), "device class", path, entry.name)
    for number, driver in enumerate(file.drivers):
        yield from _driver_errors(driver, ("drivers", number))


def _driver_errors(entry: DriverDevices, path: tuple[str | int, ...]) -> Iterator[FieldError]:
    errors = []
    prefixes: set[str] = set()
    if not entry.devices:
        errors.append(FieldError((*path, "devices"), "must not be empty"))
    for number, model in enumerate(entry.devices):
        model_path = (*path, "devices", number)
        prefix = model.name_prefix
        if prefix in prefixes:
            problem = "is the name prefix of earlier devices; set a different name"
            errors.append(FieldError((*model_path, "name"), problem, prefix))
        prefixes.add(prefix)
        errors += _model_errors(model, model_path)
    yield from errors
    if errors:
        return
    # Errors of one device are those of all devices of its model.
    for number, model in enumerate(entry.devices):
        sample = msgspec.structs.replace(entry, devices=(msgspec.structs.replace(model, count=1),))
        document = _slice_documents(sample, _ANY_NODE)[0]
        device_path = (*path, "devices", number)
        errors += _api_errors(document, "resource slice", device_path, model.model)
    yield from dict.fromkeys(errors)


def _model_errors(model: DeviceModel, path: tuple[str | int, ...]) -> Iterator[FieldError]:
    for name, value in model.attributes.items():
        value_path = (*path, "attributes", name)
        if isinstance(value, list) and len(value) != model.count:
            problem = f"must have one value for each of the {model.count} devices"
            yield FieldError(value_path, problem, value)
        elif not all(map(_is_attribute, value if isinstance(value, list) else [value])):
            problem = "must be a string, an integer, a boolean or {version: TEXT}"
            yield FieldError(value_path, problem, value)


def _is_attribute(value: Any) -> bool:
    if isinstance(value, dict):
        return list(value) == ["version"] and isinstance(value["version"], str)
    return isinstance(value, str | int)


def _api_errors(
    document: dict[str, Any], what: str, path: tuple[str | int, ...], value: str
) -> list[FieldError]:
    """Returns the errors that an API server would find in an object."""
    try:
        problems = ExistingObjects().problems_of(
            with_defaults(document, kind_named(document["kind"]))
        )
    except ConfigError as error:
        text = f"makes an invalid {what}: {error.path}: {error.problem}, got {error.value!r}"
        return [FieldError(path, text, value)]
    return [
        FieldError(path, f"makes an invalid {what}: {problem.field}: {problem.body}", value)
        for problem in problems
    ]
