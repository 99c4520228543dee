"""Runs whose times are known: by hand, or from a formula."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scenario_files import (
    by_pod,
    deployment,
    job,
    nodes,
    pod,
    rows,
    run,
)

PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def test_one_server_serves_one_pod_after_another(tmp_path: Path) -> None:
    """Equal run times: a pod starts when it comes, or when the one before it ends (Lindley)."""
    result = run(
        tmp_path,
        {
            "seed": 5,
            "cluster": {"nodes": [nodes(1, cpu="1")]},
            "workload": [
                {
                    "name": "q",
                    "arrive": {"poisson": {"rate": "48/h", "count": 1500}},
                    "object": pod("1"),
                    "duration": "1m",
                }
            ],
        },
    )
    table = rows(result, "pods")
    assert {row["final_state"] for row in table} == {"Succeeded"}
    free_s, waits = 0.0, []
    for row in table:
        waits.append(max(0.0, free_s - row["submission_time_s"]))
        free_s = max(free_s, row["submission_time_s"]) + 60
    expected = sum(waits) / len(waits)
    # Backoff may hold a pod for some seconds: it was refused shortly before.
    assert expected <= result.summary["wait.mean"] <= expected * 1.02 + 1
    # Pollaczek-Khinchine with load 0.8: half of the load over its rest, in run times.
    assert result.summary["wait.mean"] == pytest.approx(0.8 / (2 * 0.2) * 60, rel=0.25)
    assert result.summary["allocated.cpu"] == pytest.approx(0.8, rel=0.05)


def test_an_attempt_takes_its_time(tmp_path: Path) -> None:
    spec = {
        "cluster": {"nodes": [nodes(5)]},
        "scheduler": {"podsPerSecond": 2},
        "workload": [
            {
                "name": "x",
                "arrive": {"bursts": {"size": 6, "every": "1h", "count": 6}},
                "object": pod(),
            }
        ],
    }
    times = [row["starting_time_s"] for row in rows(run(tmp_path, spec), "pods")]
    assert sorted(times) == [0.5, 1, 1.5, 2, 2.5, 3]
    spec["scheduler"] = {"attemptTime": "250ms"}
    times = [row["starting_time_s"] for row in rows(run(tmp_path, spec), "pods")]
    assert sorted(times) == [0.25, 0.5, 0.75, 1, 1.25, 1.5]


def test_start_and_run_time_follow_the_binding(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(1, cpu="1")]},
            "pods": {"start": "5s", "duration": "100s"},
            "workload": [
                {"name": "a", "arrive": {"at": ["10s", "20s"]}, "object": pod()},
                {"name": "b", "arrive": {"at": ["1000s"]}, "object": pod(), "duration": "30s"},
            ],
        },
    )
    assert [
        (row["pod"], row["starting_time_s"], row["finish_time_s"], row["waiting_time_s"])
        for row in rows(result, "pods")
    ] == [
        ("default/a-0", 10, 115, 0),
        ("default/a-1", 115, 220, 95),
        ("default/b-0", 1000, 1035, 0),
    ]
    # 105 + 105 + 35 of 1035 seconds on the only cpu; the second pod asks for 95 more.
    assert result.summary["allocated.cpu"] == pytest.approx(245 / 1035)
    assert result.summary["demanded.cpu"] == pytest.approx(340 / 1035)
    assert result.summary["pending.mean"] == pytest.approx(95 / 1035)
    assert result.summary["makespan"] == 1025


def test_what_is_free_where_no_waiting_pod_fits_is_stranded(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "end": {"at": "200s"},
            "cluster": {"nodes": [nodes(2, cpu="3")]},
            "workload": [
                {"name": "small", "arrive": {"at": ["0s", "0s"]}, "object": pod("2")},
                {"name": "large", "arrive": {"at": ["100s"]}, "object": pod("2")},
            ],
        },
    )
    # From 100 s on, 1 of 3 cpus of both nodes is free, and nothing that waits fits there.
    assert result.summary["stranded.cpu"] == pytest.approx(2 * 100 / (6 * 200))
    assert list(result.pending) == ["default/large-0"]
    assert "Insufficient cpu" in result.pending["default/large-0"]


def test_what_a_pod_like_those_before_cannot_use_is_fragmented(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "end": {"at": "400s"},
            "cluster": {"nodes": [nodes(2, cpu="4", **{"example.com/gpu": "2"})]},
            "workload": [
                {"name": "a", "arrive": {"at": ["100s"]}, "object": pod("3"), "duration": "100s"},
                {"name": "b", "arrive": {"at": ["300s"]}, "object": pod("1"), "duration": "1h"},
            ],
        },
    )
    # No pod came before 100 s. Until 200 s 1 cpu is free beside the pod, and one like it needs 3.
    # From 300 s on 3 cpus are free beside the pod: enough for both kinds.
    assert result.summary["fragmentation.cpu"] == pytest.approx(1 * 100 / (8 * 400))
    # No pod requests a gpu: all four are of no use from the first pod on.
    assert result.summary["fragmentation.gpu"] == pytest.approx(4 * 300 / (4 * 400))


def test_the_annotations_of_kwok_say_how_long_a_pod_runs(tmp_path: Path) -> None:
    prefix = "pod-complete.stage.kwok.x-k8s.io/"
    fixed = {**pod(), "metadata": {"annotations": {f"{prefix}delay": "70s"}}}
    between = {f"{prefix}delay": "70s", f"{prefix}jitter-delay": "90s"}
    jittered = {**pod("10m"), "metadata": {"annotations": between}}
    broken = {**pod(), "metadata": {"annotations": {f"{prefix}delay": "soon"}}}
    arrive = {"at": ["0s"]}
    result = run(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(3)]},
            "pods": {"duration": "5s"},
            "workload": [
                {"name": "fixed", "arrive": arrive, "object": fixed},
                {"name": "between", "arrive": {"at": ["0s"] * 50}, "object": jittered},
                {"name": "broken", "arrive": arrive, "object": broken},
            ],
        },
    )
    times = {name: row["execution_time_s"] for name, row in by_pod(result).items()}
    assert (times["fixed-0"], times["broken-0"]) == (70, 5)
    jitter = [own for name, own in times.items() if name.startswith("between")]
    assert min(jitter) >= 70
    assert max(jitter) <= 90
    assert max(jitter) - min(jitter) > 10


def test_pods_fail_at_the_end_of_their_time(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(4)]},
            "pods": {"duration": "10s", "failure": 0.3},
            "workload": [
                {"arrive": {"interval": {"every": "10s", "count": 400}}, "object": pod("1")}
            ],
        },
    )
    assert result.summary["pods.failed"] == pytest.approx(120, abs=4 * (400 * 0.21) ** 0.5)
    assert result.summary["pods.failed"] + result.summary["pods.succeeded"] == 400


def test_a_job_ends_when_its_pods_have(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(1, cpu="2")]},
            "workload": [
                {
                    "name": "train",
                    "arrive": {"interval": {"every": "1h", "count": 2}},
                    "object": job("train", parallelism=2, completions=4),
                    "duration": "10m",
                }
            ],
        },
    )
    assert rows(result, "jobs") == [
        {
            "job": f"default/train-{n}",
            "group": "train",
            "final_state": "Succeeded",
            "submission_time_s": n * 3600,
            "starting_time_s": n * 3600,
            "finish_time_s": n * 3600 + 1200,
        }
        for n in range(2)
    ]
    assert result.summary["jobs.turnaround.mean"] == 1200


def test_a_cron_job_goes_on_until_the_end(tmp_path: Path) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    }
    result = run(
        tmp_path,
        {
            "end": {"at": "65m"},
            "cluster": {"nodes": [nodes(1)]},
            "workload": [{"at": "0s", "create": cron, "duration": "1m"}],
        },
    )
    # The controller looks 0.1 s after each instant of the schedule.
    submitted = [row["submission_time_s"] for row in rows(result, "jobs")]
    assert submitted == [n * 600 + 0.1 for n in range(1, 7)]
    assert {row["final_state"] for row in rows(result, "jobs")} == {"Succeeded"}


def test_a_deployment_is_scaled_and_deleted(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "end": {"at": "1h"},
            "cluster": {"nodes": [nodes(3)]},
            "pods": {"start": "2s"},
            "workload": [
                {"at": "10s", "create": deployment("web", 2)},
                {"at": "100s", "scale": {"name": "web", "replicas": 5}},
                {"at": "200s", "scale": {"name": "web", "replicas": 1}},
                {"at": "1000s", "delete": {"kind": "Deployment", "name": "web"}},
            ],
        },
    )
    table = rows(result, "pods")
    assert [row["submission_time_s"] for row in table] == [10, 10, 100, 100, 100]
    # Thirty seconds of grace.
    assert sorted(row["finish_time_s"] for row in table) == [230, 230, 230, 230, 1030]
    assert {row["final_state"] for row in table} == {"Deleted"}


def test_pods_are_deleted_by_label_and_a_node_goes_with_its_pods(tmp_path: Path) -> None:
    labelled = {**pod(), "metadata": {"labels": {"app": "a"}}}
    result = run(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(2, cpu="1")]},
            "workload": [
                {"name": "a", "arrive": {"at": ["0s"]}, "object": labelled},
                {"name": "b", "arrive": {"at": ["1s"]}, "object": pod()},
                {"at": "50s", "delete": {"matchLabels": {"app": "a"}}},
                {"at": "60s", "delete": {"kind": "Node", "name": "node-1"}},
                {"at": "61s", "delete": {"kind": "Node", "name": "node-0"}},
            ],
        },
    )
    table = by_pod(result)
    ends = {"node-1": 60, "node-0": 61}
    assert table["a-0"]["final_state"] in ("Deleted", "Evicted")
    assert table["b-0"]["final_state"] == "Evicted"
    assert table["b-0"]["finish_time_s"] == ends[table["b-0"]["node"]]
    assert result.summary["nodes.removed"] == 2


def test_a_preempted_pod_loses_its_work(tmp_path: Path) -> None:
    urgent = pod("1", priorityClassName="urgent")
    victim = pod("1", terminationGracePeriodSeconds=10)
    (tmp_path / "classes.json").write_text(json.dumps(PRIORITY), encoding="utf-8")
    result = run(
        tmp_path,
        {
            "cluster": {"files": ["classes.json"], "nodes": [nodes(1, cpu="1")]},
            "workload": [
                {"name": "low", "arrive": {"at": ["0s"]}, "object": victim, "duration": "1h"},
                {"name": "high", "arrive": {"at": ["100s"]}, "object": urgent, "duration": "60s"},
            ],
        },
    )
    table = by_pod(result)
    assert (table["low-0"]["final_state"], table["low-0"]["finish_time_s"]) == ("Preempted", 110)
    assert table["low-0"]["lost_time_s"] == 100
    assert table["high-0"]["priority"] == 1000
    assert 110 <= table["high-0"]["starting_time_s"] <= 112
    assert (result.summary["preemptions"], result.summary["lost.cpu"]) == (1, 100 / 3600)


# -- nodes --------------------------------------------------------------------------------------


def crash(duration: str | None, **more: Any) -> dict[str, Any]:
    """Returns a scenario in which a node with a pod of ten minutes crashes after one minute."""
    action = {"node": "node-0"} | ({} if duration is None else {"duration": duration})
    return {
        "cluster": {"nodes": [nodes(1)]},
        "workload": [
            {"name": "p", "arrive": {"at": ["0s"]}, "object": pod(), "duration": "10m"},
            {"at": "60s", "fail": action},
        ],
        **more,
    }


def test_a_short_crash_is_not_noticed_and_the_pod_begins_again(tmp_path: Path) -> None:
    [row] = rows(run(tmp_path, crash("30s")), "pods")
    assert (row["final_state"], row["finish_time_s"]) == ("Succeeded", 90 + 600)


def test_a_pod_that_is_bound_to_a_crashed_node_begins_when_it_is_back(tmp_path: Path) -> None:
    """The crash at 10 s is not noticed yet when the pod is bound at 20 s."""
    spec = {
        "cluster": {"nodes": [nodes(1)]},
        "workload": [
            {"at": "10s", "fail": {"node": "node-0", "duration": "40s"}},
            {"name": "p", "arrive": {"at": ["20s"]}, "object": pod(), "duration": "5s"},
        ],
    }
    row = by_pod(run(tmp_path, spec))["p-0"]
    assert (row["starting_time_s"], row["finish_time_s"]) == (20, 55)


def test_after_a_long_crash_the_pods_are_gone(tmp_path: Path) -> None:
    """Marked after 50 s, tolerated for 300 s, and removed when the node is back."""
    [row] = rows(run(tmp_path, crash("20m")), "pods")
    assert (row["final_state"], row["finish_time_s"]) == ("Evicted", 60 + 1200)


def test_a_node_that_is_back_in_time_keeps_its_pods(tmp_path: Path) -> None:
    [row] = rows(run(tmp_path, crash("340s")), "pods")
    assert (row["final_state"], row["finish_time_s"]) == ("Succeeded", 60 + 340 + 600)


def test_a_node_that_never_comes_back(tmp_path: Path) -> None:
    result = run(tmp_path, crash(None, end={"at": "2h"}))
    [row] = rows(result, "pods")
    assert (row["final_state"], row["finish_time_s"]) == ("Running", None)
    assert result.summary["evictions"] == 1


def test_a_replacement_runs_elsewhere_when_the_toleration_ends(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "end": {"at": "1h"},
            "cluster": {"nodes": [nodes(2)]},
            "workload": [
                {"at": "0s", "cordon": {"node": "node-1"}},
                {"at": "1s", "create": deployment("web", 1)},
                {"at": "30s", "uncordon": {"node": "node-1"}},
                {"at": "60s", "fail": {"node": "node-0", "duration": "30m"}},
            ],
        },
    )
    first, second = rows(result, "pods")
    assert (first["node"], first["final_state"], first["finish_time_s"]) == (
        "node-0",
        "Evicted",
        60 + 1800,
    )
    assert (second["node"], second["starting_time_s"]) == ("node-1", 60 + 50 + 300)


def test_a_drain_waits_for_the_budget(tmp_path: Path) -> None:
    """Three replicas, two must be available: one goes, and the next when its replacement is ready.

    A replacement is ready ten seconds after its binding; a refused eviction is retried after five.
    """
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    result = run(
        tmp_path,
        {
            "end": {"at": "1h"},
            "cluster": {"nodes": [nodes(2)]},
            "pods": {"start": "10s"},
            "workload": [
                {"at": "0s", "cordon": {"node": "node-1"}},
                {"at": "1s", "create": [budget, deployment("web", 3)]},
                {"at": "900s", "uncordon": {"node": "node-1"}},
                {"at": "1000s", "drain": {"node": "node-0"}},
            ],
        },
    )
    evicted = [row for row in rows(result, "pods") if row["final_state"] == "Evicted"]
    assert sorted(row["finish_time_s"] for row in evicted) == [1030, 1045, 1060]
    new = [row for row in rows(result, "pods") if row["node"] == "node-1"]
    assert [row["starting_time_s"] for row in new] == [1000, 1015, 1030]


def test_failures_come_again_and_together(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"rack": "r1"}}, **nodes(1)["template"]}
    result = run(
        tmp_path,
        {
            "end": {"at": "1000s"},
            "cluster": {"nodes": [{"count": 3, "name": "n-", "template": template}]},
            "pods": {"duration": "2000s"},
            "workload": [{"arrive": {"at": ["0s", "0s", "0s"]}, "object": pod("4")}],
            "failures": [
                {
                    "matchLabels": {"rack": "r1"},
                    "mtbf": {"uniform": {"min": 300, "max": 300}},
                    "mttr": {"uniform": {"min": 10, "max": 10}},
                    "together": "rack",
                }
            ],
        },
    )
    # Crashes at 300, 610 and 920 s: three pods lose all they have done since they began.
    assert result.summary["lost.pods"] == 3 * (300 + 300 + 300)
