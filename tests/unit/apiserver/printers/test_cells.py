"""The cells of the tables of all kinds but pods, nodes and events.

Expectations are upstream's: printers_test.go of v1.36.3.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.apiserver.printers.tables import CELLS

NOW_S = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
CREATED = "2026-01-07T00:00:00Z"  # three days ago
TEMPLATE = {
    "spec": {"containers": [{"name": "a", "image": "i1"}, {"name": "b", "image": "i2"}]},
}


def cells(kind: str, **parts: Any) -> list[Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **parts.pop("metadata", {})}
    return CELLS[kind]({"metadata": metadata, **parts}, NOW_S)


IN_PORTS = [
    {"port": 80, "protocol": "TCP"},
    {"port": 53, "protocol": "UDP", "nodePort": 30053},
]


@pytest.mark.parametrize(
    ("kind", "parts", "expected"),
    [
        ("Namespace", {"status": {"phase": "Active"}}, ["x", "Active", "3d"]),
        ("ServiceAccount", {}, ["x", "3d"]),
        ("ComponentStatus", {}, ["x", "Unknown", "", ""]),
        (
            "ComponentStatus",
            {"conditions": [{"type": "Healthy", "status": "False", "error": "e"}]},
            ["x", "Unhealthy", "", "e"],
        ),
        (
            "ComponentStatus",
            {
                "conditions": [
                    {"type": "Other"},
                    {"type": "Healthy", "status": "True", "message": "ok"},
                ]
            },
            ["x", "Healthy", "ok", ""],
        ),
        ("ConfigMap", {"data": {"a": ""}, "binaryData": {"b": "", "c": ""}}, ["x", 3, "3d"]),
        ("Secret", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "3d"]),
        (
            "Service",
            {"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.9"], "ports": IN_PORTS}},
            ["x", "ClusterIP", "10.0.0.9", "<none>", "80/TCP,53:30053/UDP", "3d", "<none>"],
        ),
        (
            "Service",
            {"spec": {"type": "LoadBalancer", "selector": {"a": "b"}}},
            ["x", "LoadBalancer", "<none>", "<pending>", "<none>", "3d", "a=b"],
        ),
        (
            "Service",
            {
                "spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
                "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "b.c"}]}},
            },
            ["x", "LoadBalancer", "<none>", "2.2.2.2,b.c,9.9.9.9", "<none>", "3d", "<none>"],
        ),
        (
            "Service",
            {"spec": {"type": "ExternalName", "externalName": "my.name"}},
            ["x", "ExternalName", "<none>", "my.name", "<none>", "3d", "<none>"],
        ),
        ("Endpoints", {}, ["x", "<none>", "3d"]),
        (
            "Endpoints",
            {
                "subsets": [
                    {
                        "addresses": [{"ip": "1.2.3.4"}, {"ip": "fd00::1"}],
                        "ports": [{"port": 80}, {"port": 81}],
                    }
                ]
            },
            ["x", "1.2.3.4:80,[fd00::1]:80,1.2.3.4:81 + 1 more...", "3d"],
        ),
        ("Endpoints", {"subsets": [{"addresses": [{"ip": "1.2.3.4"}]}]}, ["x", "1.2.3.4", "3d"]),
        (
            "EndpointSlice",
            {
                "addressType": "IPv4",
                "ports": [{"name": "http", "port": 80}, {"name": "any"}, {}],
                "endpoints": [{"addresses": ["10.1.1.1", "10.1.1.2"]}],
            },
            ["x", "IPv4", "80,any,*", "10.1.1.1,10.1.1.2", "3d"],
        ),
        ("EndpointSlice", {"addressType": "IPv6"}, ["x", "IPv6", "<unset>", "<unset>", "3d"]),
        (
            "ReplicationController",
            {
                "spec": {"replicas": 5, "template": TEMPLATE, "selector": {"a": "b"}},
                "status": {"replicas": 3, "readyReplicas": 1},
            },
            ["x", 5, 3, 1, "3d", "a,b", "i1,i2", "a=b"],
        ),
        (
            "PersistentVolume",
            {
                "spec": {
                    "capacity": {"storage": "4Gi"},
                    "accessModes": ["ReadWriteOncePod", "ReadOnlyMany", "ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "shop", "name": "data"},
                    "storageClassName": "fast",
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Bound"},
            },
            [
                "x",
                "4Gi",
                "RWO,ROX,RWOP",
                "Retain",
                "Bound",
                "shop/data",
                "fast",
                "<unset>",
                "",
                "3d",
                "Filesystem",
            ],
        ),
        (
            "PersistentVolume",
            {"metadata": {"deletionTimestamp": CREATED}, "spec": {}},
            ["x", "0", "", "", "Terminating", "", "", "<unset>", "", "3d", "<unset>"],
        ),
        (
            "PersistentVolumeClaim",
            {
                "spec": {"volumeName": "pv-1", "volumeMode": "Block"},
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "4Gi"},
                    "accessModes": ["ReadWriteMany"],
                },
                "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            },
            ["x", "Bound", "pv-1", "4Gi", "RWX", "old", "<unset>", "3d", "Block"],
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}},
            ["x", "Pending", "", "", "", "", "<unset>", "3d", "<unset>"],
        ),
        (
            "Deployment",
            {
                "spec": {
                    "replicas": 5,
                    "template": TEMPLATE,
                    "selector": {"matchLabels": {"a": "b"}},
                },
                "status": {"updatedReplicas": 2, "availableReplicas": 1, "readyReplicas": 4},
            },
            ["x", "4/5", 2, 1, "3d", "a,b", "i1,i2", "a=b"],
        ),
        ("ReplicaSet", {"spec": {"replicas": 5}}, ["x", 5, 0, 0, "3d", "", "", "<none>"]),
        (
            "StatefulSet",
            {"spec": {"replicas": 5, "template": TEMPLATE}, "status": {"readyReplicas": 2}},
            ["x", "2/5", "3d", "a,b", "i1,i2"],
        ),
        (
            "DaemonSet",
            {
                "spec": {"template": TEMPLATE},
                "status": {
                    "currentNumberScheduled": 2,
                    "desiredNumberScheduled": 3,
                    "numberReady": 1,
                    "updatedNumberScheduled": 2,
                    "numberAvailable": 0,
                },
            },
            ["x", 3, 2, 1, 2, 0, "<none>", "3d", "a,b", "i1,i2", "<none>"],
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 22}, "status": {"disruptionsAllowed": 5}},
            ["x", "22", "N/A", 5, "3d"],
        ),
        ("PodDisruptionBudget", {"spec": {"maxUnavailable": "11%"}}, ["x", "N/A", "11%", 0, "3d"]),
        (
            "PriorityClass",
            {"value": 100, "globalDefault": True, "preemptionPolicy": "Never"},
            ["x", 100, True, "3d", "Never"],
        ),
        ("Lease", {"spec": {"holderIdentity": "h"}}, ["x", "h", "3d"]),
        ("Lease", {}, ["x", "", "3d"]),
        (
            "CertificateSigningRequest",
            {"spec": {"username": "u", "expirationSeconds": 7200}, "status": {}},
            ["x", "3d", "<none>", "u", "120m", "Pending"],
        ),
        (
            "CertificateSigningRequest",
            {
                "spec": {"signerName": "s"},
                "status": {
                    "conditions": [{"type": "Approved"}, {"type": "Failed"}],
                    "certificate": "AA==",
                },
            },
            ["x", "3d", "s", "", "<none>", "Approved,Failed,Issued"],
        ),
        (
            "CertificateSigningRequest",
            {"status": {"conditions": [{"type": "Approved"}, {"type": "Denied"}]}},
            ["x", "3d", "<none>", "", "<none>", "Denied"],
        ),
        (
            "StorageClass",
            {
                "metadata": {
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}
                },
                "provisioner": "p",
            },
            ["x (default)", "p", "Delete", "Immediate", False, "3d"],
        ),
        (
            "StorageClass",
            {
                "provisioner": "p",
                "reclaimPolicy": "Retain",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": True,
            },
            ["x", "p", "Retain", "WaitForFirstConsumer", True, "3d"],
        ),
        ("CSINode", {"spec": {"drivers": [{}, {}]}}, ["x", 2, "3d"]),
        ("CSIDriver", {"spec": {}}, ["x", True, False, False, "<unset>", False, "<none>", "3d"]),
        (
            "CSIDriver",
            {
                "spec": {
                    "attachRequired": False,
                    "podInfoOnMount": True,
                    "storageCapacity": True,
                    "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                    "requiresRepublish": True,
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                }
            },
            ["x", False, True, True, "a,b", True, "Persistent,Ephemeral", "3d"],
        ),
        ("CSIStorageCapacity", {"storageClassName": "fast"}, ["x", CREATED]),
        (
            "VolumeAttachment",
            {
                "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
                "status": {"attached": True},
            },
            ["x", "a", "v", "n", True, "3d"],
        ),
        ("ResourceClaim", {}, ["x", "pending", "3d"]),
        ("ResourceClaim", {"status": {"allocation": {}}}, ["x", "allocated", "3d"]),
        (
            "ResourceClaim",
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            ["x", "allocated,reserved", "3d"],
        ),
        (
            "ResourceClaim",
            {"metadata": {"deletionTimestamp": CREATED}, "status": {"allocation": {}}},
            ["x", "deleted,allocated", "3d"],
        ),
        ("ResourceClaim", {"metadata": {"deletionTimestamp": CREATED}}, ["x", "deleted", "3d"]),
        (
            "ResourceSlice",
            {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
            ["x", "n", "d", "p", "3d"],
        ),
        ("DeviceClass", {}, ["x", "3d"]),
        ("ResourceClaimTemplate", {}, ["x", "3d"]),
    ],
)
def test_the_cells_are_upstreams(kind: str, parts: dict[str, Any], expected: list[Any]) -> None:
    assert cells(kind, **parts) == expected


def job(*conditions: str, metadata: Any = None, spec: Any = None, **status: Any) -> list[Any]:
    held = [{"type": one, "status": "True"} for one in conditions]
    return cells(
        "Job", metadata=metadata or {}, spec=spec or {}, status={"conditions": held, **status}
    )[1:4]


def test_a_job_tells_how_far_it_is() -> None:
    started = "2026-01-09T23:00:00Z"
    ended = "2026-01-09T23:30:00Z"

    assert job(spec={"completions": 2}, succeeded=1) == ["Running", "1/2", ""]
    assert job(spec={"parallelism": 3}) == ["Running", "0/1 of 3", ""]
    assert job(spec={"parallelism": 1}, startTime=started) == ["Running", "0/1", "60m"]
    assert job("Complete", startTime=started, completionTime=ended)[0::2] == ["Complete", "30m"]
    assert job("Failed")[0] == "Failed"
    assert job("Suspended")[0] == "Suspended"
    assert job("FailureTarget")[0] == "FailureTarget"
    assert job("SuccessCriteriaMet")[0] == "SuccessCriteriaMet"
    assert job("Suspended", metadata={"deletionTimestamp": CREATED})[0] == "Terminating"
