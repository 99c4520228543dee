"""Reports of attempts as events and statuses, of pods of three schedulers, beside a table.

The recorders and the writer only collect what they get. Long notes are cut to 1024 bytes; the
condition has the whole message. One scheduler has a note of its own for bound pods.

Source: pkg/scheduler/schedule_one.go (finishBinding, handleSchedulingFailure, skipPodSchedule,
truncateMessage); pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.errors import Conflict, PluginError, Unreachable
from mooring.framework import Diagnosis, Reject
from mooring.scheduler.reporting import Reporting
from mooring.scheduler.status_writer import StatusUpdate
from mooring.state import PodInfo
from mooring.testing import make_pod

REPORTS: Final = 40
NODE: Final = "a"
SCHEDULERS: Final = ("default-scheduler", "second", "third")
NOTE_BYTES_MAX: Final = 1024
WORDS: Final = ("Insufficient cpu", "größer", "x" * 600, "y" * 1024, "é" * 511)


class ReportsRun:
    """One run.

    Attributes:
        problems: Differences to the table.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._count = 0
        #: What is recorded and written by a report, and what has to be.
        self._made: list[tuple[Any, ...]] = []
        self._expected: list[tuple[Any, ...]] = []
        recorders: Any = {
            name: SimpleNamespace(record=partial(self._record, name)) for name in SCHEDULERS
        }
        writer: Any = SimpleNamespace(
            forget=lambda uid: self._made.append(("forget", uid)),
            cancel_update=lambda uid: self._made.append(("cancel", uid)),
            enqueue=lambda update: self._made.append(("enqueue", update)),
            nominate=self._nominate,
        )
        notes = {"second": lambda pod, node: f"{pod.key} is on {node} now"}
        self._reporting = Reporting(recorders, writer, notes)

    async def run(self) -> None:
        """Makes all reports, until one differs."""
        kinds = (
            self._bound,
            self._placed,
            self._preempted,
            self._eviction_failed,
            self._reported,
            self._skipped,
            self._failed,
            self._failed,
            self._failed_for_good,
        )
        for _ in range(REPORTS):
            self._made.clear()
            self._expected.clear()
            self._rng.choice(kinds)(self._pod())
            if self._rng.random() < 0.2:
                pod = self._pod()
                await self._reporting.expected(pod, NODE)
                self._expected.append(("nominate", pod.uid, NODE))
            if self._made != self._expected:
                self.problems.append(f"{self._made} are made, not {self._expected}")
                return

    def _pod(self) -> PodInfo:
        self._count += 1
        name, scheduler = f"pod-{self._count}", self._rng.choice(("", *SCHEDULERS))
        return PodInfo(make_pod(name, uid=f"uid-{name}", spec={"schedulerName": scheduler}))

    def _record(self, scheduler: str, pod: Any, *, related: Any = None, **fields: str) -> None:
        uid = related.metadata.uid if related is not None else ""
        texts = tuple(fields[name] for name in ("type", "reason", "action", "note"))
        self._made.append((scheduler, pod.metadata.uid, *texts, uid))

    async def _nominate(self, pod: Any, node_name: str) -> bool:
        self._made.append(("nominate", pod.metadata.uid, node_name))
        return True

    def _event(self, pod: PodInfo, *texts: str, scheduler: str = "", related: str = "") -> None:
        """Expects an event: its type, reason, action and note."""
        name = scheduler or pod.spec.scheduler_name or SCHEDULERS[0]
        self._expected.append((name, pod.uid, *texts, related))

    # -- reports ----------------------------------------------------------------------------------

    def _bound(self, pod: PodInfo) -> None:
        self._expected.append(("forget", pod.uid))
        is_own = pod.spec.scheduler_name == "second"
        own, usual = f"{pod.key} is on {NODE} now", f"Successfully assigned {pod.key} to {NODE}"
        self._event(pod, "Normal", "Scheduled", "Binding", own if is_own else usual)
        self._reporting.bound(pod, NODE)

    def _placed(self, pod: PodInfo) -> None:
        self._expected.append(("cancel", pod.uid))
        self._reporting.placed(pod)

    def _preempted(self, pod: PodInfo) -> None:
        victim, note = self._pod(), self._rng.choice(WORDS)
        name = pod.spec.scheduler_name or SCHEDULERS[0]
        texts = "Normal", "Preempted", "Preempting", note
        self._event(victim, *texts, scheduler=name, related=pod.uid)
        self._reporting.preempted(victim, pod, note)

    def _eviction_failed(self, pod: PodInfo) -> None:
        victim, (error, text) = self._pod(), self._error()
        note = _cut(f"preemption: cannot evict pod {victim.key}: {text}")
        self._event(pod, "Warning", "FailedPreemption", "Preempting", note)
        self._reporting.eviction_failed(victim, pod, error)

    def _reported(self, pod: PodInfo) -> None:
        note = self._rng.choice(WORDS)
        self._event(pod, "Normal", "Chosen", "Choosing", note)
        self._reporting.reported(pod, "Chosen", "Choosing", note)

    def _skipped(self, pod: PodInfo) -> None:
        note = f"skip schedule deleting pod: {pod.key}"
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", note)
        self._reporting.skipped(pod)

    def _failed(self, pod: PodInfo) -> None:
        why, text = self._reason()
        nominated = self._rng.choice((None, "", NODE))
        announced = self._rng.choice((None, "b"))
        quarantine_s = self._rng.choice((0.0, 0.0, 300.0))
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", _cut(text))
        if quarantine_s:
            more = "quarantined for 300 s, because attempts raise again and again"
            self._event(pod, "Warning", "Quarantined", "Scheduling", more)
            text = f"{text}; {more}"
        reason = "SchedulerError" if isinstance(why, Exception) else "Unschedulable"
        update = StatusUpdate(pod.pod, reason, text, nominated, announced)
        self._expected.append(("enqueue", update))
        self._reporting.failed(pod, why, nominated, announced, quarantine_s=quarantine_s)

    def _failed_for_good(self, pod: PodInfo) -> None:
        why, text = self._reason()
        self._expected.append(("forget", pod.uid))
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", _cut(text))
        self._reporting.failed_for_good(pod, why)

    # -- reasons ----------------------------------------------------------------------------------

    def _reason(self) -> tuple[Any, str]:
        """Returns why an attempt has failed, and the text of that."""
        word = self._rng.choice(WORDS)
        draw = self._rng.random()
        if draw < 0.3:
            return Reject(word).named("Fit"), word
        if draw < 0.6:
            diagnosis = Diagnosis(2)
            diagnosis.reasons[word] = 2
            return diagnosis, f"0/2 nodes are available: 2 {word}."
        return self._error()

    def _error(self) -> tuple[Any, str]:
        word = self._rng.choice(WORDS)
        text, error = self._rng.choice(
            (
                (word, Unreachable(word)),
                (word, Conflict("read 409", status=409, server_message=word)),
                (f'running Bind plugin "Own": {word}', PluginError("Own", "Bind", word)),
            )
        )
        if self._rng.random() < 0.4:
            error.add_note("first note")
            text = f"first note: {text}"
        return error, text


def _cut(text: str) -> str:
    """Returns a note of at most 1024 bytes, of whole characters."""
    if len(text.encode()) <= NOTE_BYTES_MAX:
        return text
    while len(text.encode()) > NOTE_BYTES_MAX - 4:
        text = text[:-1]
    return f"{text} ..."


def run_reports(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a report differs from the table.
    """
    run = ReportsRun(seed)
    asyncio.run(run.run())
    assert not run.problems, run.problems[0]
