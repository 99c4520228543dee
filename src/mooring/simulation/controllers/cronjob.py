"""The CronJob controller: a Job at each instant of the schedule.

Source: pkg/controller/cronjob/cronjob_controllerv2.go, utils.go.
Differs: the last schedule time is that of the newest Job, so it is written one turn after the Job
was created; ``status.active`` has no resourceVersion.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from mooring.clock import rfc3339
from mooring.objects.meta import controller_of
from mooring.simulation.controllers.cron_schedule import NextTime, parse_schedule
from mooring.simulation.controllers.objects import (
    Create,
    Delete,
    Json,
    Note,
    Result,
    Turn,
    Workload,
    owner_reference,
    status_write,
)

if TYPE_CHECKING:
    from mooring.simulation.controllers.cluster import ControlledObjects

#: The annotation of a Job with the instant that it was created for.
SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: The next look at a CronJob is so many seconds after its instant.
_DELAY_S: Final = 0.1
_END_KINDS: Final = ("Complete", "Failed")
_IS_ACTIVE: Final = Note(
    "Normal",
    "JobAlreadyActive",
    "Not starting job because prior execution is running and concurrency policy is Forbid",
)


def sync_cron_job(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a CronJob."""
    jobs = [job for job in _jobs_in(workload, cluster) if _is_owned(job, workload)]
    active = [job for job in jobs if not _end_of(job) and SCHEDULED in job.metadata.annotations]
    status = _status(workload, jobs, active)
    writes = [*_old_jobs(workload, jobs), *status_write(workload, status)]
    spec = workload.spec
    if workload.is_deleted or spec.get("suspend"):
        return Result(writes)
    try:
        next_time = parse_schedule(spec["schedule"], spec.get("timeZone"))
    except ValueError:
        return Result(writes)
    last = status.get("lastScheduleTime") or workload.metadata.creation_timestamp
    last_s = _seconds(last) if last else turn.now_s
    due_s = _due_time(spec, next_time, last_s, turn.now_s)
    again_s = _wait_s(next_time, last_s, turn.now_s)
    if due_s is None or any(job.metadata.name == _name(workload, due_s) for job in jobs):
        return Result(writes, again_s)
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy == "Forbid" and active:
        return Result(writes, again_s, (_IS_ACTIVE,))
    if policy == "Replace":
        writes += [_delete(job) for job in active]
    name = _name(workload, due_s)
    if f"{workload.metadata.namespace}/{name}" not in cluster.workloads["Job"]:
        writes.append(Create(_new_job(workload, due_s)))
    return Result(writes, again_s)


# -- jobs -----------------------------------------------------------------------------------------


def _jobs_in(workload: Workload, cluster: ControlledObjects) -> list[Workload]:
    return list(cluster.workloads_in("Job", workload.metadata.namespace))


def _is_owned(job: Workload, workload: Workload) -> bool:
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == workload.metadata.uid


def _end_of(job: Workload) -> str:
    """Returns "Complete" or "Failed"; "" if a Job has not ended."""
    for condition in job.status.get("conditions") or ():
        if condition["type"] in _END_KINDS and condition["status"] == "True":
            return str(condition["type"])
    return ""


def _old_jobs(workload: Workload, jobs: list[Workload]) -> list[Delete]:
    """Returns the writes that delete ended Jobs beyond the limits of history."""
    writes: list[Delete] = []
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    for kind, field in zip(_END_KINDS, limits, strict=True):
        limit = workload.spec.get(field)
        ended = [job for job in jobs if _end_of(job) == kind and not job.is_deleted]
        if limit is None or len(ended) <= limit:
            continue
        ended.sort(key=lambda job: (job.status.get("startTime") or "~", job.metadata.name))
        writes += [_delete(job) for job in ended[: len(ended) - limit]]
    return writes


def _delete(job: Workload) -> Delete:
    metadata = job.metadata
    return Delete("Job", metadata.namespace, metadata.name, metadata.uid, "Background")


def _name(workload: Workload, due_s: int) -> str:
    return f"{workload.metadata.name}-{due_s // 60}"


def _new_job(workload: Workload, due_s: int) -> Json:
    template = workload.spec["jobTemplate"]
    metadata = template.get("metadata") or {}
    zone = workload.spec.get("timeZone")
    local = datetime.fromtimestamp(due_s, ZoneInfo(zone) if zone else UTC)
    scheduled = local.isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": _name(workload, due_s),
            "namespace": workload.metadata.namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: scheduled},
            "ownerReferences": [owner_reference(workload)],
        },
        "spec": template["spec"],
    }


# -- status ---------------------------------------------------------------------------------------


def _status(workload: Workload, jobs: list[Workload], active: list[Workload]) -> Json:
    status = dict(workload.status)
    status["active"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "uid": job.metadata.uid,
        }
        for job in active
    ]
    scheduled = [
        rfc3339(_seconds(job.metadata.annotations[SCHEDULED]))
        for job in jobs
        if SCHEDULED in job.metadata.annotations
    ]
    completed = [job.status["completionTime"] for job in jobs if _end_of(job) == "Complete"]
    for name, times in (("lastScheduleTime", scheduled), ("lastSuccessfulTime", completed)):
        # Texts of this form are in the order of their times.
        newest = max([status.get(name) or "", *times])
        if newest:
            status[name] = newest
    return status


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# -- times ----------------------------------------------------------------------------------------


def _due_time(spec: Json, next_time: NextTime, last_s: float, now_s: float) -> int | None:
    """Returns the last instant that has no Job yet and is not too late; None = there is none."""
    deadline_s = spec.get("startingDeadlineSeconds")
    if deadline_s is not None:
        last_s = max(last_s, now_s - deadline_s)
    due_s, _ = _last_time(next_time, last_s, now_s)
    if due_s is None or (deadline_s is not None and due_s + deadline_s < now_s):
        return None
    return due_s


def _wait_s(next_time: NextTime, last_s: float, now_s: float) -> float | None:
    """Returns the time until the next instant; seconds."""
    due_s, has_missed = _last_time(next_time, last_s, now_s)
    start_s = now_s if has_missed else last_s
    next_s = next_time(start_s if due_s is None else due_s)
    return None if next_s is None else max(0.0, next_s - now_s) + _DELAY_S


def _last_time(next_time: NextTime, last_s: float, now_s: float) -> tuple[int | None, bool]:
    """Returns the last instant up to now, and whether there is one at all.

    Many instants may have passed: the search begins about two of them before now.
    """
    first_s = next_time(last_s)
    if first_s is None or now_s < first_s:
        return None, False
    second_s = next_time(first_s)
    if second_s is None or now_s < second_s:
        return first_s, False
    interval_s = second_s - first_s
    missed = int(now_s - first_s) // interval_s + 1
    newest: int | None = None
    time_s = next_time(first_s + (missed - 2) * interval_s)
    while time_s is not None and time_s <= now_s:
        newest, time_s = time_s, next_time(time_s)
    return newest, True
