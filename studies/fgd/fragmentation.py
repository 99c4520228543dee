"""How much of a node's idle GPUs the typical pods could not use.

For a node v and a typical pod m, f(v, m) is all that is idle if m cannot run on v, or has no GPU;
else what is idle on the devices that are too full for m. F(v) is the mean of f over the typical
pods. Memory is not regarded.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from studies.fgd.pods import Typical

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Fragmentation:
    """Computes F.

    Args:
        typical: The typical pods.
        models: The models of the cluster's GPUs; nodes name theirs by its index.
    """

    def __init__(self, typical: Typical, models: Sequence[str]) -> None:
        self._shares = typical.shares
        self._cpu = typical.cpu[:, None]
        self._gpu = typical.gpu_milli[:, None, None]
        self._count = typical.n_gpu[:, None]
        self._needs_gpu = typical.n_gpu[:, None] > 0
        #: Which typical pod accepts which model; shape (models, t).
        self._accepts = np.array(
            [[not text or model in text.split("|") for text in typical.models] for model in models],
            dtype=np.bool_,
        )
        self._has_models = not self._accepts.all()

    def of(self, idle: Ints, cpu_free: Ints, models: Ints) -> Floats:
        """Returns F of k nodes.

        Args:
            idle: Idle thousandths of each device; int64 (k, devices), 0 where there is no device.
            cpu_free: In millicores; int64 (k,).
            models: Index of the model; int64 (k,).
        """
        too_full = idle < self._gpu  # (t, k, devices)
        total = idle.sum(axis=1)
        runs = self._needs_gpu & (self._cpu <= cpu_free)
        runs &= idle.shape[1] - np.count_nonzero(too_full, axis=2) >= self._count
        if self._has_models:
            runs &= self._accepts[models].T
        remnants = np.einsum("tkd,kd->tk", too_full, idle)
        lost: Floats = self._shares @ np.where(runs, remnants, total)
        return lost
