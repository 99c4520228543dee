"""Workloads of Batsim: JSON with ``jobs`` and ``profiles``.

A job becomes ``res`` equal pods with one core each. Its run time is known if its profile is a delay
or a sequence of delays, and is at most its walltime, since Batsim ends a job there. The run time of
other profiles depends on a platform, so no end is recorded (nan). A profile whose return code
``ret`` is not 0 fails, and ends the sequence that it is a part of. A trace has no failures, so such
a job is read as a job that succeeds, with a note.

Source: https://batsim.readthedocs.io/en/latest/input-workload.html; batsim, src/task_execution.cpp
(a sequence ends with the first part that fails). Names of types and of ``repeat`` differ between
versions of Batsim; all are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.errors import ConfigError
from mooring.traces.trace import AMOUNT_MAX, Rows, Trace
from mooring.traces.values import checked_number, member, note_unread, number

FORMAT: Final = "batsim"

#: Profiles may be sequences of sequences; a longer chain is an endless one.
_DEPTH_MAX: Final = 16
#: Parts of a sequence, with those of its parts: more is an exponential one.
_PARTS_MAX: Final = 100_000

_DELAYS: Final = ("delay", "DelayProfile")
_SEQUENCES: Final = ("composed", "sequential_composition", "SequentialCompositionProfile")
_TOP_FIELDS: Final = ("jobs", "nb_res", "profiles")
_JOB_FIELDS: Final = ("id", "profile", "res", "subtime", "walltime")
_MILLI_PER_CORE: Final = 1000


def read_batsim(document: Any, name: str) -> Trace:
    """Returns the trace of a parsed document; times are as in the document.

    Args:
        document: The value of the JSON text.
        name: The name of the trace.

    Raises:
        ConfigError: The document is malformed, or has no job.
    """
    if not isinstance(document, dict):
        raise ConfigError("must be a mapping with jobs and profiles", value=document)
    rows = Rows()
    note_unread(rows, document, _TOP_FIELDS, "")
    profiles = _Profiles(member(document, "profiles", "", dict), rows)
    hosts_max = number(document, "nb_res", "", default=math.inf, least=1.0)
    for index, job in enumerate(member(document, "jobs", "", list)):
        path = f"jobs[{index}]"
        if not isinstance(job, dict):
            raise ConfigError("must be a mapping", path=path, value=job)
        _add(rows, job, profiles, path)
        if job["res"] > hosts_max:
            text = "job that requests more than nb_res resources"
            rows.note(text, path=f"{path}.res", value=job["res"])
    return rows.trace(name=name, format=FORMAT)


def _add(rows: Rows, job: Mapping[str, Any], profiles: _Profiles, path: str) -> None:
    number_of_hosts = _integer(number(job, "res", path, least=1.0), f"{path}.res")
    profile = member(job, "profile", path, str)
    duration_s, is_failed = profiles.run(profile, f"{path}.profile")
    if math.isnan(duration_s):
        text = "job without a delay profile: its run time is unknown"
        rows.note(text, path=f"{path}.profile", value=profile)
    walltime_s = number(job, "walltime", path, default=-1.0, least=-1.0)
    if walltime_s >= 0 and duration_s > walltime_s:
        rows.note("job that ends at its walltime", path=f"{path}.walltime", value=walltime_s)
        duration_s = walltime_s
    elif is_failed:
        text = "job whose profile fails (ret is not 0): read as a job that succeeds"
        rows.note(text, path=f"{path}.profile", value=profile)
    note_unread(rows, job, _JOB_FIELDS, path)
    rows.add(
        submit_s=float(number(job, "subtime", path)),
        duration_s=float(duration_s),
        cpu_milli=_MILLI_PER_CORE,
        group=profile,
        names=_job_name(job, path),
        count=number_of_hosts,
    )


def _integer(amount: float, path: str) -> int:
    """Returns an amount that must be an integer."""
    if amount != int(amount):
        raise ConfigError("must be an integer", path=path, value=amount)
    return int(amount)


def _job_name(job: Mapping[str, Any], path: str) -> str:
    identifier = job.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, int | str) or identifier == "":
        raise ConfigError("must be an integer or a string", path=f"{path}.id", value=identifier)
    # Python refuses to write integers of some thousands of digits.
    if isinstance(identifier, int):
        checked_number(identifier, path=f"{path}.id")
    return str(identifier)


class _Run(NamedTuple):
    """The execution of a profile.

    Attributes:
        duration_s: Its length; nan = it depends on a platform.
        is_failed: Whether its return code is not 0.
    """

    duration_s: float
    is_failed: bool


class _Profiles:
    """The profiles of a document, and their run times."""

    def __init__(self, profiles: Mapping[str, Any], rows: Rows) -> None:
        self._profiles = profiles
        self._rows = rows
        self._runs: dict[str, _Run] = {}

    def run(self, name: str, path: str, depth: int = 0) -> _Run:
        """Returns the execution of a profile.

        Args:
            name: The name of the profile.
            path: The place of the name, for errors.
            depth: How many sequences are around it.

        Raises:
            ConfigError: There is no such profile, or it is malformed.
        """
        if name not in self._profiles:
            raise ConfigError("is not one of the profiles", path=path, value=name)
        place = f"profiles.{name}"
        if depth > _DEPTH_MAX:
            raise ConfigError("contains itself, or too many sequences", path=place)
        if name not in self._runs:
            profile = self._profiles[name]
            if not isinstance(profile, dict):
                raise ConfigError("must be a mapping", path=place, value=profile)
            self._runs[name] = self._of(profile, place, depth)
        return self._runs[name]

    def _of(self, profile: Mapping[str, Any], place: str, depth: int) -> _Run:
        kind = member(profile, "type", place, str)
        least = float(-AMOUNT_MAX)
        code = _integer(number(profile, "ret", place, default=0, least=least), f"{place}.ret")
        if kind in _DELAYS:
            note_unread(self._rows, profile, ("delay", "ret", "type"), place)
            return _Run(float(number(profile, "delay", place)), code != 0)
        if kind not in _SEQUENCES:
            return _Run(math.nan, code != 0)
        note_unread(self._rows, profile, ("nb", "repeat", "ret", "seq", "type"), place)
        parts = member(profile, "seq", place, list)
        if len(parts) > _PARTS_MAX:
            raise ConfigError(f"has more than {_PARTS_MAX} parts", path=f"{place}.seq")
        once_s, is_failed = self._sequence(parts, place, depth)
        if is_failed:
            return _Run(once_s, is_failed)
        total_s = _repeat(profile, place) * once_s
        if not math.isnan(total_s):
            total_s = float(checked_number(total_s, path=place))
        return _Run(total_s, code != 0)

    def _sequence(self, parts: list[Any], place: str, depth: int) -> _Run:
        """Returns the execution of the parts, which ends with the first part that fails."""
        total_s = 0.0
        for index, part in enumerate(parts):
            path = f"{place}.seq[{index}]"
            if not isinstance(part, str):
                raise ConfigError("must be a string", path=path, value=part)
            run = self.run(part, path, depth + 1)
            total_s += run.duration_s
            if run.is_failed:
                return _Run(total_s, is_failed=True)
        return _Run(total_s, is_failed=False)


def _repeat(profile: Mapping[str, Any], place: str) -> int:
    """Returns how often a sequence is executed; until version 2 the field was called ``nb``."""
    if profile.get("nb") is not None and profile.get("repeat") is not None:
        raise ConfigError(
            "is the older name of repeat: one of them must be left out",
            path=f"{place}.nb",
            value=profile["nb"],
        )
    key = "nb" if profile.get("nb") is not None else "repeat"
    return _integer(number(profile, key, place, default=1, least=1.0), f"{place}.{key}")
