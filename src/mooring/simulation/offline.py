"""What plugins get of the world when there is no API server."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from mooring.clock import Rng, VirtualClock
from mooring.errors import PluginError
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.simulation.offline_volumes import OfflineVolumes
from mooring.state import Cache, PodInfo, Snapshot


class OfflineHandle:
    """What plugins get of the world when there is none.

    Binding always works; waiting never ends before its deadline.
    """

    def __init__(self, cache: Cache, clock: VirtualClock, rng: Rng) -> None:
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._volumes = OfflineVolumes(cache)
        #: The pods that Permit holds back.
        self.waiting = WaitingPods()

    @property
    def snapshot(self) -> Snapshot:
        """The present state."""
        return self._cache.snapshot()

    def monotonic_s(self) -> float:
        """Virtual seconds."""
        return self._clock.monotonic_s()

    def random(self) -> float:
        """From the run's seeded generator."""
        return self._rng.random()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Returns the pod with this UID, if Permit holds it back."""
        return self.waiting.get(uid)

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Returns all pods that Permit holds back."""
        return self.waiting

    def activate(self, *uids: str) -> None:
        """There is no queue."""

    def is_preempting(self, uid: str) -> bool:
        """Victims are gone at once here."""
        del uid
        return False

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """On the virtual clock: when the driver lets time pass."""
        due_s = self._clock.monotonic_s() + delay_s
        heapq.heappush(self._later, (due_s, next(self._numbers), callback))

    def next_call_s(self) -> float:
        """When the next ``call_later`` is due; infinity if there is none."""
        return self._later[0][0] if self._later else math.inf

    def call_due(self) -> None:
        """Makes the calls whose time has come."""
        while self._later and self._later[0][0] <= self._clock.monotonic_s():
            heapq.heappop(self._later)[2]()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """There is nobody to tell."""

    async def read(self, path: str) -> bytes:
        """There is nobody to ask."""
        raise PluginError("", "read", f"there is no API server to ask for {path}")

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Changes a volume or a claim; what a volume controller makes of it happens at once."""
        return self._volumes.patch(kind, key, patch)

    def take_written(self) -> tuple[Any, ...]:
        """Returns the volumes and claims that were written since this was asked last."""
        return self._volumes.take_written()

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Nothing changes by itself here: the deadline passes on the virtual clock."""
        del predicate
        self._clock.advance(deadline_s)
        raise PluginError("", "wait", f"timed out after {deadline_s:g} s waiting for {kind} {key}")


def run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never really waits.

    Raises:
        PluginError: if it does wait: offline there is nothing to wait for.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise PluginError(
        "", "wait", "waited for something other than handle.until; nothing comes here"
    )
