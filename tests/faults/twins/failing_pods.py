"""Checks that a pod whose attempts end with errors keeps no node from others (L7).

A pod that is nominated to a node counts there for all pods of its priority or a lower one. An
attempt that ends with an error has decided nothing, so it ends the nomination: else a pod that
fails for ever, or is quarantined for an hour, would keep the node for as long as that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.errors import SchedulerError
from mooring.scheduler.service import Service
from tests.faults.twins.at_rest import AtRest

#: So many seconds in a row a pod may be at rest with a nomination.
NOMINATED_MAX: Final = 2


class FailingPods:
    """Follows the pods whose last attempt ended with an error.

    Attributes:
        compared: Number of such pods that were compared at rest.

    Args:
        service: Has not begun yet.
        at_rest: Knows the pods whose status needs no write.
        report: Called with each pod that keeps a node.
    """

    def __init__(self, service: Service, at_rest: AtRest, report: Callable[[str], None]) -> None:
        self.compared = 0
        self._service, self._at_rest, self._report = service, at_rest, report
        #: UIDs of the pods whose last attempt ended with an error.
        self._failing: set[str] = set()
        #: UID -> number of checks in a row in which it was nominated.
        self._nominated: dict[str, int] = {}
        observer: Any = service.scheduler._observer
        self._failed = observer.failed
        observer.failed = self._on_failed

    def _on_failed(self, entry: Any, why: Any) -> None:
        if isinstance(why, SchedulerError):
            self._failing.add(entry.uid)
        else:
            self._failing.discard(entry.uid)
        self._failed(entry, why)

    def on_tick(self) -> None:
        """Checks the pods at rest; called once per second."""
        nominated: dict[str, int] = {}
        for pod in self._at_rest.pods():
            uid = pod.metadata.uid
            if uid not in self._failing:
                continue
            self.compared += 1
            node_name = self._service.cache.nominator.node_of(uid)
            if not node_name:
                continue
            nominated[uid] = self._nominated.get(uid, 0) + 1
            if nominated[uid] > NOMINATED_MAX:
                self._report(f"{pod.metadata.name} fails with errors, but keeps {node_name}")
        self._nominated = nominated
