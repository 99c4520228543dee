"""Workload objects of files become their pods in a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import ConfigError
from mooring.recordings.format import RecordingReader, RecordingWriter
from mooring.simulation.build import driver_of
from mooring.simulation.engine.recorder import StepRecorder
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.inputs.workloads import with_replicas
from mooring.simulation.replay import replay
from mooring.simulation.results import PLACED, REFUSED
from mooring.simulation.run import Simulation, SimulationOptions, run_simulation
from mooring.simulation.simulate import node_order, recording_header
from mooring.simulation.workload import read_workload

UID = "11111111-1111-4111-8111-11111111111{}"


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def template(app: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, *, cpu: str = "1", **more: Any) -> dict[str, Any]:
    pod_spec = more.pop("pod_spec", {})
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": template(name, cpu, **pod_spec)}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {**spec, **more}}


def owned_pod(name: str, owner: dict[str, Any], node_name: str, **labels: str) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": UID.format(name[-1]),
        "labels": labels,
        "ownerReferences": [reference],
    }
    spec = {**template("x")["spec"], "nodeName": node_name}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def simulate(folder: Path, *objects: dict[str, Any], **options: Any) -> Simulation:
    path = folder / "cluster.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    return run_simulation(read_workload([str(path)]), SimulationOptions(**options))


def placed(simulation: Simulation) -> list[str]:
    return [result.pod for result in simulation.outcome(PLACED)]


def test_a_deployment_becomes_its_pods(tmp_path: Path) -> None:
    result = simulate(tmp_path, node("a"), workload("Deployment", "web", replicas=6))
    assert len(result.outcome(PLACED)) == 4
    assert [item.reasons for item in result.outcome(REFUSED)] == [{"Insufficient cpu": 1}] * 2
    pods = list(result.pods.values())
    digests = {pod.metadata.labels["pod-template-hash"] for pod in pods}
    assert {pod.metadata.owner_references[0].kind for pod in pods} == {"ReplicaSet"}
    assert {pod.metadata.name.rpartition("-")[0] for pod in pods} == {f"web-{digests.pop()}"}


def test_the_names_are_the_same_again_and_do_not_depend_on_other_workloads(tmp_path: Path) -> None:
    web, api = workload("ReplicaSet", "web", replicas=2), workload("ReplicaSet", "api", replicas=2)
    first = placed(simulate(tmp_path, node("a"), web))
    assert placed(simulate(tmp_path, node("a"), web)) == first
    assert set(first) < set(placed(simulate(tmp_path, node("a"), api, web)))
    assert placed(simulate(tmp_path, node("a"), web, seed=1)) != first


def test_a_stateful_set_waits_for_each_pod_and_stops_at_one_that_does_not_fit(
    tmp_path: Path,
) -> None:
    db = workload("StatefulSet", "db", cpu="2", replicas=4, serviceName="db")
    result = simulate(tmp_path, node("a"), db)
    assert placed(result) == ["default/db-0", "default/db-1"]
    times = [item.time_s or 0.0 for item in result.outcome(PLACED)]
    assert times == [0.0, 0.5]
    # The fourth is never created.
    assert [item.pod for item in result.outcome(REFUSED)] == ["default/db-2"]


def test_a_parallel_stateful_set_creates_all_pods(tmp_path: Path) -> None:
    db = workload("StatefulSet", "db", cpu="2", replicas=4, podManagementPolicy="Parallel")
    result = simulate(tmp_path, node("a"), db)
    assert len(result.outcome(PLACED)) == len(result.outcome(REFUSED)) == 2


def test_a_daemon_set_has_one_pod_on_each_eligible_node(tmp_path: Path) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    nodes = [node("a"), node("b", taints=[taint]), node("c", unschedulable=True)]
    result = simulate(tmp_path, *nodes, workload("DaemonSet", "agent"))
    assert sorted(item.node for item in result.outcome(PLACED)) == ["a", "c"]
    pod = next(iter(result.pods.values()))
    tolerated = {(item.key, item.effect) for item in pod.spec.tolerations}
    assert ("node.kubernetes.io/disk-pressure", "NoSchedule") in tolerated


def test_a_job_has_as_many_pods_as_it_may_run_at_once(tmp_path: Path) -> None:
    job = workload("Job", "sum", parallelism=2, completions=5, completionMode="Indexed")
    job |= {"apiVersion": "batch/v1"}
    del job["spec"]["selector"]
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    result = simulate(tmp_path, node("a"), job)
    assert len(result.outcome(PLACED)) == 2
    labels = [pod.metadata.labels for pod in result.pods.values()]
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(item[index] for item in labels) == ["0", "1"]


def test_the_pods_of_a_dump_are_not_created_twice(tmp_path: Path) -> None:
    web = workload("Deployment", "web", replicas=3)
    web["metadata"] |= {"uid": UID.format("a"), "generation": 1}
    hashed = {"app": "web", "pod-template-hash": "abc"}
    replica_set = workload("ReplicaSet", "web-abc", replicas=3)
    replica_set["metadata"] |= {
        "uid": UID.format("b"),
        "labels": hashed,
        "annotations": {"deployment.kubernetes.io/revision": "1"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "uid": UID.format("a"),
                "controller": True,
            }
        ],
    }
    replica_set["spec"]["selector"] = {"matchLabels": hashed}
    replica_set["spec"]["template"] = template("web")
    replica_set["spec"]["template"]["metadata"]["labels"] = hashed
    first = owned_pod("web-abc-1", replica_set, "a", **hashed)
    second = owned_pod("web-abc-2", replica_set, "a", **hashed)
    result = simulate(tmp_path, node("a"), web, replica_set, first, second)
    # One of three is missing; its ReplicaSet creates it.
    (created,) = placed(result)
    assert created.startswith("default/web-abc-")
    assert len(result.pods) == 3


def test_orphans_that_match_are_adopted(tmp_path: Path) -> None:
    web = workload("ReplicaSet", "web", replicas=2)
    pod = {"apiVersion": "v1", "kind": "Pod", **template("web")}
    pod["metadata"] = {**pod["metadata"], "name": "mine", "namespace": "default"}
    result = simulate(tmp_path, node("a"), web, pod)
    assert len(result.pods) == 2
    owners = result.pods["default/mine"].metadata.owner_references
    assert [owner.name for owner in owners] == ["web"]


def test_an_evicted_pod_is_created_again_and_waits(tmp_path: Path) -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 100,
    }
    web = workload("ReplicaSet", "web", cpu="2", replicas=1)
    web["metadata"]["uid"] = UID.format("a")
    present = owned_pod("web-1", web, "a", app="web")
    present["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    vip = {"apiVersion": "v1", "kind": "Pod", **template("vip", "3", priorityClassName="urgent")}
    vip["metadata"] = {"name": "vip", "namespace": "default"}
    result = simulate(tmp_path, node("a"), urgent, web, present, vip)
    assert placed(result) == ["default/vip"]
    assert [item.pod for item in result.evictions] == ["default/web-1"]
    (again,) = result.outcome(REFUSED)
    assert again.pod.startswith("default/web-")
    assert again.reasons == {"Insufficient cpu": 1}


def test_a_pod_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    web = workload("Deployment", "web", pod_spec={"priorityClassName": "none"})
    with pytest.raises(ConfigError, match="ReplicaSet default/web-"):
        simulate(tmp_path, node("a"), web)


def test_a_field_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    web = workload("Deployment", "web", replica=3)
    with pytest.raises(ConfigError, match=r"spec\.replica"):
        simulate(tmp_path, node("a"), web)


def test_the_pods_of_a_workload_may_have_a_priority_class_of_the_value_zero(
    tmp_path: Path,
) -> None:
    low = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "low"},
        "value": 0,
    }
    spec = {"priorityClassName": "low"}
    web = workload("ReplicaSet", "web", replicas=1, pod_spec=spec)
    result = simulate(tmp_path, low, node("a"), web)
    (pod,) = result.pods.values()
    assert (pod.spec.priority, pod.spec.node_name) == (0, "a")


def test_workloads_act_in_the_order_of_kinds_and_names(tmp_path: Path) -> None:
    jobs = workload("ReplicaSet", "b", replicas=1), workload("ReplicaSet", "a", replicas=1)
    db = workload("StatefulSet", "a", replicas=1, serviceName="db")
    result = simulate(tmp_path, node("n"), db, *jobs)
    assert [item.pod.rpartition("-")[0] for item in result.results] == [
        "default/a",
        "default/b",
        "default/a",
    ]
    assert result.results[-1].pod == "default/a-0"


# -- CronJobs -------------------------------------------------------------------------------------


def cron_job(name: str, schedule: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    pod = template(name, cpu, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": pod}}, **spec},
    }


def placed_at(result: Simulation) -> list[tuple[str, str, int | None]]:
    """Returns the Job of each pod, its outcome and its second."""
    return [
        (
            each.pod.partition("/")[2].partition("-")[0],
            each.outcome,
            None if each.time_s is None else int(each.time_s),
        )
        for each in result.results
    ]


def test_a_cron_job_creates_a_job_at_its_next_instant(tmp_path: Path) -> None:
    night = cron_job("night", "0 3 * * *")
    night["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    night["status"] = {"lastScheduleTime": "2020-02-01T03:00:00Z"}
    result = simulate(tmp_path, node("a"), night, cron_job("often", "*/5 * * * *"))
    assert placed_at(result) == [("often", PLACED, 300), ("night", PLACED, 3 * 3600)]


def test_the_instants_of_a_cron_job_are_limited(tmp_path: Path) -> None:
    often = cron_job("often", "*/5 * * * *")
    result = simulate(tmp_path, node("a", cpu="2"), often, cron_runs=3)
    assert [item[1:] for item in placed_at(result)] == [
        (PLACED, 300),
        (PLACED, 600),
        (REFUSED, None),
    ]
    assert simulate(tmp_path, node("a"), often, cron_runs=0).results == []


def test_jobs_that_do_not_end_forbid_the_next_one(tmp_path: Path) -> None:
    often = cron_job("often", "*/5 * * * *", concurrencyPolicy="Forbid")
    result = simulate(tmp_path, node("a"), often, cron_runs=3)
    assert placed_at(result) == [("often", PLACED, 300)]


def test_a_suspended_cron_job_creates_nothing(tmp_path: Path) -> None:
    result = simulate(tmp_path, node("a"), cron_job("often", "*/5 * * * *", suspend=True))
    assert result.results == []
    workload = read_workload([str(tmp_path / "cluster.json")])
    assert workload.expected_pods == 0


def test_a_cron_job_has_the_pods_of_its_job(tmp_path: Path) -> None:
    many = cron_job("many", "@hourly")
    many["spec"]["jobTemplate"]["spec"] |= {"parallelism": 3, "completions": 2}
    assert [item[1] for item in placed_at(simulate(tmp_path, node("a"), many))] == [PLACED, PLACED]
    assert read_workload([str(tmp_path / "cluster.json")]).expected_pods == 2


def budget(app: str, allowed: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 0,
            "expectedPods": 1,
        },
    }


def urgent_pod() -> list[dict[str, Any]]:
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 100,
    }
    spec = {**template("urgent")["spec"], "priorityClassName": "urgent"}
    metadata = {"name": "urgent", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return [priority, pod]


def evicted(simulation: Simulation) -> list[str]:
    return [eviction.pod for eviction in simulation.evictions]


def test_the_old_status_of_a_budget_is_corrected_before_a_preemption(tmp_path: Path) -> None:
    web = workload("ReplicaSet", "web", replicas=1)
    web["metadata"]["uid"] = UID.format(7)
    db = workload("ReplicaSet", "db", replicas=1)
    db["metadata"]["uid"] = UID.format(8)
    objects = [
        node("a", "1"),
        node("b", "1"),
        web,
        db,
        owned_pod("web-1", web, "a", app="web"),
        owned_pod("db-2", db, "b", app="db"),
        budget("web", 1, maxUnavailable=0),
        budget("db", 0, maxUnavailable=1),
        *urgent_pod(),
    ]
    assert evicted(simulate(tmp_path, *objects)) == ["default/db-2"]


def test_a_budget_keeps_its_status_without_the_workloads_of_its_pods(tmp_path: Path) -> None:
    web = workload("ReplicaSet", "web", replicas=1)
    web["metadata"]["uid"] = UID.format(7)
    objects = [
        node("a", "1"),
        node("b", "1"),
        owned_pod("web-1", web, "a", app="web"),
        owned_pod("db-2", web, "b", app="db"),
        budget("web", 0, maxUnavailable=1),
        budget("db", 1, maxUnavailable=1),
        *urgent_pod(),
    ]
    assert evicted(simulate(tmp_path, *objects)) == ["default/db-2"]


def test_a_plain_pod_counts_for_its_budget_when_it_has_started(tmp_path: Path) -> None:
    labels = {"app": "plain"}
    metadata = {"name": "plain", "namespace": "default", "labels": labels}
    spec = template("plain")["spec"]
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    changes: list[tuple[int, int]] = []

    def on_change(kind: str, change: Any) -> None:
        if kind == "PodDisruptionBudget":
            status = change.new.status
            changes.append((status.current_healthy, status.disruptions_allowed))

    objects = [node("a"), plain, budget("plain", 9, minAvailable=0)]
    simulate(tmp_path, *objects, on_change=on_change)
    assert changes == [(0, 0), (1, 1)]


def test_a_replication_controller_becomes_its_pods_and_keeps_those_that_it_has(
    tmp_path: Path,
) -> None:
    labels = {"app": "web"}
    controller = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web", "namespace": "default", "uid": UID.format(9)},
        "spec": {"replicas": 3, "selector": labels, "template": template("web")},
    }
    own = owned_pod("web-1", controller, "a", **labels)
    other = owned_pod("other-2", controller, "a", app="other")
    result = simulate(tmp_path, node("a", cpu="8"), controller, own, other)
    pods = [name for name in placed(result) if name.startswith("default/web-")]
    assert len(pods) == 2, "the pod that it has counts, the one without its label does not"

    scaled = with_replicas(
        read_workload([str(tmp_path / "cluster.json")]), [("replicationcontroller/web", 5)]
    )
    again = run_simulation(scaled, SimulationOptions())
    assert len([name for name in placed(again) if name.startswith("default/web-")]) == 4


def test_a_simulation_saves_what_controllers_do_before_the_first_attempt(tmp_path: Path) -> None:
    """Claims of a StatefulSet are created, and pods of a Deployment's old ReplicaSet deleted."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": "any.csi.test",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    sets = workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=[claim], serviceName="db")
    few = workload("ReplicaSet", "few", cpu="4", replicas=0)
    few["metadata"]["uid"] = UID.format(9)
    old = owned_pod("few-1", few, "a", app="few")
    old["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    cluster = tmp_path / "cluster.json"
    items = [node("a"), storage_class, sets, few, old]
    cluster.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    read = with_controller_results(read_workload([str(cluster)]))
    saved = tmp_path / "run.json.gz"
    header = recording_header(
        read, upstream="mooring", seed=0, node_order=node_order(read), config=None
    )

    with RecordingWriter(saved, header) as writer:
        options = SimulationOptions(recorder=StepRecorder(writer))
        simulation = run_simulation(read, options)

    assert [own.node for own in simulation.results] == ["a", "a"]
    with RecordingReader(saved) as reader:
        driver = driver_of(reader.header, config=None)
        steps = list(replay(reader, driver, objects=reader.header.objects))
    assert steps
    assert [str(item) for step in steps for item in step.differences] == []


def test_a_distant_cron_job_does_not_make_pods_that_cannot_be_scheduled_wait_for_it(
    tmp_path: Path,
) -> None:
    """Nothing helps the pod for years, so it is not tried every ten seconds until then."""
    job = {"template": {"spec": {**template("x")["spec"], "restartPolicy": "Never"}}}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "leap"},
        "spec": {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": job}},
    }
    big = workload("Deployment", "big", cpu="64", replicas=1)

    simulation = simulate(tmp_path, cron_job, big)

    outcomes = {own.pod.split("/")[1].split("-")[0]: own for own in simulation.results}
    assert outcomes["leap"].outcome == REFUSED
    assert outcomes["big"].outcome == REFUSED
    assert simulation.end_s > 300 * 86400
    assert outcomes["big"].attempts < 500


@pytest.mark.parametrize("kind", ["DaemonSet", "Job", "Deployment"])
def test_a_workload_without_containers_in_a_file_that_is_not_validated(
    tmp_path: Path, kind: str
) -> None:
    is_job = kind == "Job"
    more: dict[str, Any] = {"completions": 1, "completionMode": "Indexed"} if is_job else {}
    own = workload(kind, "agent", **more)
    own["apiVersion"] = "batch/v1" if kind == "Job" else "apps/v1"
    del own["spec"]["template"]["spec"]["containers"]
    path = tmp_path / "cluster.json"
    path.write_bytes(
        msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [node("a"), own]})
    )

    simulation = run_simulation(
        read_workload([str(path)], skip_validation=True), SimulationOptions()
    )

    assert [own.node for own in simulation.results] == ["a"]


@pytest.mark.parametrize("value", ["apps/v1", "", "-5%", "5", "9" * 5000 + "%"])
@pytest.mark.parametrize(
    ("kind", "strategy"), [("Deployment", "strategy"), ("DaemonSet", "updateStrategy")]
)
def test_a_limit_of_a_rolling_update_that_is_no_percentage_is_refused_with_its_place(
    tmp_path: Path, kind: str, strategy: str, value: str
) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": value}}
    more: dict[str, Any] = {strategy: rolling}
    path = tmp_path / "cluster.json"
    path.write_bytes(msgspec.json.encode(workload(kind, "web", **more)))

    with pytest.raises(ConfigError) as caught:
        read_workload([str(path)], skip_validation=True)

    assert caught.value.file == str(path)
    assert caught.value.path == f"spec.{strategy}.rollingUpdate.maxUnavailable"
    assert caught.value.value == value
