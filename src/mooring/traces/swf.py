"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2.

A line has 18 numbers, separated by blanks; -1 = unknown. Lines that begin with ";" are comments.
A job becomes as many equal pods as it has processors, each with one core and the job's memory per
processor, all submitted at once.

=========================  =====================================================================
Unknown (-1)               is read as
=========================  =====================================================================
run time                   no end is recorded (nan); left out if the job was cancelled
requested processors       allocated processors; if these are unknown too, 1
requested memory           used memory; if this is unknown too, 0
queue                      the partition as the group; if this is unknown too, ""
user                       ""
=========================  =====================================================================

The job number and the time of submission are always known. Jobs with status 2, 3 or 4 are parts of
a job that has a line of its own: they are left out. Jobs with a preceding job are submitted at
their time as the others are, with a note. Jobs that failed, or were cancelled while they ran, are
read as jobs that succeed, with a note. Waiting time, CPU time, requested time, group, executable
and think time have no effect, with a note.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import math
from typing import Final

from mooring.errors import ConfigError
from mooring.traces.trace import Rows, Trace
from mooring.traces.values import number_of_text

FORMAT: Final = "swf"

FIELDS: Final = (
    *("job number", "submit time", "wait time", "run time", "allocated processors"),
    *("average CPU time", "used memory", "requested processors", "requested time"),
    *("requested memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding job", "think time"),
)
COMMENT: Final = ";"

#: The fields that count or name something: a fraction would be cut off.
_INTEGERS: Final = (
    *("job number", "allocated processors", "requested processors"),
    *("status", "user", "queue", "partition", "preceding job"),
)
_PARTIAL: Final = (2, 3, 4)
_FAILED: Final = 0
_CANCELLED: Final = 5
#: The fields without effect.
_UNREAD: Final = (
    *("wait time", "average CPU time", "requested time", "group", "executable"),
    "think time",
)
_KIB: Final = 1024
_MILLI_PER_CORE: Final = 1000


def read_swf(data: bytes, name: str) -> Trace:
    """Returns the trace of a text; times are as in the text.

    Args:
        data: The text.
        name: The name of the trace.

    Raises:
        ConfigError: A line is malformed, or there is no job.
    """
    rows = Rows()
    for line, text in enumerate(_lines(data), 1):
        words = text.split()
        if not words or words[0].startswith(COMMENT):
            continue
        if len(words) != len(FIELDS):
            problem = f"must have {len(FIELDS)} fields, has {len(words)}"
            raise ConfigError(problem, line=line, value=text.strip())
        try:
            _add(rows, _fields(words, line), line)
        except ConfigError as error:
            raise error.located(line=line) from None
    return rows.trace(name=name, format=FORMAT)


def _lines(data: bytes) -> list[str]:
    # Comments of old logs have names in several encodings; numbers are ASCII in all of them.
    return data.decode("utf-8", "replace").split("\n")


def _fields(words: list[str], line: int) -> dict[str, float]:
    return {
        title: number_of_text(word, line=line, path=title, least=-1.0)
        for title, word in zip(FIELDS, words, strict=True)
    }


def _add(rows: Rows, job: dict[str, float], line: int) -> None:
    for title in _INTEGERS:
        if not job[title].is_integer():
            raise ConfigError("must be an integer", line=line, path=title, value=job[title])
    for title in ("job number", "submit time"):
        if job[title] < 0:
            raise ConfigError("must be 0 or more", line=line, path=title, value=job[title])
    status = job["status"]

    def note(text: str, title: str) -> None:
        rows.note(text, line=line, path=title, value=job[title])

    if status in _PARTIAL:
        note("part of a job that has its own line: left out", "status")
        return
    if status == _CANCELLED and job["run time"] <= 0:
        note("job that was cancelled before it ran: left out", "status")
        return
    if status > _CANCELLED:
        note("job with an unknown status: read as a job that succeeds", "status")
    elif status in (_FAILED, _CANCELLED):
        note("job that failed or was cancelled: read as a job that succeeds", "status")
    processors = int(_first(job, "requested processors", "allocated processors"))
    if processors < 1:
        note("job with an unknown number of processors: 1 is assumed", "requested processors")
        processors = 1
    memory_kib = max(0.0, _first(job, "requested memory", "used memory"))
    if job["preceding job"] >= 0:
        note("job that waits for a preceding job: submitted at its own time", "preceding job")
    for title in _UNREAD:
        if job[title] >= 0:
            rows.unread(title, line=line, value=job[title])
    rows.add(
        submit_s=job["submit time"],
        duration_s=job["run time"] if job["run time"] >= 0 else math.nan,
        cpu_milli=_MILLI_PER_CORE,
        memory_bytes=int(memory_kib) * _KIB,
        group=_label(job, "queue") or _label(job, "partition"),
        user=_label(job, "user"),
        names=f"job-{job['job number']:.0f}",
        count=processors,
    )


def _first(job: dict[str, float], preferred: str, other: str) -> float:
    """Returns the preferred field; the other if it is unknown. An amount of 0 is unknown, too."""
    return job[preferred] if job[preferred] > 0 else job[other]


def _label(job: dict[str, float], title: str) -> str:
    return f"{title}-{job[title]:.0f}" if job[title] >= 0 else ""
