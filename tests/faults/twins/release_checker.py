"""Checks that a release of resources is an event, and that only live pods are requeued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.queue import QueuedPod
from mooring.scheduler.service import Service
from mooring.state import PodInfo
from tests.faults.twins.attached_handlers import GONE
from tests.faults.twins.attached_queue import AttachedQueue


class ReleaseChecker:
    """Follows the assumptions that end without a binding.

    Args:
        service: The scheduler.
        queue: Reports the calls of its queue.
        report: Called with each problem.
    """

    def __init__(
        self, service: Service, queue: AttachedQueue, report: Callable[[str], None]
    ) -> None:
        self._service = service
        self._report = report
        self._released: dict[str, str] = {}
        self._is_in_cycle = False
        queue.listen(self._on_queue_call)
        cache: Any = service.cache
        self._forget = cache.forget
        cache.forget = self._on_forget
        scheduler: Any = service.scheduler
        self._schedule_one = scheduler.schedule_one
        scheduler.schedule_one = self._on_cycle

    def _on_cycle(self, *args: Any) -> Any:
        self._is_in_cycle = True
        try:
            return self._schedule_one(*args)
        finally:
            self._is_in_cycle = False

    def _on_forget(self, uid: str) -> None:
        if self._service.cache.is_assumed(uid) and not self._is_in_cycle:
            placed = self._service.cache.pods.get(uid)
            self._released[uid] = placed.info.key if placed is not None else uid
        self._forget(uid)

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if name == "add_unschedulable":
            self._check_version(*args)
        if name != "move" or args[0] != GONE:
            return
        uid = args[1].metadata.uid
        if self._released.pop(uid, None) is None:
            return
        entry, only = self._service.queue.get(uid), named.get("only")
        if entry is not None and (only is None or only(entry.pod)):
            self._report(f"{entry.pod.key} may be requeued by the release of its own resources")

    def _check_version(self, entry: QueuedPod, pod: PodInfo) -> None:
        if entry.uid != pod.uid:
            self._report(f"{pod.key} is requeued for another pod of its name")
        live = self._service.informers["Pod"].objects.get(pod.key)
        if live is not pod.pod:
            self._report(f"{pod.key} is requeued in a version that is not the newest")
        elif live.spec.node_name:
            self._report(f"{pod.key} is requeued, but is bound to {live.spec.node_name}")

    def on_step(self) -> None:
        """Checks at the end of a step: each release was an event."""
        for key in self._released.values():
            self._report(f"the resources of {key} were released without an event")
        self._released = {}
