"""The Standard Workload Format."""

from __future__ import annotations

import math

import pytest

from mooring.errors import ConfigError
from mooring.traces.swf import FIELDS, read_swf

KIB = 1024


def job(**fields: object) -> str:
    """Returns a line; a field that is left out is unknown."""
    values = {"job_number": 1, "submit_time": 0} | fields
    assert {title.replace("_", " ") for title in values} <= {*FIELDS}
    return " ".join(str(values.get(title.replace(" ", "_"), -1)) for title in FIELDS)


def text(*lines: str) -> bytes:
    return "\n".join(["; Version: 2.2", ";", "", *lines, ""]).encode()


def test_a_job_is_one_pod_with_one_core_for_each_processor() -> None:
    line = job(
        job_number=7, submit_time=60, wait_time=5, run_time=3600, allocated_processors=16,
        requested_processors=32, requested_memory=2048, status=1, user=3, group=1, queue=2,
    )  # fmt: skip

    trace = read_swf(text(line), "log.swf")

    assert trace.submit_s.tolist() == [60.0]
    assert trace.duration_s.tolist() == [3600.0]
    assert trace.count.tolist() == [32]
    assert trace.cpu_milli.tolist() == [1000]
    assert trace.memory_bytes.tolist() == [2048 * KIB]
    assert (trace.names[0], trace.user[0], trace.group[0]) == ("job-7", "user-3", "queue-2")
    assert trace.notes == (
        "fields that have no effect: wait time (1 x, at line 4: 5), group (1 x, at line 4: 1)",
    )


def test_unknown_values_are_read_as_documented() -> None:
    lines = [
        job(job_number=1, allocated_processors=4, used_memory=10, partition=9),
        job(job_number=2, run_time=0),
    ]

    trace = read_swf(text(*lines), "log.swf")

    assert trace.count.tolist() == [4, 1]
    assert trace.memory_bytes.tolist() == [10 * KIB, 0]
    assert trace.group.tolist() == ["partition-9", ""]
    assert trace.user.tolist() == ["", ""]
    assert math.isnan(trace.duration_s[0])
    assert trace.duration_s[1] == 0.0
    assert trace.notes == (
        "1 x job with an unknown number of processors: 1 is assumed "
        "(at line 5: requested processors: -1)",
    )


def test_parts_of_jobs_and_jobs_that_never_ran_are_left_out() -> None:
    lines = [
        job(job_number=1, run_time=10, status=1, requested_processors=1),
        job(job_number=1, run_time=4, status=2, requested_processors=1),
        job(job_number=1, run_time=6, status=3, requested_processors=1),
        job(job_number=2, status=5, requested_processors=1),
        job(job_number=3, run_time=9, status=5, requested_processors=1),
    ]

    trace = read_swf(text(*lines), "log.swf")

    assert trace.names.tolist() == ["job-1", "job-3"]
    assert trace.notes == (
        "2 x part of a job that has its own line: left out (first at line 5: status: 2)",
        "1 x job that was cancelled before it ran: left out (at line 7: status: 5)",
        "1 x job that failed or was cancelled: read as a job that succeeds (at line 8: status: 5)",
    )


def test_fractions_of_seconds_are_kept() -> None:
    trace = read_swf(text(job(submit_time="1.5", run_time="0.25")), "log.swf")

    assert (trace.submit_s[0], trace.duration_s[0]) == (1.5, 0.25)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "line 4: must have 18 fields, has 3, got '1 2 3'"),
        (job(run_time="long"), "line 4: run time: must be a number, got 'long'"),
        (job(run_time="nan"), "line 4: run time: must be a number, got 'nan'"),
        (job(run_time=-2), "line 4: run time: must be a number from -1 to 9007199254740992"),
        (job(submit_time=-1), "line 4: submit time: must be 0 or more, got -1.0"),
        (
            job(requested_processors="2.5"),
            "line 4: requested processors: must be an integer, got 2.5",
        ),
        (job(allocated_processors="-0.5"), "line 4: allocated processors: must be an integer"),
        (job(job_number="1.5"), "line 4: job number: must be an integer, got 1.5"),
        (job(status="1.5"), "line 4: status: must be an integer, got 1.5"),
        (job(queue="2.5"), "line 4: queue: must be an integer, got 2.5"),
        (job(requested_memory=2**52), "line 4: memory_bytes: must be from 0 to 9007199254740992"),
    ],
)
def test_a_malformed_line_is_an_error_with_its_line_and_value(line: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_swf(text(line), "log.swf")

    assert message in str(caught.value)


def test_a_log_without_jobs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log.swf: has no pods"):
        read_swf(text(), "log.swf")


def test_a_job_with_a_preceding_job_is_submitted_at_its_time_with_a_note() -> None:
    lines = [job(run_time=5), job(job_number=2, submit_time=9, run_time=5, preceding_job=1)]
    trace = read_swf(text(*lines), "log.swf")

    assert trace.submit_s.tolist() == [0.0, 9.0]
    assert (
        "1 x job that waits for a preceding job: submitted at its own time "
        "(at line 5: preceding job: 1)"
    ) in trace.notes


def test_fields_without_effect_and_jobs_that_did_not_succeed_are_noted() -> None:
    lines = [
        job(run_time=5, requested_processors=1, status=0, requested_time=60, think_time=3),
        job(job_number=2, run_time=5, requested_processors=1, status=0, requested_time=70),
        job(job_number=3, run_time=5, requested_processors=1, status=9),
    ]

    assert read_swf(text(*lines), "log.swf").notes == (
        "2 x job that failed or was cancelled: read as a job that succeeds "
        "(first at line 4: status: 0)",
        "1 x job with an unknown status: read as a job that succeeds (at line 6: status: 9)",
        "fields that have no effect: requested time (2 x, first at line 4: 60), "
        "think time (1 x, at line 4: 3)",
    )
