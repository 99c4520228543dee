"""The part of a plugin's handle that only reads, the same with and without an API server."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.clock import Clock, Rng, random_uuid
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.objects.kinds import kind_named
from mooring.state import PodInfo, Snapshot
from mooring.state.cache import Cache
from mooring.state.listers import Lister, Listers


class ReadOnlyHandle:
    """Gives plugins the cluster state, time, random numbers, and the pods that wait in Permit."""

    def __init__(
        self, cache: Cache, clock: Clock, rng: Rng, listers: Listers | None = None
    ) -> None:
        #: The pods that wait in Permit.
        self.waiting = WaitingPods()
        #: The objects that plugins list.
        self.listers = listers if listers is not None else Listers()
        self._cache = cache
        self._clock = clock
        self._rng = rng

    @property
    def snapshot(self) -> Snapshot:
        """The current state of the cluster."""
        return self._cache.snapshot()

    def lister(self, kind: str) -> Lister:
        """Returns the objects of a kind, by namespace and name.

        Raises:
            ConfigError: there is no such kind.
        """
        return self.listers.lister(kind_named(kind).name)

    def monotonic_s(self) -> float:
        """Returns the clock, in seconds."""
        return self._clock.monotonic_s()

    def wall_s(self) -> float:
        """Returns the wall clock: seconds since 1970-01-01 UTC."""
        return self._clock.wall_s()

    def random(self) -> float:
        """Returns a number in [0, 1) from the run's seeded generator."""
        return self._rng.random()

    def uuid(self) -> str:
        """Returns a new random UUID from the run's seeded generator."""
        return random_uuid(self._rng)

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Does nothing: no event can be written."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Returns the pod with this UID if it waits in Permit."""
        return self.waiting.get(uid)

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Returns all pods that wait in Permit."""
        return self.waiting
