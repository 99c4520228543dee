"""Devices of a node as amounts of an extended resource, for scores.

A node without an extended resource that stands for a device class is scored by its devices: all
devices of the class that slices list for the node are allocatable, those in use are allocated. As
upstream's, the count knows no pools: old generations and incomplete pools count, and so do tainted
devices. The selectors of the class see no device that can be shared.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
(calculateDRAResourceTotals). *Differs:* upstream does not notice that a device of the class has
changed its attributes, or a node its labels; NodeResourcesBalancedAllocation of upstream ends
kube-scheduler if the class has selectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mooring.dra import (
    AllocationError,
    CELCompiler,
    DeviceFeatures,
    DeviceID,
    Selectors,
    TargetNode,
)
from mooring.dra.devices import PreparedSlice
from mooring.framework import NodeView
from mooring.framework.interface import Scores
from mooring.objects.node import Node
from mooring.objects.resource import DeviceClass
from mooring.state import Snapshot
from mooring.state.devices.devices import Devices
from mooring.state.kinds.device_classes import DeviceClasses

#: The features with which selectors see no device that can be shared.
_UNSHARED: Final = DeviceFeatures(is_shareable=False, has_binding_conditions=False)

#: Lists of scored resources that are kept: mostly there is one.
NAMES_MAX: Final = 64


class Backed(NamedTuple):
    """A scored resource that stands for a device class: its position, and the class."""

    position: int
    device_class: DeviceClass


class DeviceTotals:
    """Counts the devices of classes on nodes, and remembers them until slices or classes change."""

    def __init__(self) -> None:
        self._selectors = Selectors(CELCompiler())
        self._version: tuple[int, int] = (-1, -1)
        #: The classes, and the scored resources -> those that stand for classes in this version.
        self._classes: tuple[DeviceClasses | None, int] = (None, -1)
        self._backed: dict[tuple[str, ...], list[Backed]] = {}
        #: Slice -> the slice as the selectors see it here.
        self._slices: dict[str, PreparedSlice] = {}
        #: Node and class -> the node object, and the devices of the class there.
        self._devices: dict[tuple[str, str], tuple[Node, tuple[DeviceID, ...]]] = {}

    def backed(self, snapshot: Snapshot, names: Sequence[str]) -> list[Backed]:
        """Returns those of the scored resources that stand for a device class."""
        classes = snapshot.device_classes
        if not len(classes):
            return []
        latest, version = self._classes
        if classes is not latest or classes.version != version:
            self._classes = classes, classes.version
            self._backed.clear()
        key = tuple(names)
        backed = self._backed.get(key)
        if backed is None:
            if len(self._backed) >= NAMES_MAX:
                self._backed.clear()
            backed = self._backed[key] = self._find_backed(classes, key)
        return backed

    @staticmethod
    def _find_backed(classes: DeviceClasses, names: Sequence[str]) -> list[Backed]:
        return [
            Backed(index, device_class)
            for index, name in enumerate(names)
            if (class_name := classes.class_of(name)) is not None
            and (device_class := classes.get(class_name)) is not None
        ]

    def of(self, devices: Devices, node: Node, device_class: DeviceClass) -> tuple[int, int]:
        """Returns the devices of a class on a node, and how many of them are in use."""
        version = devices.slices.version, devices.classes.version
        if version != self._version:
            self._version = version
            self._slices.clear()
            self._devices.clear()
        key = node.metadata.name, device_class.metadata.name
        entry = self._devices.get(key)
        if entry is None or entry[0] is not node:
            try:
                of_class = tuple(self._of_class(devices, node, device_class))
            except AllocationError:
                of_class = ()
            entry = self._devices[key] = node, of_class
        return len(entry[1]), sum(map(devices.allocated.uses, entry[1]))

    def amounts(
        self, snapshot: Snapshot, node: Node, names: Sequence[str]
    ) -> dict[str, tuple[int, int]]:
        """Returns what ``of`` does, by resource, for the scored resources of one node."""
        if not len(snapshot.device_classes):
            return {}
        return {
            names[index]: self.of(snapshot.devices, node, device_class)
            for index, device_class in self.backed(snapshot, names)
        }

    def fill(
        self, nodes: NodeView, backed: Sequence[Backed], allocatable: Scores, allocated: Scores
    ) -> tuple[Scores, Scores]:
        """Returns the amounts with those of devices, where a node has none of the resource.

        Args:
            nodes: The nodes.
            backed: The resources that stand for classes.
            allocatable: int64 shape (k, m).
            allocated: int64 shape (k, m), without the pod.
        """
        allocatable, allocated = allocatable.copy(), allocated.copy()
        devices, rows = nodes.snapshot.devices, nodes.rows.tolist()
        for line, device_class in backed:
            for position, row in enumerate(rows):
                if allocatable[line, position]:
                    continue
                node = nodes.snapshot.nodes.node(row)
                total, used = self.of(devices, node, device_class)
                if total:
                    allocatable[line, position], allocated[line, position] = total, used
        return allocatable, allocated

    def _of_class(
        self, devices: Devices, node: Node, device_class: DeviceClass
    ) -> Iterator[DeviceID]:
        """Yields the devices of a class that slices list for a node.

        Raises:
            AllocationError: a node selector is invalid, or a selector of the class fails.
        """
        target = TargetNode(node.metadata.name, node.metadata.labels)
        expressions = [
            selector.cel.expression for selector in device_class.spec.selectors if selector.cel
        ]
        for listed in devices.slices.candidates(target.name):
            part = self._slices.get(listed.name)
            if part is None:
                part = self._slices[listed.name] = PreparedSlice(listed.obj, _UNSHARED)
            if not part.is_per_device and not _is_for(part, target):
                continue
            for device in part.all_devices:
                reach = device.reach
                if reach is not None and not reach.is_everywhere and not reach.matches(target):
                    continue
                answers = (self._selectors.answer(text, device) for text in expressions)
                answer = next((answer for answer in answers if answer is not True), True)
                if isinstance(answer, str):
                    raise AllocationError(answer)
                if answer:
                    yield device.id


def _is_for(part: PreparedSlice, node: TargetNode) -> bool:
    """Returns whether a slice is for a node; one that names no nodes is for all."""
    reach = part.reach
    return reach.is_everywhere or reach.is_unknown or reach.matches(node)
