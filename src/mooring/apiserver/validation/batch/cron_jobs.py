"""Validation of CronJobs and their schedules, with kube-apiserver's messages.

Source: pkg/apis/batch/validation/validation.go, github.com/robfig/cron/v3 parser.go.
Differs: durations after "@every" are not parsed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mooring.apiserver.errors import Errors, invalid, not_supported, required
from mooring.apiserver.validation.batch.jobs import validate_job_template
from mooring.apiserver.validation.rules import not_negative
from mooring.objects.go_durations import parse_duration_ns
from mooring.objects.selectors import parse_int64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.types import Object

NAME_LENGTH_MAX = 52
_POLICIES = ("Allow", "Forbid", "Replace")
_LIMITS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
#: Minimum, maximum and names of the fields: minute, hour, day of month, month, day of week.
_FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_EVERY = "@every "
#: What Go takes for a blank.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_BLANKS = re.compile(f"[{_SPACES}]+")
_ZONE_PART = re.compile(r"[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}")


def validate_cron_job(cron_job: Object) -> Errors:
    """Validates a new CronJob."""
    yield from validate_cron_job_update(cron_job, None)
    name = cron_job["metadata"].get("name", "")
    if len(name) > NAME_LENGTH_MAX:
        # The names of its jobs have eleven more characters.
        problem = f"must be no more than {NAME_LENGTH_MAX} characters"
        yield invalid("metadata.name", name, problem)


def validate_cron_job_update(new: Object, old: Object | None) -> Errors:
    """Validates a changed CronJob."""
    spec = new["spec"]
    before = old["spec"] if old is not None else {}
    yield from _validate_schedule(spec, is_zone_allowed="TZ" in before.get("schedule", ""))
    yield from not_negative(spec, "spec", _LIMITS[0])
    if spec.get("timeZone") != before.get("timeZone"):
        yield from _validate_time_zone(spec.get("timeZone"))
    policy = spec.get("concurrencyPolicy")
    if policy not in _POLICIES:
        yield not_supported("spec.concurrencyPolicy", policy, _POLICIES)
    yield from validate_job_template(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    yield from not_negative(spec, "spec", *_LIMITS[1:])


def _validate_schedule(spec: Object, *, is_zone_allowed: bool) -> Errors:
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
        return
    problem = schedule_problem(schedule)
    if problem:
        yield invalid("spec.schedule", schedule, problem)
    if "TZ" not in schedule:
        return
    if not is_zone_allowed:
        problem = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, problem)
    elif "timeZone" in spec:
        problem = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid("spec.schedule", schedule, problem)


def _validate_time_zone(zone: str | None) -> Errors:
    if zone is None:
        return
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
        return
    parts = zone.split("/")
    is_well_formed = all(part not in (".", "..") and _ZONE_PART.fullmatch(part) for part in parts)
    if not is_well_formed or not _is_zone(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    elif zone.lower() == "local":
        problem = "timeZone must be an explicit time zone as defined in "
        yield invalid("spec.timeZone", zone, f"{problem}https://www.iana.org/time-zones")


def _is_zone(zone: str) -> bool:
    """Returns whether a time zone exists; True if the system has no time zones to look up."""
    if zone.lower() == "local":
        return True
    return _has_file(zone) or not _has_file("Europe/London")


def _has_file(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return False
    return True


def schedule_problem(schedule: str) -> str:
    """Returns what is wrong with a schedule; "" if it is valid.

    Example:
        >>> schedule_problem("*/5 8-18 * * mon"), schedule_problem("@daily")
        ('', '')
        >>> schedule_problem("60 * * * *")
        'end of range (60) above maximum (59): 60'
    """
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip(_SPACES)
    if schedule.startswith("@"):
        return _descriptor_problem(schedule)
    fields = _BLANKS.split(schedule.strip(_SPACES)) if schedule.strip(_SPACES) else []
    if len(fields) != len(_FIELDS):
        text = f"[{' '.join(fields)}]"
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: {text}"
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in filter(None, text.split(",")):
            try:
                _check_range(part, low, high, names)
            except ValueError as error:
                return str(error)
    return ""


def _check_range(text: str, low: int, high: int, names: Mapping[str, int]) -> None:
    """Checks one range of a schedule, such as "1-5/2".

    Raises:
        ValueError: The problem.
    """
    range_and_step = text.split("/")
    ends = range_and_step[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = end = _number(ends[0], names)
        if len(ends) == 2:
            end = _number(ends[1], names)
        elif len(ends) > 2:
            raise ValueError(f"too many hyphens: {text}")
    step = 1
    if len(range_and_step) == 2:
        step = _number(range_and_step[1], {})
        end = high if len(ends) == 1 else end
    elif len(range_and_step) > 2:
        raise ValueError(f"too many slashes: {text}")
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        problem = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ValueError(f"failed to parse int from {text}: {problem}")
    number = parse_int64(text)
    if number is None:
        problem = f'strconv.Atoi: parsing "{text}": value out of range'
        raise ValueError(f"failed to parse int from {text}: {problem}")
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def _descriptor_problem(schedule: str) -> str:
    """Returns what is wrong with a schedule such as "@daily" or "@every 1h"."""
    if schedule in _DESCRIPTORS:
        return ""
    if not schedule.startswith(_EVERY):
        return f"unrecognized descriptor: {schedule}"
    try:
        parse_duration_ns(schedule.removeprefix(_EVERY))
    except ValueError as error:
        return f"failed to parse duration {schedule}: {error}"
    return ""
