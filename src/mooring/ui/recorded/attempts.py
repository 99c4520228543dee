"""The steps of a recording as attempts, and one whole step when a page asks.

A recording can be larger than the memory: what is kept of a step has no scores and no rejections.
They are read again from the file; steps that follow each other are read in one pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from mooring.decision import UNSCHEDULABLE, Decision
from mooring.errors import ConfigError
from mooring.explain.node_rejections import Rejections
from mooring.recordings.format import Recording, RecordingReader, Step
from mooring.ui.attempts import PREEMPTS, AttemptRecord
from mooring.ui.board_error import BoardError

#: The results that a page marks.
MARKED: Final = frozenset({UNSCHEDULABLE, PREEMPTS, "error"})


class RecordedAttempts:
    """The attempts of a recording.

    Attributes:
        header: The recording without its steps.
        steps: Its steps, without scores and rejections.
        records: The attempts, as the page lists them; attempt N is step N - 1.

    Raises:
        ConfigError: the file is no recording, or has an invalid step.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.steps: list[Step] = []
        self.records: list[AttemptRecord] = []
        with RecordingReader(file) as reader:
            self.header: Recording = reader.header
            for number, step in enumerate(reader, 1):
                self.records.append(attempt_record(number, step))
                self.steps.append(_without_nodes(step))
        self._last: tuple[int, Step] | None = None
        self._reader: Iterator[Step] = iter(())
        self._next = len(self.steps)
        self._turn = asyncio.Lock()
        self._node = ""
        self._on_node: dict[int, Rejections | None] = {}

    def whole(self, number: int) -> Step:
        """Returns a whole step by the number of its attempt, from 1.

        Raises:
            BoardError: there is no such attempt, or the file has changed.
        """
        if not 1 <= number <= len(self.steps):
            raise BoardError(f"there is no attempt {number}: there are {len(self.steps)}")
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        try:
            step = self._read(number - 1)
        except (ConfigError, OSError) as error:
            raise BoardError(f"the recording cannot be read again: {error}", 409) from None
        if step is None or step.pod_key != self.steps[number - 1].pod_key:
            raise BoardError(f"{self.file} has changed", 409)
        self._last = number, step
        return step

    async def rejections_on(
        self, node: str, numbers: Sequence[int]
    ) -> dict[int, Rejections | None]:
        """Returns the rejections of a node in attempts; those that did not look at it have none.

        What one node's view asks for is kept, so that its next look reads only new steps. Other
        tasks run between two steps that are read.

        Raises:
            BoardError: the file has changed.
        """
        async with self._turn:
            if self._node != node:
                self._node, self._on_node = node, {}
            for number in sorted(set(numbers) - self._on_node.keys()):
                self._on_node[number] = rejections_of(self.whole(number).decision, node)
                await asyncio.sleep(0)
            return {number: self._on_node[number] for number in numbers}

    def _read(self, index: int) -> Step | None:
        if index < self._next:
            self._reader, self._next = self._all(), 0
        for step in self._reader:
            self._next += 1
            if self._next > index:
                return step
        return None

    def _all(self) -> Iterator[Step]:
        with RecordingReader(self.file) as reader:
            yield from reader


def rejections_of(decision: Decision, node: str) -> Rejections | None:
    """Returns the rejection of a node, () if it was feasible; None = it was not looked at."""
    if decision.prefilter is not None:
        return (decision.prefilter,)
    if node in decision.rejected:
        return (decision.rejected[node],)
    return () if node == decision.node or node in (decision.total or ()) else None


def attempt_record(number: int, step: Step) -> AttemptRecord:
    """Returns a step as an attempt. Recordings have no times: its number is its time."""
    decision = step.decision
    record = AttemptRecord(
        number,
        step.pod_key,
        str((step.pod.get("metadata") or {}).get("uid", "")),
        float(number),
        decision.result,
        node=decision.node or "",
        message=decision.error or decision.message or "",
        feasible=len(decision.total) if decision.total is not None else int(bool(decision.node)),
        plugins=tuple(sorted({*decision.unschedulable_plugins, *decision.pending_plugins})),
        is_whole=True,
    )
    record.evaluated = record.feasible + len(decision.rejected)
    preemption = decision.preemption
    if preemption is not None and preemption.victims:
        record.result = PREEMPTS
        record.node, record.victims = preemption.nominated or "", preemption.victims
    if decision.total is not None and decision.node in decision.total and len(decision.total) > 1:
        _add_runner_up(record, decision.total)
    return record


def _add_runner_up(record: AttemptRecord, total: dict[str, int]) -> None:
    others = (name for name in total if name != record.node)
    record.runner_up = max(others, key=lambda name: total[name])
    record.score, record.runner_up_score = total[record.node], total[record.runner_up]


def _without_nodes(step: Step) -> Step:
    decision: Decision = msgspec.structs.replace(
        step.decision, rejected={}, scores=None, raw=None, total=None, preemption=None
    )
    return msgspec.structs.replace(step, decision=decision)
