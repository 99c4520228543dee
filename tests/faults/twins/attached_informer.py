"""Follows the changes that an informer reports: one object after another, without gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.client import Informer, ObjectChange
from mooring.scheduler.service import Service


class AttachedInformers:
    """Compares the objects of each informer with those that it reported.

    Args:
        service: The scheduler.
        report: Called with each problem.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self._report = report
        self._informers = service.informers
        self._objects: dict[str, dict[str, Any]] = {kind: {} for kind in service.informers}
        self._missed = dict.fromkeys(service.informers, 0)
        events: Any = service.events
        self._events = events
        #: Kind and UID of the objects in the buffer.
        self._buffered: set[tuple[str, str]] = set()
        self._real = events.on_change
        events.on_change = self._on_change

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind in self._informers and not self._is_repeated(kind, change):
            self._follow(kind, change)
        self._real(kind, change)

    def _is_repeated(self, kind: str, change: ObjectChange) -> bool:
        """Returns whether the end of a buffer reports the change, merged, once more."""
        obj = change.new if change.new is not None else change.old
        at = kind, obj.metadata.uid or _key(obj)
        if self._events._buffered_events is not None:
            self._buffered.add(at)
            return False
        is_repeated = at in self._buffered
        self._buffered.discard(at)
        return is_repeated

    def _follow(self, kind: str, change: ObjectChange) -> None:
        objects, old, new = self._objects[kind], change.old, change.new
        key = _key(new if new is not None else old)
        if objects.get(key) is not old:
            self._report(f"{kind} {key} changed from another version than the last reported")
        if new is None:
            objects.pop(key, None)
            self._missed[kind] += change.last is None
        else:
            objects[key] = new
        if old is not None and new is not None:
            if old.metadata.uid != new.metadata.uid:
                self._report(f"{kind} {key}: another object of the name is an update")
            if int(new.metadata.resource_version) <= int(old.metadata.resource_version):
                self._report(f"{kind} {key}: version {new.metadata.resource_version} is not newer")

    def compare(self) -> None:
        """Compares at rest: nothing is reported just now."""
        for kind, informer in self._informers.items():
            reported, real = self._objects[kind], informer.objects
            if real.keys() != reported.keys() or any(real[k] is not reported[k] for k in real):
                self._report(f"the informer of {kind} has other objects than it reported")
            self._compare_missed(kind, informer)

    def _compare_missed(self, kind: str, informer: Informer) -> None:
        missed = informer.statistics().missed_deletes
        if self._missed[kind] != missed:
            message = f"{self._missed[kind]} deletions of {kind} without the last version"
            self._report(f"{message}, but a watch missed {missed}")


def _key(obj: Any) -> str:
    namespace = obj.metadata.namespace
    return f"{namespace}/{obj.metadata.name}" if namespace else str(obj.metadata.name)
