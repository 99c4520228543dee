"""The columns that traces of all formats have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Trace:
    """Submissions in order of time; all columns have the same length, or are empty.

    Attributes:
        name: Of the trace.
        format: The format that was read.
        submit_s: Times of submission, in seconds; the first is 0 or later.
        duration_s: Run times in seconds; nan = unknown, infinity = for ever.
        cpu_milli: Requests in millicores.
        memory_bytes: Requests.
        gpu_count: Devices.
        gpu_milli: Requests of each device in thousandths; 1000 = a whole one.
        gpu_models: Models that would do, separated by "|"; "" = any.
        priority: Pod priorities.
        group: Job, partition or queue.
        user: Who submitted it.
        names: Names, which need not be unique.
        count: Equal pods of the submission.
        notes: What the reader left out or assumed, in words.
    """

    name: str
    format: str
    submit_s: Sequence[float]
    duration_s: Sequence[float] = ()
    cpu_milli: Sequence[int] = ()
    memory_bytes: Sequence[int] = ()
    gpu_count: Sequence[int] = ()
    gpu_milli: Sequence[int] = ()
    gpu_models: Sequence[str] = ()
    priority: Sequence[int] = ()
    group: Sequence[str] = ()
    user: Sequence[str] = ()
    names: Sequence[str] = ()
    count: Sequence[int] = ()
    notes: Sequence[str] = field(default=())

    def __len__(self) -> int:
        """Returns the number of submissions."""
        return len(self.submit_s)

    def duration_of(self, row: int) -> float:
        """Returns the run time of a submission; nan = unknown."""
        return self.duration_s[row] if self.duration_s else math.nan
