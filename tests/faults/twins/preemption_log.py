"""The log of preemptions: what each attempt decided, and what of it was carried out.

::

    PostFilter ──> victims, a node ──> evictions ──> each with a result ──> success or error
    (an attempt)   (decided)           (carried out, once for each decision)

A preemption whose evictions failed is decided anew in a later attempt, and counts twice: once for
each decision. So both are counted by themselves, and not by pod or victim.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from mooring.framework import PostFilterResult
from mooring.scheduler.service import Service

SUCCESS: Final = "success"
ERROR: Final = "error"
PLUGIN: Final = "DefaultPreemption"


class PreemptionLog:
    """Follows the preemptions of a scheduler.

    Attributes:
        attempts: Calls of PostFilter of the plugin that preempts.
        victims: The number of victims of each preemption that evicts any.
        ends: Result -> number of preemptions whose evictions have ended with it.

    Args:
        service: Has not begun yet.
        report: Called with each attempt that does not do what it has decided.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self.attempts = 0
        self.victims: list[int] = []
        self.ends: Counter[str] = Counter()
        self._report = report
        self._nominator = service.cache.nominator
        #: UID of the preemptor -> the decision of its attempt, until that ends.
        self._decided: dict[str, PostFilterResult] = {}
        #: The evictions of a run, by victim.
        self._evicted: dict[Any, dict[str, bool]] = {}
        #: The task of a run -> whether it could clear the nominations of others.
        self._cleared: dict[Any, bool] = {}
        scheduler: Any = service.scheduler
        self._follow_decisions(service, scheduler._observer)
        self._follow_evictions(service.preemption_executor)

    # -- decisions --------------------------------------------------------------------------------

    def _follow_decisions(self, service: Service, observer: Any) -> None:
        for framework in service.profiles.values():
            for plugin in framework.plugins("post_filter"):
                if plugin.name == PLUGIN:
                    self._count_calls(plugin)
        self._preempts, self._failed = observer.preempts, observer.failed
        observer.preempts, observer.failed = self._on_decision, self._on_failed

    def _count_calls(self, plugin: Any) -> None:
        real = plugin.post_filter

        def post_filter(*args: Any) -> Any:
            self.attempts += 1
            return real(*args)

        plugin.post_filter = post_filter

    def _on_decision(self, entry: Any, result: PostFilterResult) -> None:
        self._decided[entry.uid] = result
        self._preempts(entry, result)

    def _on_failed(self, entry: Any, why: Any) -> None:
        """Compares the nomination after an attempt with victims."""
        decided = self._decided.pop(entry.uid, None)
        nominated = self._nominator.node_of(entry.uid)
        if decided is not None and nominated != decided.node_name:
            self._report(
                f"{entry.pod.key} evicts pods on {decided.node_name}, "
                f"but is nominated to {nominated!r}"
            )
        self._failed(entry, why)

    # -- what is carried out ----------------------------------------------------------------------

    def _follow_evictions(self, executor: Any) -> None:
        self._start, self._evict = executor.start, executor._evict
        self._clear = executor._clear_lower_priority_nominations
        self._evict_victims = executor._evict_victims
        executor.start, executor._evict = self._on_start, self._on_evict
        executor._clear_lower_priority_nominations = self._on_clear
        executor._evict_victims = self._on_evictions

    def _on_start(self, preemptor: Any, result: PostFilterResult) -> None:
        decided = self._decided.get(preemptor.uid)
        if decided is not result:
            self._report(f"{preemptor.key} evicts pods that its attempt has not chosen")
        if any(pod.metadata.deletion_timestamp is None for pod in result.victims):
            self.victims.append(len(result.victims))
        self._start(preemptor, result)

    async def _on_clear(self, *args: Any) -> bool:
        is_cleared = bool(await self._clear(*args))
        self._cleared[asyncio.current_task()] = is_cleared
        return is_cleared

    async def _on_evict(self, run: Any, victim: Any) -> bool:
        is_evicted = bool(await self._evict(run, victim))
        self._evicted[run][victim.uid] = is_evicted
        return is_evicted

    async def _on_evictions(self, run: Any, victims: Any) -> bool:
        """Counts the end of a preemption by the results of its parts."""
        results = self._evicted[run] = {}
        try:
            return bool(await self._evict_victims(run, victims))
        finally:
            is_cleared = self._cleared.pop(asyncio.current_task(), False)
            are_evicted = all(results.get(victim.uid, False) for victim in victims)
            self.ends[SUCCESS if is_cleared and are_evicted else ERROR] += 1
            del self._evicted[run]
