"""Removes Kubernetes Events some time after their last write, and the oldest if there are too many.

Upstream, kube-apiserver writes an Event with a lease of ``--event-ttl``, and etcd removes it when
the lease ends; watchers get the deletion. Each write of an Event starts a new lease.

Source: pkg/registry/core/event/storage/storage.go (TTLFunc), pkg/controlplane/apiserver/options.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.resources import resource_named

if TYPE_CHECKING:
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry

#: As kube-apiserver.
EVENT_TTL_S: Final = 3600.0

#: Events are in memory here, about 2 KB each; upstream has no limit.
EVENTS_MAX: Final = 100_000

#: Removals in one ``run``, so that no request waits for many.
REMOVALS_MAX: Final = 500

_EVENTS = resource_named("", "events")


class EventExpiry:
    """Removes expired Events; ``run`` costs nothing while there are none."""

    def __init__(
        self,
        registry: Registry,
        deleter: Deleter,
        *,
        ttl_s: float = EVENT_TTL_S,
        events_max: int = EVENTS_MAX,
    ) -> None:
        """Removes Events ``ttl_s`` seconds after their last write; at most ``events_max`` stay."""
        self._registry = registry
        self._deleter = deleter
        self._ttl_s = ttl_s
        self._events_max = events_max
        self._changes = Changes(registry.store, _EVENTS)
        #: Key -> version and time (wall clock) of the last write, oldest first.
        self._written: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def run(self) -> int:
        """Removes what has expired, at most ``REMOVALS_MAX``; returns the number of removals."""
        now_s = self._registry.clock.wall_s()
        self._note_writes(now_s)
        events = self._registry.collection(_EVENTS)
        removed = 0
        while self._written and removed < REMOVALS_MAX:
            key, (version, written_s) = next(iter(self._written.items()))
            if now_s < written_s + self._ttl_s and len(events) <= self._events_max:
                break
            del self._written[key]
            present = events.get(key)
            if present is not None and present.version == version:
                self._deleter.on_removed(present.namespace, events.remove(key))
                removed += 1
        return removed

    def _note_writes(self, now_s: float) -> None:
        for change in self._changes.take():
            self._written.pop(change.key, None)
            if change.new is not None:
                self._written[change.key] = (change.new.version, now_s)
