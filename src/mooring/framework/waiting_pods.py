"""Pods that wait in Permit.

::

                     every plugin that waits allowed it
    waiting ----------------------------------------------> allowed
       |      reject, or timeout of a plugin
       +-------------------------------------> rejected (the pod is unschedulable, by that plugin)

A sync state machine: the clock is passed in, and the scheduler calls ``expire``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mooring.config.durations import duration_text
from mooring.deprecated import RenamedAttribute
from mooring.framework.status import NodeError, Reject, Status
from mooring.state.tables.pods import PodInfo

#: Maximum timeout of a plugin: 15 minutes (upstream's maxTimeout).
MAX_WAIT_S = 15 * 60.0


class WaitingPod:
    """A pod in Permit: the plugins that still wait, and their deadlines (monotonic seconds)."""

    __slots__ = ("_deadlines", "_timeouts", "node_name", "on_settled", "pod", "status")

    verdict = RenamedAttribute("verdict", "status")

    def __init__(
        self, pod: PodInfo, node_name: str, waits: Mapping[str, float], now_s: float
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        #: None while waiting; then () = allowed, or the status of the rejection.
        self.status: Status | tuple[()] | None = None
        #: Called once, when ``status`` is set.
        self.on_settled: Callable[[WaitingPod], None] | None = None
        self._timeouts = {plugin: min(wait_s, MAX_WAIT_S) for plugin, wait_s in waits.items()}
        self._deadlines = {plugin: now_s + wait_s for plugin, wait_s in self._timeouts.items()}

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed it yet."""
        return list(self._deadlines)

    @property
    def deadline_s(self) -> float:
        """The earliest deadline of a plugin; infinity once settled."""
        if self.status is not None:
            return float("inf")
        return min(self._deadlines.values(), default=float("inf"))

    def remaining_s(self, now_s: float) -> dict[str, float]:
        """Returns how long each plugin that has not allowed the pod waits yet, in seconds."""
        return {plugin: max(0.0, ends_s - now_s) for plugin, ends_s in self._deadlines.items()}

    def allow(self, plugin: str) -> None:
        """Removes ``plugin`` from those that wait; the pod is allowed when none is left."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._settle(())

    def reject(self, plugin: str, message: str) -> None:
        """Rejects the pod on behalf of ``plugin``."""
        self._settle(Reject(message).named(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Rejects the pod as a victim of preemption; returns False if it was settled before.

        The status is an Error, so the pod is retried without waiting for an event.
        """
        was_waiting = self.status is None
        self._settle(NodeError(message).named(plugin))
        return was_waiting

    def expire(self, now_s: float) -> None:
        """Rejects the pod if a deadline has passed at ``now_s``; the earliest one counts."""
        if self.deadline_s > now_s:
            return
        plugin = min(self._deadlines, key=self._deadlines.__getitem__)
        timeout = duration_text(self._timeouts[plugin])
        self.reject(plugin, f"rejected due to timeout after waiting {timeout} at plugin {plugin}")

    def _settle(self, status: Status | tuple[()]) -> None:
        if self.status is not None:
            return
        self.status = status
        if self.on_settled is not None:
            self.on_settled(self)


class WaitingPods:
    """The waiting pods of one scheduler, by UID."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def add(self, waiting: WaitingPod) -> None:
        """Adds a pod that begins to wait."""
        self._pods[waiting.pod.uid] = waiting

    def get(self, uid: str) -> WaitingPod | None:
        """Returns the waiting pod with this UID."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Removes a pod after its wait."""
        self._pods.pop(uid, None)

    def expire(self, now_s: float) -> None:
        """Rejects every pod whose deadline has passed."""
        for waiting in list(self._pods.values()):
            waiting.expire(now_s)
