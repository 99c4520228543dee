"""Workloads of an in-memory cluster: rolled out, scaled, rolled back and deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.clock import seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import Seed, seeds_of_objects
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually

APPS = "/apis/apps/v1/namespaces/default"
REVISION = "deployment.kubernetes.io/revision"
STRATEGIC = "application/strategic-merge-patch+json"


def workload(kind: str, name: str, *, image: str = "web:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


class Controlled:
    """A cluster with controllers, and requests to it."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, manifest: dict[str, Any]) -> None:
        root = APPS.replace("apps", "batch") if manifest["kind"] == "Job" else APPS
        path = f"{root}/{manifest['kind'].lower()}s"
        await self.client.write("POST", path, json.dumps(manifest).encode())

    async def patch(self, path: str, patch: dict[str, Any]) -> None:
        body = json.dumps(patch).encode()
        await self.client.write("PATCH", f"{APPS}/{path}", body, content_type=STRATEGIC)

    async def delete(self, path: str) -> None:
        await self.client.write("DELETE", f"{APPS}/{path}", b"{}")

    async def get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.client.write("GET", f"{APPS}/{path}", b""))
        return found

    async def pods(self) -> list[Any]:
        return list((await self.client.list("Pod")).items)

    async def running(self) -> list[str]:
        return [
            pod.metadata.name
            for pod in await self.pods()
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        ]

    async def sizes(self) -> dict[str, int]:
        """Returns the sizes of all ReplicaSets, by revision."""
        sets = (await self.get("replicasets"))["items"]
        return {
            each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"] for each in sets
        }


@asynccontextmanager
async def controlled(*seeds: dict[str, Any], nodes: int = 2) -> AsyncIterator[Controlled]:
    cluster = InMemoryCluster(
        clock=LoopClock(asyncio.get_running_loop()),
        rng=seeded_random(0),
        with_kubelets=True,
        with_controllers=True,
    )
    machines = seeds_of_objects([make_node(f"n{number}") for number in range(nodes)])
    pending = await cluster.seed([*machines, *map(Seed, seeds)])
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        await cluster.service.wait_until_synced()
        await cluster.submit(pending)
        yield Controlled(cluster)
        cluster.service.stop()
        await running


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def image(name: str) -> dict[str, Any]:
    containers = [{"name": "web", "image": name}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


@virtually
async def test_a_deployment_gets_its_pods_and_its_rollout_ends() -> None:
    async with controlled() as found:
        await found.create(workload("Deployment", "web", replicas=3))
        await asyncio.sleep(5)
        (replica_set,) = (await found.get("replicasets"))["items"]
        web = await found.get("deployments/web")
        pods = await found.pods()
        digest = replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{digest}"
        assert {pod.metadata.labels["pod-template-hash"] for pod in pods} == {digest}
        assert all(pod.metadata.name.startswith(f"web-{digest}-") for pod in pods)
        owners = {pod.metadata.owner_references[0].uid for pod in pods}
        assert owners == {replica_set["metadata"]["uid"]}
        assert len(await found.running()) == 3
        assert web["status"]["observedGeneration"] == web["metadata"]["generation"] == 1
        assert web["status"]["updatedReplicas"] == web["status"]["availableReplicas"] == 3
        assert web["metadata"]["annotations"][REVISION] == "1"
        assert conditions(web["status"]) == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }


@virtually
async def test_a_rolling_update_keeps_its_limits_and_undo_takes_the_old_set_again() -> None:
    async with controlled() as found:
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await found.create(workload("Deployment", "web", replicas=4, strategy=strategy))
        await asyncio.sleep(5)
        await found.patch("deployments/web", image("web:2"))
        counts = []
        for _ in range(200):
            pods = await found.pods()
            counts.append(
                (
                    sum(pod.metadata.deletion_timestamp is None for pod in pods),
                    len(await found.running()),
                )
            )
            await asyncio.sleep(0.05)
        assert max(total for total, _ in counts) == 5
        assert min(running for _, running in counts) == 3
        assert await found.sizes() == {"1": 0, "2": 4}
        await found.patch("deployments/web", image("web:1"))
        await asyncio.sleep(60)
        assert await found.sizes() == {"2": 0, "3": 4}
        sets = (await found.get("replicasets"))["items"]
        history = "deployment.kubernetes.io/revision-history"
        assert [each["metadata"]["annotations"].get(history) for each in sets].count("1") == 1


@virtually
async def test_recreate_ends_all_old_pods_before_it_starts_new_ones() -> None:
    async with controlled() as found:
        strategy = {"type": "Recreate"}
        await found.create(workload("Deployment", "web", replicas=2, strategy=strategy))
        await asyncio.sleep(5)
        old = set(await found.running())
        await found.patch("deployments/web", image("web:2"))
        seen = set()
        for _ in range(100):
            names = frozenset(pod.metadata.name for pod in await found.pods())
            seen.add((bool(names & old), bool(names - old)))
            await asyncio.sleep(0.5)
        assert {(True, False), (False, True)} <= seen
        assert (True, True) not in seen
        assert len(await found.running()) == 2


@virtually
async def test_scaling_creates_and_deletes_pods() -> None:
    async with controlled() as found:
        await found.create(workload("Deployment", "web", replicas=2))
        await asyncio.sleep(5)
        first = set(await found.running())
        await found.patch("deployments/web/scale", {"spec": {"replicas": 5}})
        await asyncio.sleep(5)
        assert first < set(await found.running())
        assert len(await found.running()) == 5
        await found.patch("deployments/web/scale", {"spec": {"replicas": 1}})
        await asyncio.sleep(40)
        assert len(await found.running()) == len(await found.pods()) == 1


@virtually
async def test_pods_go_with_their_deployment() -> None:
    async with controlled() as found:
        await found.create(workload("Deployment", "web", replicas=3))
        await asyncio.sleep(5)
        await found.delete("deployments/web")
        await asyncio.sleep(40)
        assert await found.pods() == []
        assert (await found.get("replicasets"))["items"] == []


@virtually
async def test_a_deleted_pod_is_created_again() -> None:
    async with controlled() as found:
        await found.create(workload("ReplicaSet", "web", replicas=2))
        await asyncio.sleep(5)
        gone = (await found.running())[0]
        await found.client.delete("Pod", gone, "default")
        await asyncio.sleep(5)
        names = await found.running()
        assert len(names) == 2
        assert gone not in names


@virtually
async def test_old_revisions_are_deleted_beyond_the_limit() -> None:
    async with controlled() as found:
        await found.create(workload("Deployment", "web", replicas=1, revisionHistoryLimit=1))
        for number in range(2, 5):
            await asyncio.sleep(40)
            await found.patch("deployments/web", image(f"web:{number}"))
        await asyncio.sleep(40)
        assert await found.sizes() == {"3": 0, "4": 1}


@virtually
async def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    async with controlled() as found:
        await found.create(workload("Deployment", "web", replicas=2))
        await asyncio.sleep(5)
        await found.patch("deployments/web", {"spec": {"paused": True, "replicas": 3}})
        await found.patch("deployments/web", image("web:2"))
        await asyncio.sleep(40)
        web = await found.get("deployments/web")
        assert conditions(web["status"])["Progressing"] == ("Unknown", "DeploymentPaused")
        assert await found.sizes() == {"1": 3}
        await found.patch("deployments/web", {"spec": {"paused": False}})
        await asyncio.sleep(40)
        assert await found.sizes() == {"1": 0, "2": 3}


@virtually
async def test_a_rollout_that_does_not_fit_times_out() -> None:
    async with controlled(nodes=0) as found:
        await found.create(workload("Deployment", "web", replicas=1, progressDeadlineSeconds=20))
        await asyncio.sleep(60)
        web = await found.get("deployments/web")
        assert conditions(web["status"]) == {
            "Available": ("False", "MinimumReplicasUnavailable"),
            "Progressing": ("False", "ProgressDeadlineExceeded"),
        }


@virtually
async def test_a_refused_pod_is_a_condition_and_is_tried_again() -> None:
    async with controlled() as found:
        manifest = workload("Deployment", "web", replicas=1)
        manifest["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
        await found.create(manifest)
        await asyncio.sleep(5)
        web = await found.get("deployments/web")
        assert conditions(web["status"])["ReplicaFailure"] == ("True", "FailedCreate")
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 10,
        }
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await found.client.write("POST", path, json.dumps(urgent).encode())
        await asyncio.sleep(30)
        web = await found.get("deployments/web")
        assert "ReplicaFailure" not in conditions(web["status"])
        assert len(await found.running()) == 1


@virtually
async def test_a_pod_with_the_labels_of_a_replica_set_is_adopted_and_one_without_is_released() -> (
    None
):
    async with controlled() as found:
        pod = workload("ReplicaSet", "web")["spec"]["template"]
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"]["name"] = "mine"
        path = "/api/v1/namespaces/default/pods"
        await found.client.write("POST", path, json.dumps(pod).encode())
        await found.create(workload("ReplicaSet", "web", replicas=2))
        await asyncio.sleep(5)
        assert len(await found.running()) == 2
        assert "mine" in await found.running()
        patch = json.dumps({"metadata": {"labels": {"app": "other"}}}).encode()
        await found.client.write("PATCH", f"{path}/mine", patch, content_type=STRATEGIC)
        await asyncio.sleep(5)
        assert len(await found.running()) == 3
        mine = await found.client.get("Pod", "mine", "default")
        assert mine.metadata.owner_references == ()


# ---- StatefulSets, DaemonSets and Jobs ----


def claim_template(name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


@virtually
async def test_a_stateful_set_starts_one_pod_after_the_other() -> None:
    async with controlled() as found:
        await found.create(workload("StatefulSet", "db", replicas=3, serviceName="db"))
        steps: list[list[tuple[str, str]]] = []
        for _ in range(100):
            now = [(p.metadata.name, p.status.phase) for p in await found.pods()]
            if not steps or steps[-1] != now:
                steps.append(now)
            await asyncio.sleep(0.05)
        names = [[name for name, _ in step] for step in steps]
        assert names[-1] == ["db-0", "db-1", "db-2"]
        for step in steps:
            # Every pod but the last one runs.
            assert {phase for _, phase in step[:-1]} <= {"Running"}
        db = (await found.get("statefulsets/db"))["status"]
        assert db["currentRevision"] == db["updateRevision"]
        assert db["readyReplicas"] == db["updatedReplicas"] == db["currentReplicas"] == 3


@virtually
async def test_pods_below_the_partition_keep_the_old_template() -> None:
    async with controlled() as found:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        manifest = workload("StatefulSet", "db", replicas=3, updateStrategy=strategy)
        await found.create(manifest)
        await asyncio.sleep(5)
        template = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
        await found.patch("statefulsets/db", {"spec": {"template": template}})
        await asyncio.sleep(60)
        assert await images(found) == {"db-0": "web:1", "db-1": "web:1", "db-2": "web:2"}

        for name in ("db-0", "db-2"):
            await found.client.delete("Pod", name, "default")
        await asyncio.sleep(60)
        assert await images(found) == {"db-0": "web:1", "db-1": "web:1", "db-2": "web:2"}
        status = (await found.get("statefulsets/db"))["status"]
        assert status["currentRevision"] != status["updateRevision"]
        assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)

        everything = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        await found.patch("statefulsets/db", {"spec": {"updateStrategy": everything}})
        await asyncio.sleep(120)
        assert set((await images(found)).values()) == {"web:2"}
        status = (await found.get("statefulsets/db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]


async def images(found: Controlled) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.containers[0].image for pod in await found.pods()}


@virtually
async def test_a_parallel_stateful_set_with_claims_is_updated_from_the_end() -> None:
    async with controlled() as found:
        manifest = workload(
            "StatefulSet",
            "db",
            replicas=2,
            serviceName="db",
            podManagementPolicy="Parallel",
        )
        await found.create(manifest)
        await asyncio.sleep(3)
        before = {pod.metadata.name: pod.metadata.uid for pod in await found.pods()}
        assert set(before) == {"db-0", "db-1"}
        await found.patch("statefulsets/db", image("web:2"))
        await asyncio.sleep(32)
        after = {pod.metadata.name: pod.metadata.uid for pod in await found.pods()}
        assert after["db-0"] == before["db-0"]
        assert after["db-1"] != before["db-1"]
        await asyncio.sleep(60)
        status = (await found.get("statefulsets/db"))["status"]
        assert status["updatedReplicas"] == status["readyReplicas"] == 2
        await found.patch("statefulsets/db", {"spec": {"replicas": 1}})
        await asyncio.sleep(40)
        assert await found.running() == ["db-0"]


@virtually
async def test_each_pod_of_a_stateful_set_has_its_claims() -> None:
    async with controlled() as found:
        templates = [claim_template("data")]
        manifest = workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=templates)
        await found.create(manifest)
        await asyncio.sleep(3)
        (pod,) = await found.pods()
        (claim,) = (await found.client.list("PersistentVolumeClaim")).items
        assert claim.metadata.name == "data-db-0"
        assert claim.metadata.labels == {"app": "db"}
        assert pod.spec.volumes[0].persistent_volume_claim.claim_name == "data-db-0"
        assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "0"


@virtually
async def test_a_daemon_set_has_a_pod_on_each_eligible_node() -> None:
    async with controlled(nodes=3) as found:
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        await found.client.patch("Node", "n1", {"spec": {"taints": [taint]}})
        await found.client.patch("Node", "n2", {"spec": {"unschedulable": True}})
        await found.create(workload("DaemonSet", "agent"))
        await asyncio.sleep(5)
        pods = await found.pods()
        assert sorted(pod.spec.node_name for pod in pods) == ["n0", "n2"]
        assert len(await found.running()) == 2
        await found.client.patch("Node", "n1", {"spec": {"taints": None}})
        await asyncio.sleep(5)
        assert len(await found.running()) == 3
        status = (await found.get("daemonsets/agent"))["status"]
        assert status["desiredNumberScheduled"] == status["numberAvailable"] == 3
        await found.patch("daemonsets/agent", image("web:2"))
        await asyncio.sleep(150)
        status = (await found.get("daemonsets/agent"))["status"]
        assert status["updatedNumberScheduled"] == status["numberAvailable"] == 3
        await found.client.delete("Node", "n0")
        await asyncio.sleep(40)
        assert (await found.get("daemonsets/agent"))["status"]["desiredNumberScheduled"] == 2


def job(name: str, **spec: Any) -> dict[str, Any]:
    manifest = workload("Job", name)
    template = manifest["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    manifest["spec"] = {"template": template, **spec}
    return {**manifest, "apiVersion": "batch/v1"}


async def finish(found: Controlled, name: str, phase: str) -> None:
    pod = await found.client.get("Pod", name, "default")
    await found.client.patch_pod_status(pod, {"phase": phase})


@virtually
async def test_an_indexed_job_ends_when_every_index_has_succeeded() -> None:
    async with controlled() as found:
        await found.create(job("sum", parallelism=2, completions=3, completionMode="Indexed"))
        await asyncio.sleep(3)
        index = "batch.kubernetes.io/job-completion-index"
        pods = await found.pods()
        assert sorted(pod.metadata.labels[index] for pod in pods) == ["0", "1"]
        assert {pod.metadata.labels["job-name"] for pod in pods} == {"sum"}
        for _ in range(3):
            await finish(found, (await found.running())[0], "Succeeded")
            await asyncio.sleep(3)
        raw = await found.client.write("GET", "/apis/batch/v1/namespaces/default/jobs/sum", b"")
        status = json.loads(raw)["status"]
        assert status["succeeded"] == 3
        assert status["completedIndexes"] == "0-2"
        assert conditions(status)["Complete"] == ("True", "CompletionsReached")


@virtually
async def test_a_job_fails_beyond_its_backoff_limit() -> None:
    async with controlled() as found:
        await found.create(job("sum", parallelism=1, completions=1, backoffLimit=1))
        for _ in range(2):
            await asyncio.sleep(13)  # a failed pod is replaced after ten seconds
            await finish(found, (await found.running())[0], "Failed")
        await asyncio.sleep(3)
        raw = await found.client.write("GET", "/apis/batch/v1/namespaces/default/jobs/sum", b"")
        status = json.loads(raw)["status"]
        assert status["failed"] == 2
        assert conditions(status)["Failed"] == ("True", "BackoffLimitExceeded")
        assert await found.running() == []


@virtually
async def test_the_pods_of_a_dump_belong_to_their_new_owners() -> None:
    uid = "11111111-1111-4111-8111-111111111111"
    labels = {"batch.kubernetes.io/controller-uid": uid, "job-name": "sum"}
    manifest = job("sum", selector={"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    manifest["metadata"]["uid"] = uid
    manifest["spec"]["template"]["metadata"]["labels"] = labels
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": uid, "controller": True}
    metadata = {
        "name": "sum-x",
        "namespace": "default",
        "labels": labels,
        "ownerReferences": [owner],
    }
    spec = {**manifest["spec"]["template"]["spec"], "nodeName": "n0"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    async with controlled(pod, manifest) as found:
        await asyncio.sleep(5)
        (present,) = await found.pods()
        assert present.metadata.name == "sum-x"
        assert present.metadata.owner_references[0].uid != uid


@virtually
async def test_a_replication_controller_has_its_pods() -> None:
    core = "/api/v1/namespaces/default"
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    manifest = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": labels, "template": template},
    }
    async with controlled() as found:
        orphan = {"metadata": {"name": "orphan", "labels": labels}, "spec": template["spec"]}
        await found.client.write("POST", f"{core}/pods", json.dumps(orphan).encode())
        path = f"{core}/replicationcontrollers"
        await found.client.write("POST", path, json.dumps(manifest).encode())
        await asyncio.sleep(5)
        running = await found.running()
        assert len(running) == 3
        assert "orphan" in running
        assert all(pod.metadata.owner_references for pod in await found.pods())
        stored = json.loads(await found.client.write("GET", f"{path}/web", b""))
        assert stored["status"] == {
            "replicas": 3,
            "fullyLabeledReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "observedGeneration": 1,
        }

        scale = {"spec": {"replicas": 1}}
        body = json.dumps(scale).encode()
        await found.client.write(
            "PATCH", f"{path}/web/scale", body, content_type="application/merge-patch+json"
        )
        await asyncio.sleep(5)
        assert len(await found.running()) == 1

        options = json.dumps({"propagationPolicy": "Background"}).encode()
        await found.client.write("DELETE", f"{path}/web", options)
        await asyncio.sleep(40)
        assert await found.pods() == []
