"""Workloads of Batsim: JSON with ``jobs`` and ``profiles``.

A job becomes ``res`` equal pods with one core each. Its run time is known if its profile is a delay
or a sequence of delays, and is at most its walltime, since Batsim ends a job there. The run time of
other profiles depends on a platform, so no end is recorded (nan).

Source: https://batsim.readthedocs.io/en/latest/input-workload.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.traces.trace import Rows, Trace
from mooring.traces.values import checked_number, member, number

FORMAT: Final = "batsim"

#: Profiles may be sequences of sequences; a longer chain is an endless one.
_DEPTH_MAX: Final = 16
#: Parts of a sequence, with those of its parts: more is an exponential one.
_PARTS_MAX: Final = 100_000

_SEQUENCES: Final = ("composed", "sequential_composition")
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
    profiles = _Profiles(member(document, "profiles", "", dict))
    rows = Rows()
    for index, job in enumerate(member(document, "jobs", "", list)):
        path = f"jobs[{index}]"
        if not isinstance(job, dict):
            raise ConfigError("must be a mapping", path=path, value=job)
        _add(rows, job, profiles, path)
    return rows.trace(name=name, format=FORMAT)


def _add(rows: Rows, job: Mapping[str, Any], profiles: _Profiles, path: str) -> None:
    number_of_hosts = _integer(number(job, "res", path, least=1.0), f"{path}.res")
    profile = member(job, "profile", path, str)
    duration_s = profiles.duration_s(profile, f"{path}.profile")
    if math.isnan(duration_s):
        rows.note("job without a delay profile: its run time is unknown")
    walltime_s = number(job, "walltime", path, default=-1.0, least=-1.0)
    if walltime_s >= 0 and duration_s > walltime_s:
        rows.note("job that ends at its walltime")
        duration_s = walltime_s
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


class _Profiles:
    """The profiles of a document, and their run times."""

    def __init__(self, profiles: Mapping[str, Any]) -> None:
        self._profiles = profiles
        self._durations_s: dict[str, float] = {}

    def duration_s(self, name: str, path: str) -> float:
        """Returns the run time of a profile in seconds; nan = it depends on a platform.

        Raises:
            ConfigError: There is no such profile, or it is malformed.
        """
        if name not in self._durations_s:
            self._durations_s[name] = self._computed(name, path, 0)
        return self._durations_s[name]

    def _computed(self, name: str, path: str, depth: int) -> float:
        if name not in self._profiles:
            raise ConfigError("is not one of the profiles", path=path, value=name)
        place = f"profiles.{name}"
        if depth > _DEPTH_MAX:
            raise ConfigError("contains itself, or too many sequences", path=place)
        if name in self._durations_s:
            return self._durations_s[name]
        profile = self._profiles[name]
        if not isinstance(profile, dict):
            raise ConfigError("must be a mapping", path=place, value=profile)
        kind = member(profile, "type", place, str)
        if kind == "delay":
            return float(number(profile, "delay", place))
        if kind not in _SEQUENCES:
            return math.nan
        parts = member(profile, "seq", place, list)
        if len(parts) > _PARTS_MAX:
            raise ConfigError(f"has more than {_PARTS_MAX} parts", path=f"{place}.seq")
        repeat = _integer(number(profile, "repeat", place, default=1, least=1.0), f"{place}.repeat")
        total_s = repeat * self._sum(parts, place, depth)
        return total_s if math.isnan(total_s) else float(checked_number(total_s, path=place))

    def _sum(self, parts: list[Any], place: str, depth: int) -> float:
        total_s = 0.0
        for index, part in enumerate(parts):
            path = f"{place}.seq[{index}]"
            if not isinstance(part, str):
                raise ConfigError("must be a string", path=path, value=part)
            duration_s = self._computed(part, path, depth + 1)
            self._durations_s[part] = duration_s
            total_s += duration_s
        return total_s
