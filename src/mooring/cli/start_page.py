"""The page of ``mooring start``: its line and its server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from mooring.clock import Clock
from mooring.errors import ConfigError

if TYPE_CHECKING:
    from mooring.devcluster.cluster import InMemoryCluster
    from mooring.ui.attempts import AttemptLog
    from mooring.ui.cluster_copy import SchedulerSettings


class PageSource(NamedTuple):
    """The sources of the page beside the cluster.

    Attributes:
        port: Its port; 0 = any free port, None = there is no page.
        log: The attempts of the scheduler.
        settings: Those of the scheduler.
    """

    port: int | None
    log: AttemptLog
    settings: SchedulerSettings


@asynccontextmanager
async def served_page(
    cluster: InMemoryCluster, clock: Clock, source: PageSource, export: str
) -> AsyncIterator[list[str]]:
    """Serves the page during the block; yields the line with its address.

    Args:
        cluster: The cluster.
        clock: Its clock.
        source: See ``PageSource``.
        export: The line that makes kubectl talk to the cluster.

    Raises:
        ConfigError: the port is in use.
    """
    if source.port is None:
        yield []
        return
    from mooring.ui.live_page import LivePage

    page = LivePage(cluster, clock, source.log, source.settings, kubeconfig=export)
    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(page.serve(source.port))
        except OSError as error:
            place = f"--page-port {source.port}"
            raise ConfigError(error.strerror or str(error), path=place) from error
        yield [f"page: {address}"]
