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
from mooring.explain.node_rejections import (
    PODS_MAX,
    NodeRejections,
    decide_on_node,
    node_rejections,
)
from mooring.explain.offline import Source, explain_offline
from mooring.objects.meta import KubernetesObject, key
from mooring.objects.pod import Pod
from mooring.simulation.build import make_driver
from mooring.simulation.workload import workload_of
from mooring.ui.board_error import BoardError

#: A larger copy would delay the scheduler: both share one interpreter.
OBJECTS_MAX: Final = 40_000


#: The note of verdicts that no running scheduler made.
ON_COPY: Final = "No running mooring was asked: decided on a copy of the cluster."
_TOO_LARGE: Final = f"more than {OBJECTS_MAX:,} objects are not copied"


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
            raise BoardError(f"{_TOO_LARGE}: ask mooring explain", 413)
        async with self._turn:
            return await asyncio.to_thread(self._explain, pod, objects)

    async def rejections(
        self, node: str, objects: Sequence[KubernetesObject], states: Mapping[str, str]
    ) -> NodeRejections:
        """Returns the pods that wait, by the reasons why a node rejects them.

        Args:
            node: The name of the node.
            objects: The cluster.
            states: "namespace/name" -> the state of a pod.

        Raises:
            BoardError: the cluster is too large, there is no such node, or the copy fails.
        """
        if len(objects) > OBJECTS_MAX:
            raise BoardError(_TOO_LARGE, 413)
        async with self._turn:
            return await asyncio.to_thread(self._rejections, node, objects, dict(states))

    def _rejections(
        self, node: str, objects: Sequence[KubernetesObject], states: Mapping[str, str]
    ) -> NodeRejections:
        settings, workload = self._settings, workload_of("copy", objects)
        try:
            driver = make_driver(
                workload.objects,
                config=settings.config,
                plugins=settings.plugins,
                seed=settings.seed,
                gates=settings.gates,
            )
        except SchedulerError as error:
            raise BoardError(str(error), 409) from None
        if driver.nodes.live_row(node) < 0:
            raise BoardError(f"there is no node {node}")
        for pending in workload.pending:
            driver.listers.apply("Pod", None, pending)
        waiting = [pod for pod in workload.pending if not driver.is_gated(pod)]
        first = [(pod, states.get(key(pod), "active")) for pod in waiting[:PODS_MAX]]
        decided = decide_on_node(node, first, driver.frameworks, driver.cache.snapshot)
        return node_rejections(
            node, decided, pending=len(waiting), looked_at=len(first), note=ON_COPY
        )

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
