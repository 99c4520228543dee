"""Checks that whatever frees the room of a pod is an event that says so, in the same step.

Other checks know the ways in which a pod leaves its node: a failed binding, a deletion. This one
knows none. It compares the pods that count on the nodes before and after each call of the cache
that removes one; a pod that does not count any more has to be in an event by the end of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.scheduler.service import Service
from tests.faults.twins.attached_queue import AttachedQueue

GONE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)

#: The calls of the cache after which a pod may not count any more.
CALLS: Final = ("forget", "remove_pod", "remove_pod_by_key", "put_pod")


class FreedRoom:
    """Follows the pods that leave the nodes of a cache.

    Attributes:
        freed: How many have left.

    Args:
        service: The scheduler.
        queue: Reports the calls of its queue.
        report: Called with each problem.
    """

    def __init__(
        self, service: Service, queue: AttachedQueue, report: Callable[[str], None]
    ) -> None:
        self.freed = 0
        self._report = report
        #: UID -> the pod that has left, without an event so far.
        self._silent: dict[str, str] = {}
        #: UIDs of the pods that were in an event in this step.
        self._told: set[str] = set()
        self._is_in_cycle = False
        self._cache: Any = service.cache
        for name in CALLS:
            setattr(self._cache, name, self._followed(getattr(self._cache, name)))
        queue.listen(self._on_queue_call)
        scheduler: Any = getattr(service, "scheduler", None)
        if scheduler is not None:
            self._prepare = scheduler._prepare_binding_cycle
            scheduler._prepare_binding_cycle = self._on_placement

    def _on_placement(self, *args: Any) -> Any:
        """Runs Reserve and Permit: a pod that they reject was never seen on the node."""
        self._is_in_cycle = True
        try:
            return self._prepare(*args)
        finally:
            self._is_in_cycle = False

    def _followed(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(argument: Any) -> Any:
            uid = argument if isinstance(argument, str) else argument.metadata.uid
            placed = self._cache.pods.get(uid)
            result = real(argument)
            if placed is not None and self._cache.pods.get(uid) is None and not self._is_in_cycle:
                self.freed += 1
                if uid not in self._told:
                    self._silent[uid] = placed.info.key
            return result

        return call

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        del named
        if name == "move" and args[0] == GONE:
            uid = args[1].metadata.uid
            self._told.add(uid)
            self._silent.pop(uid, None)

    def on_step(self) -> None:
        """Checks at the end of a step."""
        for key in self._silent.values():
            self._report(f"the room of {key} is free, but no event says so")
        self._silent.clear()
        self._told.clear()
