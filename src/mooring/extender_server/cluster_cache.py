"""A cache of the cluster, updated by informers, for programs that do not schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from mooring.client import Client, Informer, ObjectChange
from mooring.clock import Clock, Rng
from mooring.objects.kinds import kind_named
from mooring.objects.selector_text import LIVING_PODS
from mooring.state.apply import apply_change
from mooring.state.cache import Cache
from mooring.state.listers import Listers


class ClusterCache:
    """Keeps ``cache`` equal to the API server.

    Args:
        client: The API server.
        kinds: Kinds to watch besides nodes and pods.
        clock: For everything.
        rng: For everything.
        cache: To be filled; a new one by default.
        listers: The objects that plugins list; their kinds are watched, too.
    """

    def __init__(
        self,
        client: Client,
        kinds: Iterable[str] = (),
        *,
        clock: Clock,
        rng: Rng,
        cache: Cache | None = None,
        listers: Listers | None = None,
    ) -> None:
        self.cache = Cache() if cache is None else cache
        self._listers = listers if listers is not None else Listers()
        names = dict.fromkeys(kind_named(kind).name for kind in (*kinds, *self._listers.kinds))
        other_kinds = [kind for kind in names if kind not in ("Node", "Pod")]
        self._informers = [
            Informer(
                client,
                kind,
                self._handler(kind),
                clock=clock,
                rng=rng,
                field_selector=LIVING_PODS if kind == "Pod" else "",
            )
            for kind in ("Node", *other_kinds, "Pod")
        ]

    @property
    def has_synced(self) -> bool:
        """True if every kind has been listed."""
        return all(informer.has_synced for informer in self._informers)

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    async def wait_until_synced(self) -> None:
        """Returns when every kind has been listed."""
        for informer in self._informers:
            await informer.wait_until_synced()

    def _handler(self, kind: str) -> Callable[[ObjectChange], None]:
        return lambda change: self._apply(kind, change)

    def _apply(self, kind: str, change: ObjectChange) -> None:
        self._listers.apply(kind, change.old, change.new)
        apply_change(self.cache, kind, change.old, change.new)
