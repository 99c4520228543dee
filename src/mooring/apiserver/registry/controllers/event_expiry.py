"""Removes Kubernetes Events some time after their last write, and pods after their grace period.

The oldest Events are removed if there are too many.

Upstream, kube-apiserver writes an Event with a lease of ``--event-ttl``, and etcd removes it when
the lease ends; watchers get the deletion. Each write of an Event starts a new lease.

Source: pkg/registry/core/event/storage/storage.go (TTLFunc), pkg/controlplane/apiserver/options.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.resources import resource_named

if TYPE_CHECKING:
    from mooring.apiserver.registry.controllers.controllers import Controllers
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry

#: As kube-apiserver.
EVENT_TTL_S: Final = 3600.0

#: Events are in memory here, about 2 KB each; upstream has no limit.
EVENTS_MAX: Final = 100_000

#: Removals in one ``run``, so that no request waits for many.
REMOVALS_MAX: Final = 500
#: Removals of pods in one step, each with what follows from it, and the pause after them.
PODS_MAX: Final = 250
PAUSE_S: Final = 0.01

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


class Expiry:
    """Removes all that is due: pods at the end of their grace period, and Events.

    On the event loop of a server thousands of pods that end at the same time are removed in steps.
    """

    def __init__(
        self, registry: Registry, deleter: Deleter, events: EventExpiry, controllers: Controllers
    ) -> None:
        self._writes = registry.store.writes
        self._registry = registry
        self._deleter = deleter
        self._events = events
        self._controllers = controllers
        #: The next step; None = all is done.
        self._next: asyncio.TimerHandle | None = None

    def run(self) -> int:
        """Removes what is due, at most some hundred pods at once; returns the number."""
        if not self._writes.may_run:
            return 0
        loop = self._loop()
        if loop is None:
            removed = self._deleter.tick()
        elif self._next is not None:
            removed = 0  # there is a next step already
        else:
            removed = self._deleter.tick(PODS_MAX)
            self._go_on_later(loop)
        removed += self._events.run()
        if removed:
            self._controllers.run()
        return removed

    def _loop(self) -> asyncio.AbstractEventLoop | None:
        """Returns the event loop of this thread; None = none waits for this thread."""
        if not self._writes.has_threads:
            return None
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    def _go_on_later(self, loop: asyncio.AbstractEventLoop) -> None:
        due_s = self._deleter.due_s
        is_behind = due_s is not None and due_s <= self._registry.clock.wall_s()
        if is_behind:
            self._next = loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._writes.may_run:
            self.run()
        elif (loop := self._loop()) is not None:
            self._next = loop.call_later(PAUSE_S, self._go_on)
