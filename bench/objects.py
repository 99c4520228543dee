"""Objects as a real cluster has them, in JSON: with all that kubelets and controllers write.

A pod is 3.5 kB of text: a replica of one of 400 Deployments, running on one of 5 000 nodes.
"""

from __future__ import annotations

import json
from typing import Any, Final

DEPLOYMENTS: Final = 400
NODES: Final = 5_000
CONTAINERS: Final = ("web", "proxy")
CONDITIONS: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def running_pod(number: int, *, nodes: int = NODES) -> bytes:
    """Pod ``number`` as kube-apiserver sends it, on node ``number % nodes``."""
    deployment = number % DEPLOYMENTS
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(number, deployment),
        "spec": _spec(number, deployment, nodes),
        "status": _status(number),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _metadata(number: int, deployment: int) -> dict[str, Any]:
    replica_set = f"web-{deployment}-7d4b9c8f6d"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": replica_set,
        "uid": f"1b0b7c2e-5d1f-4f0a-9c37-{deployment:012x}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": f"{replica_set}-{number:05x}",
        "generateName": f"{replica_set}-",
        "namespace": f"team-{deployment % 20}",
        "uid": f"0b0b7c2e-5d1f-4f0a-9c37-{number:012x}",
        "resourceVersion": str(1_000_000 + number),
        "generation": 1,
        "creationTimestamp": "2026-11-20T10:11:12Z",
        "labels": {
            "app": f"web-{deployment}",
            "pod-template-hash": "7d4b9c8f6d",
            "tier": "frontend",
        },
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        "ownerReferences": [owner],
    }


def _spec(number: int, deployment: int, nodes: int) -> dict[str, Any]:
    token = f"kube-api-access-{number:05x}"
    mounts = [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io"}]
    containers = [
        {
            "name": name,
            "image": f"images.example/{name}-{deployment}:1.2.3",
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": _resources(),
            "volumeMounts": mounts,
            "terminationMessagePath": "/dev/termination-log",
            "imagePullPolicy": "IfNotPresent",
        }
        for name in CONTAINERS
    ]
    source = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    tolerations = [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for condition in ("not-ready", "unreachable")
    ]
    return {
        "volumes": [{"name": token, "projected": {"sources": [source], "defaultMode": 420}}],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeName": node_name(number % nodes),
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status(number: int) -> dict[str, Any]:
    ready_at = f"2026-11-20T10:{number // 60 % 60:02}:{number % 60:02}Z"
    statuses = [
        {
            "name": name,
            "state": {"running": {"startedAt": ready_at}},
            "ready": True,
            "restartCount": 0,
            "image": f"images.example/{name}:1.2.3",
            "containerID": f"containerd://{number:064x}",
            "started": True,
            "allocatedResources": _resources()["requests"],
            "resources": _resources(),
        }
        for name in CONTAINERS
    ]
    conditions = [
        {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": ready_at}
        for name in CONDITIONS
    ]
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": f"10.{number // 65_536}.{number // 256 % 256}.{number % 256}",
        "startTime": ready_at,
        "containerStatuses": statuses,
        "qosClass": "Burstable",
    }


def _resources() -> dict[str, dict[str, str]]:
    return {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}}


def node_name(number: int) -> str:
    """The name of node ``number``."""
    return f"node-{number:05}"
