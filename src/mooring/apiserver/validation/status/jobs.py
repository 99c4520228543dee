"""Validation of the status of a Job, with kube-apiserver's messages.

Most rules hold only where the fields that they are about have changed.

Source: pkg/registry/batch/job/strategy.go (getStatusValidationOptions, with the gate JobManagedBy),
pkg/apis/batch/validation/validation.go (ValidateJobStatusUpdate).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    invalid,
    invalid_without_value,
    quoted,
    required,
)
from mooring.apiserver.validation.rules import IMMUTABLE, not_negative

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_CONDITIONS: Final = "status.conditions"
_COMPLETION: Final = "status.completionTime"


class _Job:
    """A Job's status and spec, and what they say."""

    def __init__(self, job: Object) -> None:
        self.spec: Object = job["spec"]
        self.status: Object = job.get("status") or {}
        conditions = self.status.get("conditions") or ()
        self._states = {(item.get("type"), item.get("status")) for item in conditions}
        self.is_complete = self.is_true("Complete")
        self.is_failed = self.is_true("Failed")
        self.is_finished = self.is_complete or self.is_failed
        self.meets_success = self.is_true("SuccessCriteriaMet")
        self.has_failure_target = self.is_true("FailureTarget")

    def is_true(self, condition: str) -> bool:
        return (condition, "True") in self._states

    def is_false(self, condition: str) -> bool:
        return (condition, "False") in self._states

    @property
    def is_indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    def count(self, name: str) -> int:
        return self.status.get(name) or 0


class _Change:
    """A change of a Job's status."""

    def __init__(self, new: Object, old: Object) -> None:
        self.new, self.old = _Job(new), _Job(old)

    def differs(self, *names: str) -> bool:
        """Returns True if one of some fields or properties has changed."""
        return any(self._value(self.new, name) != self._value(self.old, name) for name in names)

    @staticmethod
    def _value(job: _Job, name: str) -> Any:
        value = getattr(job, name) if hasattr(job, name) else job.status.get(name)
        return value or None if name in ("active", "completedIndexes") else value


def validate_job_status(new: Object, old: Object) -> Errors:
    """Validates a changed status of a Job."""
    change = _Change(new, old)
    status = change.new.status
    yield from not_negative(status, "status", *_COUNTS)
    yield from _validate_uncounted(status.get("uncountedTerminatedPods") or {})
    yield from _validate_completion(change)
    yield from _validate_finish(change)
    yield from _validate_indexes(change)
    yield from _validate_counts(change)
    yield from _validate_success(change.new)
    yield from _validate_transition(change)


def _validate_uncounted(uncounted: Object) -> Errors:
    earlier = set()
    for name in ("succeeded", "failed"):
        for number, uid in enumerate(uncounted.get(name) or ()):
            field = f"status.uncountedTerminatedPods.{name}[{number}]"
            if not uid:
                yield invalid(field, uid, "must not be empty")
            elif uid in earlier:
                yield duplicate(field, uid)
            earlier.add(uid)


def _invalid_conditions(problem: str) -> FieldError:
    return invalid_without_value(_CONDITIONS, problem)


def _validate_completion(change: _Change) -> Iterator[FieldError]:
    job = change.new
    completed, started = job.status.get("completionTime"), job.status.get("startTime")
    if change.differs("is_complete", "is_failed") and job.is_complete and job.is_failed:
        yield _invalid_conditions("cannot set Complete=True and Failed=true conditions")
    is_changed = change.differs("is_complete", "has_failure_target")
    if is_changed and job.is_complete and job.has_failure_target:
        yield _invalid_conditions("cannot set Complete=True and FailureTarget=true conditions")
    if change.differs("is_complete", "completionTime"):
        if completed is not None and not job.is_complete:
            problem = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(_COMPLETION, completed, problem)
        if completed is None and job.is_complete:
            yield required(_COMPLETION, "completionTime is required for Complete jobs")
    are_new = change.differs("startTime", "completionTime")
    if are_new and started and completed and completed < started:
        yield invalid(_COMPLETION, completed, "must be equal to or after `startTime`")


def _validate_finish(change: _Change) -> Iterator[FieldError]:
    job = change.new
    lacks_target = job.is_failed and not job.has_failure_target
    if lacks_target and change.differs("is_failed", "failedIndexes"):
        problem = "cannot set Failed=True condition without the FailureTarget=true condition"
        yield _invalid_conditions(problem)
    lacks_success = job.is_complete and not job.meets_success
    if lacks_success and change.differs("is_complete", "meets_success"):
        problem = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        yield _invalid_conditions(problem)
    if not job.is_finished:
        return
    if change.differs("is_finished", "active") and job.count("active") > 0:
        yield invalid("status.active", job.count("active"), "active>0 is invalid for finished job")
    is_empty = job.spec.get("suspend") is True and job.spec.get("completions") == 0
    lacks_start = "startTime" not in job.status and not is_empty
    if lacks_start and change.differs("is_finished", "startTime"):
        yield required("status.startTime", "startTime is required for finished job")
    if change.differs("is_finished", "uncountedTerminatedPods"):
        uncounted = job.status.get("uncountedTerminatedPods") or {}
        if uncounted.get("succeeded") or uncounted.get("failed"):
            internal = {name.title(): uncounted.get(name) for name in ("succeeded", "failed")}
            problem = "must be empty for finished job"
            yield invalid("status.uncountedTerminatedPods", internal, problem)


# -------------------------------------------------------------------------------------- indexes


def _validate_indexes(change: _Change) -> Iterator[FieldError]:
    job = change.new
    completions: Any = job.spec.get("completions")
    per_index = job.spec.get("backoffLimitPerIndex")
    completed, failed = job.status.get("completedIndexes", ""), job.status.get("failedIndexes")
    are_new, are_failed_new = change.differs("completedIndexes"), change.differs("failedIndexes")
    if are_new and completions is not None:
        yield from _validate_format(completed, completions, "completedIndexes")
    has_limits = completions is not None and per_index is not None
    if are_failed_new and has_limits and failed is not None:
        yield from _validate_format(failed, completions, "failedIndexes")
    if are_new and completed and not job.is_indexed:
        problem = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, problem)
    if are_failed_new and per_index is None and failed is not None:
        problem = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, problem)
    if (are_new or are_failed_new) and completions is not None and failed is not None:
        overlap = _overlap(completed, failed, completions)
        if overlap is not None:
            problem = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            yield invalid("status.failedIndexes", failed, problem)


def _validate_format(text: str, completions: int, name: str) -> Iterator[FieldError]:
    try:
        last = None
        for part in text.split(",") if text else ():
            first, end = _interval(part, completions)
            if last is not None and last >= first:
                raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
            last = end
    except ValueError as error:
        yield invalid(f"status.{name}", text, f"error parsing {name}: {error}")


def _interval(text: str, completions: int) -> tuple[int, int]:
    """Returns the first and the last index of "3" or "3-5".

    Raises:
        ValueError: it is no interval below ``completions``.
    """
    parts = text.split("-")
    if len(parts) > 2:
        problem = "violates the requirement that an index interval can have at most two parts"
        raise ValueError(f"the fragment {quoted(text)} {problem} separated by '-'")
    limits = []
    for part in parts:
        digits = part[1:] if part[:1] == "+" else part
        if not (digits.isascii() and digits.isdecimal()):
            raise ValueError(f"cannot convert string to integer for index: {quoted(part)}")
        if int(digits) >= completions:
            raise ValueError(f"too large index: {quoted(part)}")
        limits.append(int(digits))
    if len(limits) > 1 and limits[0] >= limits[1]:
        problem = f"non-increasing order, previous: {limits[0]}, current: {limits[1]}"
        raise ValueError(problem)
    return limits[0], limits[-1]


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        try:
            yield _interval(part, completions)
        except ValueError:
            continue  # the format is checked elsewhere


def _overlap(completed: str, failed: str, completions: int) -> int | None:
    """Returns the first index at which two texts of sorted intervals overlap."""
    if not completed or not failed:
        return None
    firsts = list(_intervals(completed, completions))
    seconds = list(_intervals(failed, completions))
    at = other = 0
    while at < len(firsts) and other < len(seconds):
        (first, first_end), (second, second_end) = firsts[at], seconds[other]
        if first <= second_end and second <= first_end:
            return max(first, second)
        at, other = (at + 1, other) if first <= second else (at, other + 1)
    return None


# --------------------------------------------------------------------------- counts, transitions


def _validate_counts(change: _Change) -> Iterator[FieldError]:
    job = change.new
    terminating, ready = job.count("terminating"), job.count("ready")
    if change.differs("is_finished", "terminating") and terminating > 0 and job.is_finished:
        yield invalid(
            "status.terminating", terminating, "terminating>0 is invalid for finished job"
        )
    if change.differs("ready", "active") and ready > job.count("active") and "ready" in job.status:
        yield invalid("status.ready", ready, "cannot set more ready pods than active")


def _validate_success(job: _Job) -> Iterator[FieldError]:
    if job.meets_success and job.is_failed:
        yield _invalid_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if job.meets_success and job.has_failure_target:
        problem = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"
        yield _invalid_conditions(problem)
    has_policy = job.spec.get("successPolicy") is not None
    if has_policy and not job.meets_success and job.is_complete:
        yield _invalid_conditions(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )


def _validate_transition(change: _Change) -> Iterator[FieldError]:
    new, old = change.new, change.old
    for name in ("Failed", "Complete", "FailureTarget"):
        if old.is_true(name) and not new.is_true(name):
            yield _invalid_conditions(f"cannot disable the terminal {name}=True condition")
    if new.count("failed") < old.count("failed"):
        yield invalid("status.failed", new.count("failed"), "cannot decrease the failed counter")
    is_scaled = new.is_indexed and new.spec.get("completions") == new.spec.get("parallelism")
    if not is_scaled and new.count("succeeded") < old.count("succeeded"):
        problem = "cannot decrease the succeeded counter"
        yield invalid("status.succeeded", new.count("succeeded"), problem)
    completed, earlier = new.status.get("completionTime"), old.status.get("completionTime")
    if completed is not None and earlier is not None and completed != earlier:
        yield invalid(_COMPLETION, completed, IMMUTABLE)
    is_resuming = old.is_true("Suspended") and new.is_false("Suspended")
    is_fixed = "startTime" in old.status and not is_resuming and not new.spec.get("suspend")
    if is_fixed and change.differs("startTime"):
        problem = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", new.status.get("startTime"), problem)
    if old.meets_success and not new.meets_success:
        yield _invalid_conditions("cannot disable the SuccessCriteriaMet=True condition")
    if old.is_complete and not old.meets_success and new.meets_success:
        problem = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _invalid_conditions(problem)
