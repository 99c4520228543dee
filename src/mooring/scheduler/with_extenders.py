"""Decisions that wait: what extenders are asked is carried to them, and their answers back.

::

    decide yields questions ──> all asked at once ──> answers are sent in ──> ... ──> its result
    ───────────────────────────── news goes to the inbox ─────────────────────────────┘   │
                                                     it will do still? <── news is known ─┘
                                                       │ yes: assume ...     no: once more

While it waits, the news of the cluster is kept back, so that every node keeps its row; pods that
are on their way to nodes go on, and may give room back. So each answer is taken in with a new
snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from mooring.errors import ExtenderError, InvariantViolation, SchedulerError
from mooring.framework import Attempt, Diagnosis, Framework
from mooring.framework.extender import ExtenderCallback, ExtenderCalls
from mooring.framework.runtime import with_extenders
from mooring.framework.runtime.post_filter import post_filter_with_extenders
from mooring.framework.status import PostFilterResult
from mooring.queue import InFlightAttempt, QueuedPod, profile_of
from mooring.scheduler.schedule_one import Scheduler
from mooring.state import PodInfo

#: How often extenders are asked about a pod in one attempt, if the cluster changes all the time.
ATTEMPTS_MAX: Final = 3

T = TypeVar("T")


class ExtenderScheduler(Scheduler):
    """A scheduler with extenders.

    Args:
        arguments: As of ``Scheduler``.
        inbox: Keeps news back while its block runs, and holds it.
        named: As of ``Scheduler``.
    """

    def __init__(
        self,
        *arguments: Any,
        buffer_events: Callable[[], AbstractContextManager[Sized]],
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._buffered_events = buffer_events

    async def schedule_next(self) -> bool:
        """Makes one decision; False if no pod waits for one."""
        entry = self._queue.pop()
        if entry is None:
            return False
        if self._profiles[profile_of(entry.pod)].needs_extenders(entry.pod):
            await self.schedule_one_with_extenders(entry)
        else:
            self.schedule_one(entry)
        return True

    async def schedule_one_with_extenders(self, entry: QueuedPod) -> None:
        """As ``schedule_one``, with what extenders say."""
        with self._queue.in_flight(entry) as in_flight:
            framework = self._profiles[profile_of(entry.pod)]
            for _ in range(ATTEMPTS_MAX):
                if self._should_skip(entry.pod) or self._is_gone(entry):
                    return
                try:
                    is_over = await self._ask(framework, entry, in_flight)
                except InvariantViolation:
                    raise
                except SchedulerError as error:
                    self._handle_scheduling_failure(entry, error)
                    return
                if is_over:
                    return
            told = f"the cluster changed {ATTEMPTS_MAX} times while extenders were asked"
            self._handle_scheduling_failure(entry, SchedulerError(told))

    async def _ask(
        self, framework: Framework, entry: QueuedPod, in_flight: InFlightAttempt
    ) -> bool:
        """Decides with extenders, and carries it out; False if the node will not do any more.

        Raises:
            SchedulerError: a plugin or an extender failed.
        """
        cycle = framework.new_cycle(entry.pod, self._cache.snapshot())
        attempt = Attempt(cycle.snapshot, self._next_start_index)
        post_filter_result = PostFilterResult(None, "")

        def renew() -> None:
            cycle.snapshot = attempt.snapshot = self._cache.snapshot()

        with self._buffered_events() as news:
            try:
                found = await drive_extender_calls(
                    with_extenders.schedule_pod(framework, cycle, attempt), renew
                )
            finally:
                self._next_start_index = attempt.next_start_index(self._next_start_index)
            if isinstance(found, Diagnosis):
                post_filter_result = await drive_extender_calls(
                    post_filter_with_extenders(framework, cycle, found), renew
                )
                attempt.preemption = post_filter_result.record
            self._observer.attempted(entry, attempt, found)
        # Now all news is known: whatever is decided has to be right for the cluster as it is.
        if self._is_gone(entry):
            return True
        if isinstance(found, Diagnosis):
            if news and not self._are_there(post_filter_result):
                return False
            self._handle_no_fit(entry, found, post_filter_result)
            return True
        if news:
            later = framework.new_cycle(entry.pod, self._cache.snapshot())
            if not with_extenders.still_fits(framework, cycle, later, found.node_name):
                return False
            cycle = later
        self._prepare_binding_cycle(framework, cycle, found, in_flight)
        return True

    def _are_there(self, post_filter_result: PostFilterResult) -> bool:
        """Returns whether all victims are still on their node, which is still there."""
        row = self._cache.nodes.live_row(post_filter_result.node_name or "")
        found = [self._cache.pods.get(victim.uid) for victim in post_filter_result.victims]
        return all(placed is not None and placed.row == row for placed in found)

    def _is_gone(self, entry: QueuedPod) -> bool:
        """Returns whether the pod is not to be placed any more: it is deleted, or has a node."""
        live = self._pods.get(entry.pod.key)
        if live is None or live.metadata.uid != entry.uid or live.spec.node_name:
            self._cache.nominator.remove(entry.uid)
            return True
        return live.metadata.deletion_timestamp is not None and self._should_skip(PodInfo(live))


# ---------------------------------------------------------------- questions and answers


async def drive_extender_calls(questions: ExtenderCalls[T], renew: Callable[[], None]) -> T:
    """Returns the result of what asks these questions; ``renew`` is called whenever it has waited.

    Raises whatever it raises.
    """
    try:
        asks = next(questions)
        while True:
            answers = await _all(asks)
            renew()
            asks = questions.send(answers)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        questions.close()


async def _all(asks: list[ExtenderCallback]) -> list[Any]:
    if len(asks) == 1:
        return [await _one(asks[0])]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_one(ask)) for ask in asks]
    return [task.result() for task in tasks]


async def _one(ask: ExtenderCallback) -> Any:
    """The answer, or the error as a value: one that failed is no reason to break off the others."""
    try:
        return await ask()
    except ExtenderError as error:
        return error
