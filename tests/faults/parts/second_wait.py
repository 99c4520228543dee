"""A second plugin that delays pods in Permit, and the model of two timeouts of one pod.

Of the plugins that have not allowed the pod the one with the earliest deadline ends its wait, at
that time, and is the one that is named.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go (a timer for each plugin).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from mooring.clock import Clock, seeded_random
from mooring.framework import Cycle, Diagnosis, Wait
from tests.faults.parts.cycle_script import STEP_S, WAIT_S, Script

#: No two moments of both plugins are the same: those of the script are multiples of half a second.
WAITS_S: Final = (1.3, 2.7, 6.1, 9.9)
SETTLED_S: Final = 8.0
EARLY_S: Final = 1e-3
#: The wait is looked at once the nomination is written, which takes six steps of the script.
LATE_S: Final = 6 * STEP_S
TIMED_OUT: Final = "rejected due to timeout after waiting"


class SecondWait:
    """The plugin, and the model.

    Args:
        seed: Of the run; this plugin has draws of its own.
        script: The first plugin; this one delays only pods that wait for it.
        clock: The loop's.
        report: Called with each problem.
    """

    name = "SecondWait"

    def __init__(
        self, seed: int, script: Script, clock: Clock, report: Callable[[str], None]
    ) -> None:
        self._rng, self._script = seeded_random(seed + 6_000_000), script
        self._clock, self._report = clock, report
        #: UID -> the deadline of each plugin that has not allowed the pod; the loop's time.
        self._deadlines: dict[str, dict[str, float]] = {}
        script.on_allow, script.on_failed = self._allowed, self._failed

    def events(self) -> list[Any]:
        """Registers none."""
        return []

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        """Delays half of the pods that wait already, and allows them some time later, if at all."""
        del node_name
        uid, now_s = cycle.pod.uid, self._clock.monotonic_s()
        self._deadlines.pop(uid, None)
        if self._script.is_passive or not self._script.delays(uid) or self._rng.random() < 0.5:
            return None
        wait_s = self._rng.choice(WAITS_S)
        self._deadlines[uid] = {self._script.name: now_s + WAIT_S, self.name: now_s + wait_s}
        settled_s, loop = self._rng.uniform(0.1, SETTLED_S), asyncio.get_running_loop()
        loop.call_later(settled_s, self._allow, uid, now_s + wait_s)
        loop.call_later(wait_s + EARLY_S, self._check_end, uid, now_s + wait_s)
        return Wait(wait_s)

    def _allow(self, uid: str, deadline_s: float) -> None:
        """Allows a pod, unless it waits for a later attempt by now."""
        waiting = self._script.waiting().get(uid)
        if waiting is None or waiting.status is not None:
            return  # the wait has ended, while the nomination is still being written
        if self._deadlines.get(uid, {}).get(self.name) == deadline_s:
            self._allowed(self.name, uid)
            waiting.allow(self.name)

    def _check_end(self, uid: str, deadline_s: float) -> None:
        """Checks that the wait has ended at its deadline, also while the nomination is written."""
        waiting = self._script.waiting().get(uid)
        is_due = self._deadlines.get(uid, {}).get(self.name) == deadline_s
        if is_due and waiting is not None and waiting.status is None:
            self._report(f"{uid} waits for {self.name} longer than its timeout")

    def _allowed(self, plugin: str, uid: str) -> None:
        self._deadlines.get(uid, {}).pop(plugin, None)

    def _failed(self, uid: str, reason: Any) -> None:
        """Checks the end of an attempt: a timeout is that of the earliest deadline."""
        deadlines = self._deadlines.pop(uid, {})
        if not deadlines or not isinstance(reason, Diagnosis):
            return
        for status in reason.statuses.values():
            if not status.message.startswith(TIMED_OUT):
                continue
            plugin = min(deadlines, key=deadlines.__getitem__)
            late_s = self._clock.monotonic_s() - deadlines[plugin]
            if status.plugin != plugin or not -EARLY_S < late_s <= LATE_S:
                self._report(
                    f"{uid} times out for {status.plugin}, not for {plugin} {late_s:.1f} s ago"
                )
