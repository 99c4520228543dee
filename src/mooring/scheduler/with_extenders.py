"""The scheduling cycle with extenders: it awaits their calls, so the cluster may change meanwhile.

::

    schedule_pod yields calls ──> sent all at once ──> answers ──> ... ──> Placement or Diagnosis
    ────────────────────────── cluster events are buffered ──────────────────────┘   │
                                              does it still fit? <── events applied ─┘
                                                │ yes: assume ...     no: once more

While it waits, cluster events are buffered, so that every node keeps its row; binding cycles go on
and may release resources. So each answer is used with a new snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mooring.errors import ExtenderError, InvariantViolation, SchedulerError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework
from mooring.framework.extender import ExtenderCallback, ExtenderCalls
from mooring.framework.runtime import with_extenders
from mooring.framework.runtime.post_filter import post_filter_with_extenders
from mooring.framework.status import PostFilterResult
from mooring.queue import InFlightAttempt, QueuedPod, profile_of
from mooring.scheduler.schedule_one import NO_POST_FILTER, Scheduler, cycle_error
from mooring.state import PodInfo

#: How often one attempt starts over because the cluster changed while extenders were called.
ATTEMPTS_MAX: Final = 3

T = TypeVar("T")


class ExtenderScheduler(Scheduler):
    """A scheduler with extenders; its arguments are those of ``Scheduler``."""

    async def schedule_batch(self) -> bool:
        """Schedules one pod. Returns False if the queue had none."""
        entry = self._queue.pop()
        if entry is None:
            return False
        if self._profiles[profile_of(entry.pod)].needs_extenders(entry.pod):
            await self.schedule_one_with_extenders(entry)
        else:
            self.schedule_one(entry)
        if self._waits_for_evictions:
            await self._preemptions_end()
        return True

    async def schedule_one_with_extenders(self, entry: QueuedPod) -> None:
        """Runs the scheduling cycle as ``schedule_one``, and calls the extenders."""
        with self._queue.in_flight(entry) as in_flight:
            entry.attempt_started_s = self._recorder.now()
            framework = self._profiles[profile_of(entry.pod)]
            for _ in range(ATTEMPTS_MAX):
                if self._should_skip(entry.pod) or self._is_deleted_or_bound(entry):
                    return
                try:
                    is_over = await self._try_once(framework, entry, in_flight)
                except InvariantViolation:
                    raise
                except SchedulerError as error:
                    self._handle_scheduling_failure(entry, error)
                    return
                if is_over:
                    return
            message = f"the cluster changed {ATTEMPTS_MAX} times while extenders were called"
            self._handle_scheduling_failure(entry, SchedulerError(message))

    async def _try_once(
        self, framework: Framework, entry: QueuedPod, in_flight: InFlightAttempt
    ) -> bool:
        """Schedules the pod. Returns False if the chosen node does not fit any more.

        Raises:
            SchedulerError: a plugin or an extender failed.
        """
        cycle = framework.new_cycle(entry.pod, self._cache.snapshot())
        attempt = Attempt(cycle.snapshot, self._next_start_index)
        post_filter_result = NO_POST_FILTER

        def renew_snapshot() -> None:
            cycle.snapshot = attempt.snapshot = self._cache.snapshot()

        with self._buffer_events() as buffered:
            try:
                calls = with_extenders.schedule_pod(framework, cycle, attempt)
                result = await drive_extender_calls(calls, renew_snapshot)
                if isinstance(result, Diagnosis):
                    calls_of_post_filter = post_filter_with_extenders(framework, cycle, result)
                    post_filter_result = await drive_extender_calls(
                        calls_of_post_filter, renew_snapshot
                    )
                    attempt.preemption = post_filter_result.record
            except SchedulerError:
                raise
            except Exception as error:  # one pod that we cannot handle must not stop all others
                raise cycle_error(framework, error) from error
            finally:
                self._next_start_index = attempt.next_start_index(self._next_start_index)
            self._recorder.algorithm_ended(entry.attempt_started_s)
            self._observer.attempted(entry, attempt, result)
        # The buffered events are applied now: the result has to fit the cluster as it is.
        if self._is_deleted_or_bound(entry):
            return True
        if isinstance(result, Diagnosis):
            if buffered and not self._are_victims_there(post_filter_result):
                return False
            self._handle_no_fit(entry, result, post_filter_result)
            return True
        if buffered:
            new_cycle = framework.new_cycle(entry.pod, self._cache.snapshot())
            if not _still_fits(framework, cycle, new_cycle, result.node_name):
                return False
            cycle = new_cycle
        self._prepare_binding_cycle(framework, cycle, result, in_flight)
        return True

    def _are_victims_there(self, post_filter_result: PostFilterResult) -> bool:
        """Returns whether the node still exists, with all victims on it."""
        row = self._cache.nodes.live_row(post_filter_result.node_name or "")
        victims = [self._cache.pods.get(victim.uid) for victim in post_filter_result.victims]
        return all(placed is not None and placed.row == row for placed in victims)

    def _is_deleted_or_bound(self, entry: QueuedPod) -> bool:
        """Returns whether the pod is not to be scheduled any more."""
        live = self._pods.get(entry.pod.key)
        if live is None or live.metadata.uid != entry.uid or live.spec.node_name:
            self._cache.nominator.remove(entry.uid)
            return True
        return live.metadata.deletion_timestamp is not None and self._should_skip(PodInfo(live))


def _still_fits(framework: Framework, cycle: Cycle, later: Cycle, node_name: str) -> bool:
    """Returns whether the node is still feasible.

    Raises:
        SchedulerError: a plugin failed, or our own code, which ends the attempt and no more.
    """
    try:
        return with_extenders.still_fits(framework, cycle, later, node_name)
    except SchedulerError:
        raise
    except Exception as error:
        raise cycle_error(framework, error) from error


# ---------------------------------------------------------------- calls


async def drive_extender_calls(calls: ExtenderCalls[T], renew: Callable[[], None]) -> T:
    """Drives a generator of extender calls to its result; calls ``renew`` after every await.

    Raises whatever the generator raises.
    """
    try:
        batch = next(calls)
        while True:
            answers = await _send_all(batch)
            renew()
            batch = calls.send(answers)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        calls.close()


async def _send_all(batch: list[ExtenderCallback]) -> list[Any]:
    if len(batch) == 1:
        return [await _send(batch[0])]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_send(call)) for call in batch]
    return [task.result() for task in tasks]


async def _send(call: ExtenderCallback) -> Any:
    """Returns the answer, or the error as a value: one failure must not cancel the other calls."""
    try:
        return await call()
    except ExtenderError as error:
        return error
