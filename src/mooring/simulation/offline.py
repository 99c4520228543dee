"""The plugin handle without an API server."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from mooring.clock import Rng, SystemClock, VirtualClock, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.errors import PluginError
from mooring.framework.runtime.bind import cancelled_work
from mooring.scheduler.profiles import load_profiles
from mooring.scheduler.read_only_handle import ReadOnlyHandle
from mooring.simulation.offline_claims import OfflineClaims
from mooring.simulation.offline_volumes import OfflineVolumes
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.listers import Listers


class OfflineHandle(ReadOnlyHandle):
    """The plugin handle of the offline scheduler.

    Binding always succeeds; ``until`` always times out.
    """

    _clock: VirtualClock

    def __init__(
        self, cache: Cache, clock: VirtualClock, rng: Rng, listers: Listers | None = None
    ) -> None:
        super().__init__(cache, clock, rng, listers)
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._volumes = OfflineVolumes(cache)
        self.claim_writer = OfflineClaims(cache)

    def activate(self, *uids: str) -> None:
        """Does nothing: there is no queue."""

    def is_preempting(self, uid: str) -> bool:
        """Returns False: offline, victims are removed at once."""
        del uid
        return False

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Schedules a callback on the virtual clock."""
        due_s = self._clock.monotonic_s() + delay_s
        heapq.heappush(self._later, (due_s, next(self._numbers), callback))

    def next_call_s(self) -> float:
        """Returns the time of the next ``call_later`` callback; infinity if there is none."""
        return self._later[0][0] if self._later else math.inf

    def call_due(self) -> None:
        """Calls the callbacks that are due."""
        while self._later and self._later[0][0] <= self._clock.monotonic_s():
            heapq.heappop(self._later)[2]()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Does nothing: there is no API server to write to."""

    async def read(self, path: str) -> bytes:
        """Raises: there is no API server to read from."""
        raise PluginError("", "read", f"no API server to read {path} from")

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Patches a volume or a claim; the volume controller acts on it at once."""
        return self._volumes.patch(kind, key, patch)

    def take_changes(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Returns the objects written since the last call, and the keys of deleted claims."""
        claims, deleted = self.claim_writer.take_changes()
        return (*self._volumes.take_written(), *claims), deleted

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Advances the virtual clock to the deadline and times out: nothing changes offline."""
        del predicate
        self._clock.advance(deadline_s)
        raise PluginError("", "wait", f"timed out after {deadline_s:g} s waiting for {kind} {key}")


def run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that does not wait.

    Raises:
        PluginError: if it waits; offline nothing would resume it.
        SchedulerError: if it was cancelled: by a plugin, since offline nothing else does.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except asyncio.CancelledError as error:
        raise cancelled_work(error) from error
    coroutine.close()
    raise PluginError(
        "", "wait", "awaited something other than handle.until, which never completes offline"
    )


def check_profiles(config: KubeSchedulerConfiguration, plugins: Sequence[str | Any]) -> None:
    """Builds the profiles of a configuration as a scheduler does, and lets them go.

    Raises:
        ConfigError: a plugin is unknown, or its arguments are invalid.
    """
    handle = OfflineHandle(Cache(), VirtualClock(), seeded_random(0))
    load_profiles(config, handle, clock=SystemClock(), waiting=handle.waiting, plugins=plugins)
