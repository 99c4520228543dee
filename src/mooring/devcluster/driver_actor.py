"""Simulated drivers of devices: they publish the slices of new nodes, and remove those of old ones.

Slices of the nodes that exist from the start are created with the cluster's other objects.
"""

from __future__ import annotations

import asyncio
import logging

from mooring.client import Client, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import AlreadyExists, NotFound, SchedulerError
from mooring.objects.node import Node
from mooring.simulation.device_file import DeviceFile, slices_of_node

_log = logging.getLogger(__name__)


class DriverActor:
    """Publishes ResourceSlices.

    Args:
        client: A client that may create and delete slices.
        file: The devices of the nodes.
        clock: For the watch.
        rng: For the watch.
        sleep: Sleeps so many seconds.
    """

    def __init__(
        self,
        client: Client,
        file: DeviceFile,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._file = file
        self._work: WorkQueue[tuple[Node, bool]] = WorkQueue(
            client,
            {"Node": self._on_change},
            self._sync,
            _log_failure,
            clock=clock,
            rng=rng,
            sleep=sleep,
        )

    async def run(self) -> None:
        """Publishes and removes slices until cancelled."""
        await self._work.run()

    def _on_change(self, change: ObjectChange) -> None:
        if change.new is None:
            self._work.add((change.old, False))
        elif change.old is None or change.old.metadata.labels != change.new.metadata.labels:
            self._work.add((change.new, True))

    async def _sync(self, item: tuple[Node, bool]) -> None:
        """Creates the missing slices of a node, or deletes all slices of a deleted one."""
        node, exists = item
        for part in slices_of_node(self._file, node):
            try:
                if exists:
                    await self._client.create(part)
                else:
                    await self._client.delete("ResourceSlice", part.metadata.name)
            except (AlreadyExists, NotFound):
                continue


def _log_failure(item: tuple[Node, bool], error: SchedulerError) -> None:
    extra = {"node": item[0].metadata.name, "error": str(error)}
    _log.warning("slices not written", extra=extra)
