"""Checks that an event that lets an unschedulable pod fit requeues it, at that very event.

The checks once per second (``wakeup_checker``) do not see a lost wake-up that another event makes
good within some seconds. Here the reference decides before and after each change of a pod or node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.client import ObjectChange
from mooring.queue import QueuedPod
from mooring.scheduler.service import Service
from tests.faults.harness.wakeup_checker import WakeupChecker, Worlds, is_checked

#: The kinds whose changes can let a pod fit, in these runs.
KINDS: Final = ("Pod", "Node")


class MustQueue:
    """Compares which unschedulable pods fit before and after each change.

    Attributes:
        compared: Number of pods that were compared at a change.
        helped: Number of them that fitted after it, and not before.

    Args:
        service: Has not begun yet.
        wakeups: Knows which pods are exempt.
        report: Called with each pod that was not requeued.
    """

    def __init__(
        self, service: Service, wakeups: WakeupChecker, report: Callable[[str], None]
    ) -> None:
        self.compared = self.helped = 0
        self._service = service
        self._wakeups = wakeups
        self._report = report
        #: The state for which ``_fits`` holds.
        self._state: object = None
        self._fits: dict[str, str] = {}
        events: Any = service.events
        self._real = events.on_change
        events.on_change = self._on_change

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        waiting = self._waiting() if kind in KINDS else {}
        if not waiting:
            self._real(kind, change)
            return
        before = {uid: self._node_for(entry) for uid, entry in waiting.items()}
        numbers = {uid: entry.attempt_number for uid, entry in waiting.items()}
        self._real(kind, change)
        for uid, entry in self._waiting().items():
            if uid not in before or entry.attempt_number != numbers[uid]:
                continue
            self.compared += 1
            node_name = self._node_for(entry)
            if before[uid] or not node_name or self._wakeups.is_exempt(entry, self._service):
                continue
            obj = change.new if change.new is not None else change.old
            self._report(
                f"{entry.pod.key} fits {node_name} after a change of {kind} {obj.metadata.name}, "
                f"but was not requeued; rejected by {sorted(entry.unschedulable_plugins)}"
            )

    def _waiting(self) -> dict[str, QueuedPod]:
        entries = [entry for entry in self._service.queue.pods() if is_checked(entry)]
        return {entry.uid: entry for entry in entries}

    def _node_for(self, entry: QueuedPod) -> str:
        """Returns a node that a pod fits now; "" if there is none."""
        service = self._service
        state = (
            service.cache.nodes.log.generation,
            service.cache.assumed_count(),
            [(info.uid, name) for info, name in service.cache.nominator.pods()],
            [informer.version for informer in service.informers.values()],
        )
        if state != self._state:
            self._state, self._fits = state, {}
            self._worlds = Worlds(service)
        key = f"{entry.uid} {entry.pod.metadata.resource_version}"
        if key not in self._fits:
            self._fits[key] = self._worlds.node_for(entry)
        return self._fits[key]
