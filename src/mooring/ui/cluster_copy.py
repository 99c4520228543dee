"""Explains pods on a copy of the cluster: there changes can be tried, and bound pods decided again.

The copy is made and searched in a thread: the objects are never changed, and the scheduler goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mooring.config import KubeSchedulerConfiguration
from mooring.errors import SchedulerError
from mooring.explain.explain import Options
from mooring.explain.offline import Source, explain_offline
from mooring.objects.meta import KubernetesObject
from mooring.objects.pod import Pod
from mooring.simulation.workload import workload_of
from mooring.ui.board_error import BoardError

#: A larger copy would delay the scheduler: both share one interpreter.
OBJECTS_MAX: Final = 40_000


class SchedulerSettings(NamedTuple):
    """The settings of the scheduler that decides on the copy.

    Attributes:
        config: The configuration; None = all defaults.
        plugins: Further plugins, as ``module:attribute``.
        seed: The random seed.
        gates: The feature gates whose value is not the default.
    """

    config: KubeSchedulerConfiguration | None = None
    plugins: Sequence[str] = ()
    seed: int = 0
    gates: Mapping[str, bool] = {}


class ClusterCopy:
    """Explains pods on copies of a cluster, one at a time.

    Args:
        settings: Of the scheduler.
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()

    async def explain(self, pod: Pod, objects: Sequence[KubernetesObject]) -> bytes:
        """Returns the JSON of the decision about a pod, with the changes that help.

        Raises:
            BoardError: the cluster is too large, or the pod cannot be decided.
        """
        if len(objects) > OBJECTS_MAX:
            text = f"more than {OBJECTS_MAX:,} objects are not copied"
            raise BoardError(f"{text}: ask mooring explain", 413)
        async with self._turn:
            return await asyncio.to_thread(self._explain, pod, objects)

    def _explain(self, pod: Pod, objects: Sequence[KubernetesObject]) -> bytes:
        settings = self._settings
        source = Source(
            workload_of("copy", objects),
            settings.config,
            settings.plugins,
            settings.seed,
            schedules_queue=False,
            gates=settings.gates,
        )
        options = Options(has_all_rejections=True)
        try:
            return explain_offline(pod, source, options=options, is_json=True).encode()
        except SchedulerError as error:
            raise BoardError(str(error), 409) from None
