"""The GPUs of each node: what is idle on every device, and which devices a pod gets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring import Cycle, NodeView, PodInfo, Reject
from mooring.framework import FilterStatuses
from mooring.objects import Node
from mooring.state.columns.change_log import Change
from mooring.traces.openb import GPU_MODEL_LABEL, GPU_RESOURCE, MILLI_PER_GPU
from studies.fgd.pods import Shape, shape_of

#: Devices of a node, at most.
DEVICES_MAX: Final = 8
#: The classes of GPU pods by number of GPUs; 0 = a share of one.
CLASSES: Final = (0, 1, 2, 4, 8)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Devices:
    """The devices of all nodes, by row of the node table.

    Attributes:
        idle: Idle thousandths; int64 (rows, DEVICES_MAX), 0 where there is no device.
        counts: Devices of each node; int64 (rows,).
        models: The models of the cluster's GPUs.
        model: Index of each node's model; int64 (rows,).
        classes: Pods on each node by class; int64 (rows, len(CLASSES)).

    Args:
        nodes: In the order of their rows.
    """

    def __init__(self, nodes: list[Node]) -> None:
        amounts = [int(node.status.allocatable.get(GPU_RESOURCE, 0)) for node in nodes]
        self.counts = np.array(amounts, dtype=np.int64) // MILLI_PER_GPU
        present = np.arange(DEVICES_MAX) < self.counts[:, None]
        self.idle: Ints = np.where(present, MILLI_PER_GPU, 0).astype(np.int64)
        names = [node.metadata.labels.get(GPU_MODEL_LABEL, "") for node in nodes]
        self.models = sorted(set(names))
        self.model = np.array([self.models.index(name) for name in names], dtype=np.int64)
        self.classes = np.zeros((len(nodes), len(CLASSES)), dtype=np.int64)

    def fits(self, shape: Shape, rows: Ints) -> Bools:
        """Returns which nodes have the devices for a pod; bool (len(rows),)."""
        enough: Bools = np.count_nonzero(self.idle[rows] >= shape.gpu_milli, axis=1) >= shape.n_gpu
        if shape.models:
            accepted = [model in shape.models.split("|") for model in self.models]
            enough &= np.array(accepted)[self.model[rows]]
        return enough

    def take(self, row: int, devices: list[int], shape: Shape) -> None:
        """Gives devices to a pod."""
        self.idle[row, devices] -= shape.gpu_milli
        self.classes[row, class_of(shape)] += 1

    def put_back(self, row: int, devices: list[int], shape: Shape) -> None:
        """Takes them back."""
        self.idle[row, devices] += shape.gpu_milli
        self.classes[row, class_of(shape)] -= 1


def class_of(shape: Shape) -> int:
    """Returns the index of a pod's class."""
    return CLASSES.index(0 if shape.is_share else shape.n_gpu)


class Held(NamedTuple):
    """The devices of a pod."""

    row: int
    devices: list[int]
    shape: Shape


class GpuDevices:
    """Admits a pod where its devices are idle, and reserves them.

    Args:
        devices: Of the cluster.
        policy: Chooses the device for a share; see ``policies.Policy.device``.
    """

    name = "GpuDevices"
    reads = Change.EXISTENCE | Change.USAGE

    def __init__(self, devices: Devices, policy: Any) -> None:
        self._devices = devices
        self._policy = policy
        self._held: dict[str, Held] = {}

    def sign(self, pod: PodInfo) -> Shape:
        """Returns what is read of the pod."""
        return shape_of(pod)

    def pre_filter(self, cycle: Cycle) -> None:
        """Reads the pod's shape."""
        cycle[self] = shape_of(cycle.pod)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes without idle devices."""
        shape: Shape = cycle[self]
        if not shape.n_gpu:
            return FilterStatuses.reject(np.zeros(len(nodes), np.bool_), _NO_DEVICES)
        return FilterStatuses.reject(~self._devices.fits(shape, nodes.rows), _NO_DEVICES)

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        """Takes devices for the pod."""
        shape = shape_of(cycle.pod)
        if not shape.n_gpu:
            return
        row = cycle.snapshot.nodes.row(node_name)
        idle = self._devices.idle[row]
        if shape.is_share:
            devices = [self._policy.device(cycle, shape, row)]
        else:
            devices = np.flatnonzero(idle == MILLI_PER_GPU)[: shape.n_gpu].tolist()
        self._devices.take(row, devices, shape)
        self._held[cycle.pod.uid] = Held(row, devices, shape)

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Puts them back."""
        del node_name
        self.release(cycle.pod.uid)

    def release(self, uid: str) -> None:
        """Puts back the devices of a pod that leaves."""
        held = self._held.pop(uid, None)
        if held is not None:
            self._devices.put_back(*held)


_NO_DEVICES: Final = Reject("node(s) had no idle GPU for the pod")
