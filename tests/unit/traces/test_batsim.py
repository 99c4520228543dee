"""Workloads of Batsim."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.traces.batsim import read_batsim

PROFILES: dict[str, Any] = {
    "short": {"type": "delay", "delay": 10},
    "long": {"type": "delay", "delay": 100.5},
    "parallel": {"type": "parallel_homogeneous", "cpu": 1e7, "com": 0},
    "twice": {"type": "composed", "repeat": 2, "seq": ["short", "long"]},
    "nested": {"type": "sequential_composition", "seq": ["twice", "short"]},
    "mixed": {"type": "composed", "seq": ["short", "parallel"]},
}


def workload(*jobs: dict[str, Any], **profiles: Any) -> dict[str, Any]:
    return {"nb_res": 4, "jobs": list(jobs), "profiles": PROFILES | profiles}


def job(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "subtime": 0, "res": 1, "profile": "short"} | fields


def test_a_job_is_one_pod_with_one_core_for_each_resource() -> None:
    document = workload(
        job(id=1, subtime=30, res=4, profile="long"), job(id="first", subtime=1.5, walltime=60)
    )

    trace = read_batsim(document, "w.json")

    assert trace.names.tolist() == ["first", "1"]
    assert trace.submit_s.tolist() == [1.5, 30.0]
    assert trace.duration_s.tolist() == [10.0, 100.5]
    assert trace.count.tolist() == [1, 4]
    assert trace.cpu_milli.tolist() == [1000, 1000]
    assert trace.group.tolist() == ["short", "long"]


@pytest.mark.parametrize(
    ("profile", "walltime", "duration_s"),
    [
        ("twice", -1, 221.0),
        ("nested", 1000, 231.0),
        ("long", 60, 60.0),
        ("parallel", 60, math.nan),
        ("mixed", -1, math.nan),
    ],
)
def test_run_time(profile: str, walltime: float, duration_s: float) -> None:
    trace = read_batsim(workload(job(profile=profile, walltime=walltime)), "w.json")

    assert trace.duration_s.tolist() == pytest.approx([duration_s], nan_ok=True)
    assert bool(trace.notes) == (math.isnan(duration_s) or walltime == 60)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a mapping with jobs and profiles, got []"),
        ({"jobs": []}, "profiles: is required"),
        (workload(), "w.json: has no pods"),
        (workload(job(res=0)), "jobs[0].res: must be a number from 1"),
        (workload(job(res=1.5)), "jobs[0].res: must be an integer, got 1.5"),
        (workload(job(res="2")), "jobs[0].res: must be a number, got '2'"),
        (workload(job(res=True)), "jobs[0].res: must be a number, got True"),
        (workload(job(), job(subtime=None)), "jobs[1].subtime: is required"),
        (workload(job(subtime=-1)), "jobs[0].subtime: must be a number from 0"),
        (workload(job(id=None)), "jobs[0].id: must be an integer or a string"),
        (
            workload(job(profile="absent")),
            "jobs[0].profile: is not one of the profiles, got 'absent'",
        ),
        (workload(job(profile="x"), x={"type": "delay"}), "profiles.x.delay: is required"),
        (
            workload(job(profile="x"), x={"type": "composed", "seq": ["x"]}),
            "profiles.x: contains itself, or too many sequences",
        ),
        (
            workload(job(profile="x"), x={"type": "composed", "repeat": 1e15, "seq": ["long"]}),
            "profiles.x: must be a number from 0",
        ),
    ],
)
def test_a_malformed_document_is_an_error_with_path_and_value(document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_batsim(document, "w.json")

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("repeat", "problem"),
    [
        (1.5, r"profiles\.x\.repeat: must be an integer, got 1\.5"),
        (0, r"profiles\.x\.repeat: must be a number from 1 .* got 0"),
    ],
)
def test_a_sequence_is_repeated_a_whole_number_of_times(repeat: float, problem: str) -> None:
    """Source: Batsim's reader of profiles, which refuses fractions and 0."""
    profile = {"type": "composed", "repeat": repeat, "seq": ["short"]}
    with pytest.raises(ConfigError, match=problem):
        read_batsim(workload(job(profile="x"), x=profile), "b.json")


@pytest.mark.parametrize(
    ("profile", "duration_s"),
    [
        ({"type": "DelayProfile", "delay": 7}, 7.0),
        ({"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["short"]}, 30.0),
        ({"type": "composed", "nb": 3, "seq": ["short", "short"]}, 60.0),
    ],
)
def test_names_of_all_versions_are_read(profile: dict[str, Any], duration_s: float) -> None:
    trace = read_batsim(workload(job(profile="x"), x=profile), "w.json")

    assert (trace.duration_s.tolist(), trace.notes) == ([duration_s], ())


def test_both_names_of_the_number_of_repetitions_are_refused() -> None:
    profile = {"type": "composed", "nb": 2, "repeat": 3, "seq": ["short"]}

    with pytest.raises(ConfigError, match=r"profiles\.x\.nb: is the older name .*, got 2"):
        read_batsim(workload(job(profile="x"), x=profile), "w.json")


def test_a_profile_that_fails_ends_its_sequence_and_is_noted() -> None:
    profiles = {
        "bad": {"type": "delay", "delay": 3, "ret": 1},
        "outer": {"type": "composed", "repeat": 4, "seq": ["short", "bad", "long"]},
        "end": {"type": "composed", "repeat": 2, "seq": ["short"], "ret": 2},
    }
    jobs = [job(id=at, profile=name) for at, name in enumerate(("bad", "outer", "end", "short"))]

    trace = read_batsim(workload(*jobs, **profiles), "w.json")

    assert trace.duration_s.tolist() == [3.0, 13.0, 20.0, 10.0]
    assert trace.notes == (
        "3 x job whose profile fails (ret is not 0): read as a job that succeeds "
        "(first at jobs[0].profile: 'bad')",
    )


def test_a_job_that_reaches_its_walltime_has_no_return_code() -> None:
    profiles = {"bad": {"type": "delay", "delay": 30, "ret": 1}}

    trace = read_batsim(workload(job(profile="bad", walltime=20), **profiles), "w.json")

    assert trace.notes == ("1 x job that ends at its walltime (at jobs[0].walltime: 20)",)


def test_fields_without_effect_are_noted_with_place_and_value() -> None:
    short = {"type": "delay", "delay": 10, "command": "sleep"}
    document = workload(job(dependencies=["2"]), job(id=2, res=5, gpus=None), short=short)
    document["date"] = "2026-01-01"

    assert read_batsim(document, "w.json").notes == (
        "1 x job that requests more than nb_res resources (at jobs[1].res: 5)",
        "fields that have no effect: date (1 x, at date: '2026-01-01'), command (1 x, at "
        "profiles.short.command: 'sleep'), dependencies (1 x, at jobs[0].dependencies: ['2'])",
    )


def test_the_number_of_resources_must_be_a_number() -> None:
    with pytest.raises(ConfigError, match=r"nb_res: must be a number from 1 .*, got 0"):
        read_batsim({**workload(job()), "nb_res": 0}, "w.json")
