"""The plugin handle of the test tools: virtual time, and no API server."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mooring.clock import Clock, Rng
from mooring.errors import PluginError
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.scheduler.read_only_handle import ReadOnlyHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.listers import Listers


class HarnessHandle(ReadOnlyHandle):
    """The ``handle`` of the plugins of a ``Harness``; it notes some of their calls.

    Binding succeeds, ``read``, ``patch`` and ``until`` raise PluginError.

    Attributes:
        waiting: The pods that wait in Permit.
        is_random: Whether the plugin used random numbers or UUIDs.
        allowed_by: The names with which the plugin called ``allow`` and ``reject`` of waiting pods.
        activated: The UIDs that the plugin activated, in order.
    """

    def __init__(
        self, cache: Cache, clock: Clock, rng: Rng, listers: Listers | None = None
    ) -> None:
        super().__init__(cache, clock, rng, listers)
        self.is_random = False
        self.allowed_by: set[str] = set()
        self.activated: list[str] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def random(self) -> float:
        """Returns a number in [0, 1)."""
        self.is_random = True
        return super().random()

    def uuid(self) -> str:
        """Returns a new UUID."""
        self.is_random = True
        return super().uuid()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Returns the pod with this UID if it waits in Permit."""
        waiting = self.waiting.get(uid)
        return None if waiting is None else _Noted(waiting, self.allowed_by)

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Returns all pods that wait in Permit."""
        return [_Noted(waiting, self.allowed_by) for waiting in self.waiting]

    def activate(self, *uids: str) -> None:
        """Notes the pods; there is no queue."""
        self.activated += uids

    def is_preempting(self, uid: str) -> bool:
        """Returns False."""
        del uid
        return False

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Notes a callback for ``call_due``."""
        due_s = self._clock.monotonic_s() + delay_s
        heapq.heappush(self._later, (due_s, next(self._numbers), callback))

    @property
    def next_call_s(self) -> float:
        """The time of the next callback; infinity if there is none."""
        return self._later[0][0] if self._later else float("inf")

    def call_due(self) -> None:
        """Calls the callbacks that are due."""
        while self.next_call_s <= self._clock.monotonic_s():
            heapq.heappop(self._later)[2]()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Does nothing."""

    async def read(self, path: str) -> bytes:
        """Raises: there is no API server."""
        raise PluginError("", "read", f"no API server to read {path} from")

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Raises: there is no API server."""
        del patch
        raise PluginError("", "patch", f"no API server has {kind} {key}")

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Raises: nothing changes here."""
        del predicate
        raise PluginError("", "wait", f"timed out after {deadline_s:g} s waiting for {kind} {key}")


class _Noted(WaitingPod):
    """A waiting pod that notes by which name it is allowed or rejected."""

    __slots__ = ("_names", "_waiting")

    def __init__(self, waiting: WaitingPod, names: set[str]) -> None:
        self._waiting = waiting
        self._names = names
        self.pod = waiting.pod
        self.node_name = waiting.node_name
        self.status: Status | tuple[()] | None = waiting.status

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed it yet."""
        return self._waiting.pending_plugins

    @property
    def deadline_s(self) -> float:
        """The earliest deadline of a plugin; infinity once settled."""
        return self._waiting.deadline_s

    def remaining_s(self, now_s: float) -> dict[str, float]:
        """Returns how long each plugin that has not allowed the pod waits yet, in seconds."""
        return self._waiting.remaining_s(now_s)

    def allow(self, plugin: str) -> None:
        """Allows the pod, and notes the name."""
        self._names.add(plugin)
        self._waiting.allow(plugin)
        self.status = self._waiting.status

    def reject(self, plugin: str, message: str) -> None:
        """Rejects the pod, and notes the name."""
        self._names.add(plugin)
        self._waiting.reject(plugin, message)
        self.status = self._waiting.status
