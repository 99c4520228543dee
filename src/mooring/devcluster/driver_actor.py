"""Simulated drivers of devices: they publish the slices of new nodes, and remove those of old ones.

Slices of the nodes that exist from the start are created with the cluster's other objects.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

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
        #: Deleted nodes that still have slices, by name.
        self._deleted: dict[str, Node] = {}
        self._work: WorkQueue[str] = WorkQueue(
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
        old, new = change.old, change.new
        if new is None:
            self._deleted[old.metadata.name] = old
        elif old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._work.add((new or old).metadata.name)

    async def _sync(self, name: str) -> None:
        """Deletes all slices of a deleted node, and creates the missing ones of a node."""
        deleted = self._deleted.pop(name, None)
        if deleted is not None:
            for part in slices_of_node(self._file, deleted):
                with suppress(NotFound):
                    await self._client.delete("ResourceSlice", part.metadata.name)
        node: Node | None = self._work.objects("Node").get(name)
        if node is not None:
            for part in slices_of_node(self._file, node):
                with suppress(AlreadyExists):
                    await self._client.create(part)


def _log_failure(name: str, error: SchedulerError) -> None:
    _log.warning("slices not written", extra={"node": name, "error": str(error)})
