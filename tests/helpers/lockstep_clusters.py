"""Random small clusters as manifests: nodes, taints, running and pending pods, workloads, claims.

Nodes and pods have numbers in their names, so that the order of the files is the order of a list.
"""

from __future__ import annotations

from typing import Any

from mooring.clock import Rng, seeded_random
from tests.helpers.lockstep import Deletion, Event, Scaling

Manifest = dict[str, Any]

SCALED = ("Deployment", "ReplicaSet", "StatefulSet")
ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Exists"}
#: Name -> value; pods refer to them by name.
PRIORITIES = {"low": 0, "middle": 5, "high": 10, "highest": 20}


def random_cluster(seed: int) -> list[Manifest]:
    """Returns the manifests of a cluster."""
    rng = seeded_random(seed)
    objects: list[Manifest] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]
    objects.append(_storage_class())
    for number in range(rng.randrange(2, 6)):
        objects += _node(rng, f"n{number}", first=len(objects))
    for number in range(rng.randrange(1, 7)):
        objects += _pending(rng, f"p{number}")
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        objects.append(_workload(rng, f"w{number}"))
    workloads = [item["metadata"]["name"] for item in objects if item["kind"] in SCALED]
    if rng.random() < 0.5:
        objects.append(_budget(rng, "budget", rng.choice("ab")))
    if workloads and rng.random() < 0.5:
        objects.append(_budget(rng, "workload-budget", rng.choice(workloads)))
    return objects


def _budget(rng: Rng, name: str, app: str) -> Manifest:
    """Returns a disruption budget, which preemption avoids to violate.

    Its status is old, as in a dump: the disruption controller calculates it again.
    """
    field = rng.choice(("minAvailable", "minAvailable", "maxUnavailable"))
    amount = rng.choice((0, 1, 2, "30%", "60%"))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, field: amount},
        "status": {
            "disruptionsAllowed": rng.randrange(3),
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
        },
    }


def random_events(objects: list[Manifest], seed: int) -> list[Event]:
    """Returns deletions of pods, and scalings of workloads up or to zero.

    Which of several equal pods another scaling deletes depends on their UIDs, which are random, as
    in kube-controller-manager.
    """
    rng = seeded_random(seed + 1_000_000)
    pods = [item["metadata"]["name"] for item in objects if item["kind"] == "Pod"]
    scaled = [item for item in objects if item["kind"] in SCALED]
    events: list[Event] = []
    for number in range(rng.choice((0, 1, 2, 3))):
        at_s = rng.choice((2, 7, 13, 37)) + number + rng.choice((0.0, 0.3, 0.75))
        if scaled and rng.random() < 0.6:
            item = rng.choice(scaled)
            name = item["metadata"]["name"]
            replicas = rng.choice((0, 6))
            events.append(Scaling(at_s, item["kind"], name, replicas))
        elif pods:
            events.append(Deletion(at_s, rng.choice(pods)))
    return events


def _storage_class() -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _node(rng: Rng, name: str, *, first: int) -> list[Manifest]:
    """Returns a node and the pods that run on it."""
    free = rng.choice((2, 4, 6))
    labels = {"kubernetes.io/hostname": name}
    if rng.random() < 0.6:
        labels[ZONE] = rng.choice(("z1", "z2"))
    amounts = {"cpu": str(free), "memory": "16Gi", "pods": "110"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [TAINT]} if rng.random() < 0.25 else {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    pods: list[Manifest] = []
    while free > 0 and rng.random() < 0.8:
        cpu = rng.randrange(1, min(3, free) + 1)
        free -= cpu
        second = first + len(pods)
        pod = _pod(rng, f"r{second:02}", cpu, rng.choice(("low", "low", "middle")))
        pod["spec"] |= {"nodeName": name}
        pod["status"] = {
            "phase": "Running",
            "startTime": f"2025-12-01T00:00:{second:02}Z",
            "conditions": [{"type": "Ready", "status": rng.choice(("True", "True", "False"))}],
        }
        pods.append(pod)
    return [node, *pods]


def _pending(rng: Rng, name: str) -> list[Manifest]:
    """Returns a pending pod, and the claim that it uses, if any."""
    pod = _pod(rng, name, rng.randrange(1, 4), rng.choice(list(PRIORITIES)))
    if rng.random() >= 0.15:
        return [pod]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{name}", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    source = {"persistentVolumeClaim": {"claimName": f"data-{name}"}}
    pod["spec"]["volumes"] = [{"name": "data", **source}]
    return [claim, pod]


def _pod(rng: Rng, name: str, cpu: int, priority: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": rng.choice("ab")}},
        "spec": _pod_spec(rng, cpu, priority),
    }


def _pod_spec(rng: Rng, cpu: int, priority: str) -> Manifest:
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": str(cpu)}}}
    spec: Manifest = {
        "containers": [container],
        "priorityClassName": priority,
        "terminationGracePeriodSeconds": rng.choice((0, 1, 5, 30)),
    }
    if rng.random() < 0.3:
        spec["tolerations"] = [TOLERATION]
    if rng.random() < 0.15:
        term = {
            "topologyKey": rng.choice((ZONE, "kubernetes.io/hostname")),
            "labelSelector": {"matchLabels": {"app": rng.choice("ab")}},
        }
        affinity = rng.choice(("podAffinity", "podAntiAffinity"))
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {affinity: required}
    if rng.random() < 0.2:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": rng.choice((ZONE, "kubernetes.io/hostname")),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    return spec


def _workload(rng: Rng, name: str) -> Manifest:
    kind = rng.choice(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"))
    labels = {"app": name}
    spec = _pod_spec(rng, rng.randrange(1, 3), rng.choice(("low", "middle", "high")))
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = rng.randrange(1, 5)
    metadata = {"name": name, "namespace": "default"}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        job = {"parallelism": replicas, "completions": replicas, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": job}
    body: Manifest = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = name
        body["podManagementPolicy"] = rng.choice(("OrderedReady", "Parallel"))
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}
