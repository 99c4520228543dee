"""Time lines of Jobs and CronJobs, worked out by hand from the rules of their controllers.

Source of the rules: pkg/controller/job (job_controller.go, backoff_utils.go, pod_failure_policy.go,
success_policy.go), pkg/controller/ttlafterfinished, pkg/controller/cronjob.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mooring.scenario.results import Result
from tests.helpers.scenario_files import Spec, job, nodes, rows, run


def scenario(*workload: Spec, end: str = "6h", **more: Any) -> Spec:
    return {
        "cluster": {"nodes": [nodes(2)]},
        "workload": list(workload),
        "end": {"at": end},
        **more,
    }


def creation(manifest: Spec, *, duration: str = "1m", failure: float = 0.0) -> Spec:
    return {"at": "0s", "create": manifest, "duration": duration, "failure": failure}


def cron_job(schedule: str = "*/10 * * * *", *, cpu: str = "1", **more: Any) -> Spec:
    spec = {"schedule": schedule, "jobTemplate": {"spec": job("", cpu)["spec"]}, **more}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}


def pod_times(result: Result) -> list[tuple[float, float | None]]:
    """Returns creation and end of all pods."""
    return [(row["submission_time_s"], row["finish_time_s"]) for row in rows(result, "pods")]


def job_ends(result: Result) -> list[tuple[str, float | None]]:
    return [(row["final_state"], row["finish_time_s"]) for row in rows(result, "jobs")]


def test_failed_pods_are_replaced_after_ten_seconds_then_twice_as_many(tmp_path: Path) -> None:
    result = run(tmp_path, scenario(creation(job("j", backoffLimit=3), failure=1.0)))
    # Each runs for a minute; the waits are 10 s, 20 s and 40 s.
    assert pod_times(result) == [(0, 60), (70, 130), (150, 210), (250, 310)]
    assert job_ends(result) == [("Failed", 310)]


def test_the_wait_after_failures_is_ten_minutes_at_most(tmp_path: Path) -> None:
    result = run(tmp_path, scenario(creation(job("j", backoffLimit=9), failure=1.0)))
    starts = [start for start, _ in pod_times(result)]
    waits = [after - before - 60 for before, after in pairwise(starts)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_a_success_ends_the_wait_after_failures(tmp_path: Path) -> None:
    """Of two pods one fails at 60 s and one succeeds at 65 s: then there is no wait any more."""
    manifest = job("j", completions=2, parallelism=2)
    annotations = {"pod-complete.stage.kwok.x-k8s.io/delay": "65s"}
    other = job("k", completions=2, parallelism=2)
    other["spec"]["template"]["metadata"] = {"annotations": annotations}
    spec = scenario(creation(manifest, failure=1.0), end="69s")
    assert len(pod_times(run(tmp_path, spec))) == 2
    spec = scenario(creation(other, failure=0.0), end="69s")
    assert pod_times(run(tmp_path, spec)) == [(0, 65), (0, 65)]


def test_a_job_fails_at_its_deadline(tmp_path: Path) -> None:
    result = run(tmp_path, scenario(creation(job("j", activeDeadlineSeconds=600), duration="1h")))
    # The pod has its grace period; then the Job has failed.
    assert pod_times(result) == [(0, 630)]
    assert job_ends(result) == [("Failed", 630)]


def test_a_job_ends_before_its_deadline(tmp_path: Path) -> None:
    result = run(tmp_path, scenario(creation(job("j", activeDeadlineSeconds=600), duration="599s")))
    assert job_ends(result) == [("Succeeded", 599)]


def test_a_finished_job_leaves_after_its_time_to_live(tmp_path: Path) -> None:
    """A second Job with the name of the first one can come then; both are in the table."""
    manifest = job("j", ttlSecondsAfterFinished=30)
    later = {**creation(manifest), "at": "91s"}
    result = run(tmp_path, scenario(creation(manifest), later))
    assert pod_times(result) == [(0, 60), (91, 151)]
    assert job_ends(result) == [("Succeeded", 60), ("Succeeded", 151)]


@pytest.mark.parametrize(
    ("action", "n_pods", "end"),
    [("FailJob", 1, 60.0), ("Count", 3, 210.0), ("Ignore", 8, None)],
)
def test_a_policy_says_what_an_exit_code_means(
    tmp_path: Path, action: str, n_pods: int, end: float | None
) -> None:
    """A simulated failure has exit code 1. The waits are 10, 20, 40, ... also if it is ignored."""
    codes = {"operator": "In", "values": [1, 2]}
    policy = {"rules": [{"action": action, "onExitCodes": codes}]}
    manifest = job("j", backoffLimit=2, podFailurePolicy=policy)
    result = run(tmp_path, scenario(creation(manifest, failure=1.0), end="1800s"))
    # Starts: 0, 70, 150, 250, 390, 610, 990, 1650.
    assert len(pod_times(result)) == n_pods
    assert job_ends(result) == [("Failed" if end else "Running", end)]


@pytest.mark.parametrize("ignores", [True, False])
def test_evictions_count_as_failures_unless_they_are_ignored(tmp_path: Path, ignores: bool) -> None:
    more: Spec = {}
    if ignores:
        condition = {"type": "DisruptionTarget"}
        more["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
    manifest = job("j", backoffLimit=0, **more)
    spec = scenario(
        creation(manifest, duration="10m"), {"at": "60s", "drain": {"node": "node-0"}}, end="1h"
    )
    result = run(tmp_path, spec)
    if ignores:
        # The policy lets the pod be replaced when it is gone, ten seconds later.
        assert pod_times(result) == [(0, 90), (100, 700)]
        assert job_ends(result) == [("Succeeded", 700)]
    else:
        assert pod_times(result) == [(0, 90)]
        assert job_ends(result) == [("Failed", 90)]


def test_each_index_has_its_own_limit_and_wait(tmp_path: Path) -> None:
    manifest = job(
        "j", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1
    )
    result = run(tmp_path, scenario(creation(manifest, failure=1.0)))
    assert pod_times(result) == [(0, 60), (0, 60), (70, 130), (70, 130)]
    assert job_ends(result) == [("Failed", 130)]


def test_more_failed_indexes_than_allowed_end_a_job(tmp_path: Path) -> None:
    manifest = job(
        "j",
        completions=5,
        parallelism=1,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        maxFailedIndexes=1,
    )
    result = run(tmp_path, scenario(creation(manifest, failure=1.0)))
    # An index that has failed for good makes no other index wait.
    assert pod_times(result) == [(0, 60), (60, 120)]
    assert job_ends(result) == [("Failed", 120)]


def test_some_indexes_are_enough_for_a_success_policy(tmp_path: Path) -> None:
    rules = [{"succeededIndexes": "0,3", "succeededCount": 1}]
    manifest = job(
        "j",
        completions=4,
        parallelism=2,
        completionMode="Indexed",
        successPolicy={"rules": rules},
    )
    result = run(tmp_path, scenario(creation(manifest)))
    assert pod_times(result) == [(0, 60), (0, 60)]
    assert job_ends(result) == [("Succeeded", 60)]


def test_a_job_that_is_replaced_ends_with_its_pods(tmp_path: Path) -> None:
    manifest = cron_job(concurrencyPolicy="Replace")
    result = run(tmp_path, scenario(creation(manifest, duration="12m"), end="25m"))
    # A pod is gone 30 s after its deletion.
    assert pod_times(result) == [(600.1, 1230.1), (1200.1, None)]
    assert job_ends(result) == [("Deleted", 1200.1), ("Running", None)]


def test_jobs_beyond_the_history_leave_and_stay_in_the_table(tmp_path: Path) -> None:
    manifest = cron_job(successfulJobsHistoryLimit=1)
    result = run(tmp_path, scenario(creation(manifest), end="35m"))
    assert job_ends(result) == [
        ("Succeeded", 660.1),
        ("Succeeded", 1260.1),
        ("Succeeded", 1860.1),
    ]
