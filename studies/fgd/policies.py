"""The six policies as score plugins. All scores are whole numbers from 0 to 100.

``int()`` of a score cuts towards zero, as in the published experiments: the coarse numbers decide.
C is the free cpu of a node in millicores, R its idle GPUs in thousandths, before the pod.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring import Cycle, NodeView, PodInfo
from mooring.clock import Rng
from mooring.state.columns.change_log import Change
from mooring.traces.openb import MILLI_PER_GPU
from studies.fgd.devices import DEVICES_MAX, Devices, class_of
from studies.fgd.fragmentation import Fragmentation
from studies.fgd.pods import Shape, shape_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: The largest node: scores are shares of it.
CPU_MAX: Final = 128_000
GPU_MAX: Final = DEVICES_MAX * MILLI_PER_GPU
POLICIES: Final = ("Random", "DotProd", "Clustering", "Packing", "BestFit", "FGD")


class Policy:
    """A score plugin over the devices of the cluster.

    Args:
        devices: Of the cluster.
    """

    name = "Policy"
    reads = Change.EXISTENCE | Change.USAGE

    def __init__(self, devices: Devices) -> None:
        self.devices = devices

    def sign(self, pod: PodInfo) -> Any:
        """Returns what is read of the pod."""
        return shape_of(pod)

    def score(self, cycle: Cycle, nodes: NodeView) -> Ints:
        """Returns the scores of nodes."""
        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        return self.evaluate(shape_of(cycle.pod), nodes.rows, free)

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns the scores of rows with this much free cpu; int64 (len(rows),)."""
        raise NotImplementedError

    def device(self, cycle: Cycle, shape: Shape, row: int) -> int:
        """Returns the device for a share of a GPU: the fullest that fits, the first of several."""
        del cycle
        idle = self.devices.idle[row]
        return int(np.argmin(np.where(idle >= shape.gpu_milli, idle, GPU_MAX)))


class Random(Policy):
    """Selects any feasible node, and any device."""

    name = "Random"

    def __init__(self, devices: Devices, rng: Rng) -> None:
        super().__init__(devices)
        self._rng = rng

    def sign(self, pod: PodInfo) -> Any:
        """Returns None: no two pods are scored alike."""
        del pod

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Gives 100 to one node."""
        del shape, cpu_free
        scores = np.zeros(len(rows), np.int64)
        scores[self._rng.randrange(len(rows))] = 100
        return scores

    def device(self, cycle: Cycle, shape: Shape, row: int) -> int:
        """Returns any device that fits."""
        del cycle
        fitting = np.flatnonzero(self.devices.idle[row] >= shape.gpu_milli)
        return int(fitting[self._rng.randrange(len(fitting))])


class DotProd(Policy):
    """Prefers nodes with little of what the pod needs much of."""

    name = "DotProd"

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns int(100 (1 - (C cpu / CPU_MAX^2 + R request / GPU_MAX^2) / 2))."""
        idle = self.devices.idle[rows].sum(axis=1)
        product = cpu_free / CPU_MAX * (shape.cpu / CPU_MAX)
        product = product + idle / GPU_MAX * (shape.request / GPU_MAX)
        scores: Ints = (100 * (1 - product / 2)).astype(np.int64)
        return scores


class Clustering(Policy):
    """Puts pods with the same number of GPUs together."""

    name = "Clustering"

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns 75, 50, 25 or 0 by the classes on the node, and up to 25 for full nodes."""
        del cpu_free
        if not shape.n_gpu:
            return np.zeros(len(rows), np.int64)
        idle = self.devices.idle[rows].sum(axis=1)
        full = 25 * (GPU_MAX - idle) // GPU_MAX
        has_class = self.devices.classes[rows] > 0
        has_own = has_class[:, class_of(shape)]
        n_classes = has_class.sum(axis=1)
        bonus = np.where(n_classes == 0, 25, 0)
        bonus = np.where(has_own, np.where(n_classes == 1, 75, 50), bonus)
        scores: Ints = full + bonus
        return scores


class Packing(Policy):
    """Prefers devices and nodes that are in use already."""

    name = "Packing"

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns the scores of the three cases: idle nodes, idle devices, devices in use."""
        del cpu_free
        if not shape.n_gpu:
            return np.zeros(len(rows), np.int64)
        idle, counts = self.devices.idle[rows], self.devices.counts[rows]
        untouched = np.count_nonzero(idle == MILLI_PER_GPU, axis=1)
        ascending = np.sort(np.where(idle >= shape.gpu_milli, idle, GPU_MAX), axis=1)
        taken = ascending[:, : shape.n_gpu]
        taken = np.where(taken == GPU_MAX, 0, taken)
        n_idle = np.count_nonzero(taken == MILLI_PER_GPU, axis=1)
        left = (taken * 100 // MILLI_PER_GPU).sum(axis=1)
        in_use = np.maximum(100 - left // 10, 50)
        scores = np.where(n_idle > 0, np.maximum(50 - n_idle, 33), in_use)
        of_idle_nodes = np.maximum(33 - untouched, untouched)
        result: Ints = np.where(untouched == counts, of_idle_nodes, scores).astype(np.int64)
        return result


class BestFit(Policy):
    """Prefers nodes that the pod leaves with little."""

    name = "BestFit"

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns int(100 (1 - (C - cpu) / (2 CPU_MAX) - (R - request) / (2 GPU_MAX)))."""
        idle = self.devices.idle[rows].sum(axis=1)
        left = 0.5 * (cpu_free - shape.cpu) / CPU_MAX + 0.5 * (idle - shape.request) / GPU_MAX
        scores: Ints = (100 * (1 - left)).astype(np.int64)
        return scores


class FGD(Policy):
    """Prefers nodes whose fragmentation the pod raises least: fragmentation gradient descent.

    Args:
        devices: Of the cluster.
        fragmentation: Of the typical pods.
    """

    name = "FGD"

    def __init__(self, devices: Devices, fragmentation: Fragmentation) -> None:
        super().__init__(devices)
        self._fragmentation = fragmentation

    def evaluate(self, shape: Shape, rows: Ints, cpu_free: Ints) -> Ints:
        """Returns int(100 / (1 + exp(-D / 1000))), D = F before - F after; of the best device."""
        states = np.column_stack([self.devices.idle[rows], cpu_free, self.devices.model[rows]])
        if len(rows) > 1:
            _, first, inverse = np.unique(states, axis=0, return_index=True, return_inverse=True)
            states = states[first]
        best: Ints = self.device_scores(shape, states).max(axis=1)
        return best if len(rows) == 1 else best[inverse.reshape(-1)]

    def device_scores(self, shape: Shape, states: Ints) -> Ints:
        """Returns the scores of nodes for each device; -1 where the pod does not fit.

        Args:
            shape: The pod.
            states: Idle thousandths of each device, free cpu and model; int64 (k, devices + 2).

        Returns:
            int64 (k, devices); a pod that needs no share has one column.
        """
        idle, cpu_free, model = states[:, :DEVICES_MAX], states[:, -2], states[:, -1]
        before = self._fragmentation.of(idle, cpu_free, model)
        if not shape.is_share:
            after = self._fragmentation.of(_exclusive(idle, shape), cpu_free - shape.cpu, model)
            return _sigmoid(before - after)[:, None]
        nodes, devices = np.nonzero(idle >= shape.gpu_milli)
        placed = idle[nodes]
        placed[np.arange(len(nodes)), devices] -= shape.gpu_milli
        after = self._fragmentation.of(placed, cpu_free[nodes] - shape.cpu, model[nodes])
        scores = np.full(idle.shape, -1, np.int64)
        scores[nodes, devices] = _sigmoid(before[nodes] - after)
        return scores

    def device(self, cycle: Cycle, shape: Shape, row: int) -> int:
        """Returns the device with the best score, the lowest index first."""
        nodes = cycle.snapshot.nodes
        cpu = nodes.resources.values().index("cpu")
        # The pod is assumed on the node already when its devices are reserved.
        free = nodes.allocatable[cpu, row] - nodes.requested[cpu, row] + shape.cpu
        state = np.array([[*self.devices.idle[row], free, self.devices.model[row]]])
        return int(self.device_scores(shape, state)[0].argmax())


def _exclusive(idle: Ints, shape: Shape) -> Ints:
    """Returns the idle thousandths after a pod has taken whole devices, the first idle ones."""
    is_idle = idle == MILLI_PER_GPU
    taken = is_idle & (np.cumsum(is_idle, axis=1) <= shape.n_gpu)
    return np.where(taken, 0, idle) if shape.n_gpu else idle


def _sigmoid(gain: Floats) -> Ints:
    return (100 / (1 + np.exp(-gain / 1000))).astype(np.int64)
