"""The page of a cluster in this process, whose scheduler may be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mooring.ui.configuration import ConfigurationEditor
from mooring.ui.live_board import LiveBoard
from mooring.ui.objects import ObjectWriter
from mooring.ui.server import TICK_S, PageServer

if TYPE_CHECKING:
    from mooring.clock import Clock
    from mooring.config import KubeSchedulerConfiguration
    from mooring.devcluster.cluster import InMemoryCluster
    from mooring.ui.attempts import AttemptLog
    from mooring.ui.cluster_copy import SchedulerSettings


class LivePage:
    """Connects the page with a cluster.

    Attributes:
        server: Serves the page.
        editor: Checks and applies configurations.

    Args:
        cluster: The cluster.
        clock: Its clock.
        log: The attempts of its scheduler.
        settings: Those of its scheduler.
        title: Of the cluster.
        kubeconfig: The line that makes kubectl talk to it.
        tick_s: The pause between two events of a stream.
    """

    def __init__(
        self,
        cluster: InMemoryCluster,
        clock: Clock,
        log: AttemptLog,
        settings: SchedulerSettings,
        *,
        title: str = "mooring start",
        kubeconfig: str = "",
        tick_s: float = TICK_S,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._log = log
        self._title = title
        self._kubeconfig = kubeconfig
        export = ObjectWriter(cluster.client).export
        self.editor = ConfigurationEditor(settings, self._reconfigure, export)
        self.server = PageServer(self._board(settings), editor=self.editor, tick_s=tick_s)

    def _board(self, settings: SchedulerSettings) -> LiveBoard:
        return LiveBoard(
            self._cluster.service,
            self._log,
            self._clock,
            self._cluster.client,
            title=self._title,
            kubeconfig=self._kubeconfig,
            settings=settings,
        )

    async def _reconfigure(self, config: KubeSchedulerConfiguration) -> None:
        """Replaces the scheduler, and shows the new one as soon as it has listed all objects."""
        await self._cluster.reconfigure(config)
        settings = self.editor.settings._replace(config=config)
        try:
            await self._cluster.service.wait_until_synced()
        finally:
            self.server.board = self._board(settings)

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[str]:
        """Listens on 127.0.0.1 during the block; yields the address to open.

        Raises:
            OSError: the port is in use.
        """
        await self.server.start(port)
        try:
            async with asyncio.TaskGroup() as group:
                self.editor.what_if.open(group)
                yield self.server.guard.address
                await self.editor.what_if.cancel()
        finally:
            await self.server.stop()
