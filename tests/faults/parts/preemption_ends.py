"""The ends of preemptions: which victims are evicted, and how long a preemptor waits for them.

All victims but the last one are evicted, whatever fails; then the last one, if none of them has
failed. A nomination that could not be cleared keeps no victim from that, but the preemption has
failed. The wait for victims to leave ends as soon as all of them do, or after five seconds.

Source: pkg/scheduler/framework/preemption/executor.go (prepareCandidateAsync).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mooring.objects.pod import Pod
from mooring.state import PodInfo

OBSERVED_S: Final = 5.0
#: So often it is looked whether a wait has no reason any more.
LOOK_S: Final = 0.25
LATE_S: Final = 2.5 * LOOK_S


def check_ends(executor: Any, pods: Mapping[str, Pod], report: Callable[[str], None]) -> None:
    """Checks the victims and the waits of all preemptions of an executor."""
    _check_waits(executor, pods, report)
    _check_victims(executor, report)


def _check_victims(executor: Any, report: Callable[[str], None]) -> None:
    """Checks which victims are evicted, in each preemption that is not ended by an error."""
    real_all, real_evict = executor._evict_victims, executor._evict
    real_clear = executor._clear_lower_priority_nominations
    #: By preemption: the results of victims by UID.
    results: dict[object, dict[str, bool]] = {}
    cleared: dict[object, bool] = {}

    async def clear(preemptor: PodInfo, node_name: str) -> bool:
        is_cleared = bool(await real_clear(preemptor, node_name))
        cleared[asyncio.current_task()] = is_cleared
        return is_cleared

    async def evict(run: Any, victim: PodInfo) -> bool:
        is_evicted = bool(await real_evict(run, victim))
        results.setdefault(run, {})[victim.uid] = is_evicted
        return is_evicted

    async def evict_all(run: Any, victims: Sequence[PodInfo]) -> bool:
        real: dict[str, bool] = {}
        results[run] = real
        is_evicted = bool(await real_all(run, victims))
        *first, last = [victim.uid for victim in victims]
        has_failed = not all(real.get(uid, False) for uid in first)
        expected = {*first} if has_failed else {*first, last}
        if real.keys() != expected:
            report(f"{sorted(real)} are evicted for {run.preemptor.key}, not {sorted(expected)}")
        is_cleared = cleared.pop(asyncio.current_task(), False)
        is_due = not has_failed and real.get(last, False) and is_cleared
        if is_evicted is not is_due:
            report(f"the preemption for {run.preemptor.key} has succeeded: {is_evicted}, {real}")
        return is_evicted

    executor._evict_victims, executor._evict = evict_all, evict
    executor._clear_lower_priority_nominations = clear


def _check_waits(executor: Any, pods: Mapping[str, Pod], report: Callable[[str], None]) -> None:
    """Checks that each wait for victims ends when all of them leave, or after five seconds."""
    real_wait, loop = executor._wait_until_deleted, asyncio.get_running_loop()

    async def wait(victims: Sequence[PodInfo]) -> None:
        ends_s, left_s = loop.time() + OBSERVED_S, None
        waiting = asyncio.ensure_future(real_wait(victims))
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=LOOK_S)
                if _there(pods, victims):
                    left_s = None
                elif left_s is None:
                    left_s = loop.time()
        finally:
            waiting.cancel()
        there = _there(pods, victims)
        if there and loop.time() < ends_s:
            report(f"a preemptor does not wait for {there}")
        if left_s is not None and loop.time() > left_s + LATE_S:
            names = [victim.key for victim in victims]
            report(f"a preemptor waits for {names} {loop.time() - left_s:.2f} s after they left")

    executor._wait_until_deleted = wait


def _there(pods: Mapping[str, Pod], victims: Sequence[PodInfo]) -> list[str]:
    """Returns the victims that are on their node, and of which nothing says that they leave."""
    return [victim.key for victim in victims if _stays(pods.get(victim.key), victim.uid)]


def _stays(live: Pod | None, uid: str) -> bool:
    if live is None or live.metadata.uid != uid:
        return False
    return live.metadata.deletion_timestamp is None and bool(live.spec.node_name)
