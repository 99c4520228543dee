"""Every kind that is served: stored with defaults, listed, shown as a table, changed, deleted."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import TABLE, Api
from tests.integration.contract.objects import deployment
from tests.integration.contract.scenario import SCENARIOS, path
from tests.integration.contract.scenarios_lists import without_ages

_TEMPLATE = deployment("x")["spec"]["template"]
_SELECTOR = {"matchLabels": {"app": "x"}}
_JOB_TEMPLATE = {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}
_JOB_TEMPLATE_OF_CRON = {"spec": {"template": _JOB_TEMPLATE}}
_CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
_DEVICES = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}

_BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
_RULE = {
    "host": "shop.example.com",
    "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]},
}

#: (group and version, plural, kind, all but the metadata, whether it lives in a namespace).
KINDS: list[tuple[str, str, str, dict[str, Any], bool]] = [
    (
        "api/v1",
        "services",
        "Service",
        {"spec": {"selector": {"app": "x"}, "clusterIP": "None", "ports": [{"port": 80}]}},
        True,
    ),
    ("api/v1", "configmaps", "ConfigMap", {"data": {"a": "b"}}, True),
    ("api/v1", "secrets", "Secret", {"stringData": {"a": "b"}}, True),
    ("api/v1", "serviceaccounts", "ServiceAccount", {}, True),
    (
        "api/v1",
        "endpoints",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 80}]}]},
        True,
    ),
    (
        "api/v1",
        "replicationcontrollers",
        "ReplicationController",
        {"spec": {"selector": {"app": "x"}, "template": _TEMPLATE}},
        True,
    ),
    ("api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", {"spec": _CLAIM}, True),
    (
        "api/v1",
        "persistentvolumes",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/tmp"},
            }
        },
        False,
    ),
    (
        "apis/apps/v1",
        "deployments",
        "Deployment",
        {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
        True,
    ),
    (
        "apis/apps/v1",
        "replicasets",
        "ReplicaSet",
        {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
        True,
    ),
    (
        "apis/apps/v1",
        "statefulsets",
        "StatefulSet",
        {"spec": {"serviceName": "x", "selector": _SELECTOR, "template": _TEMPLATE}},
        True,
    ),
    (
        "apis/apps/v1",
        "daemonsets",
        "DaemonSet",
        {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
        True,
    ),
    (
        "apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": "50%", "selector": _SELECTOR}},
        True,
    ),
    ("apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", {"value": 7}, False),
    (
        "apis/storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        {"provisioner": "example.com/p"},
        False,
    ),
    (
        "apis/storage.k8s.io/v1",
        "csinodes",
        "CSINode",
        {
            "spec": {
                "drivers": [{"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 3}}]
            }
        },
        False,
    ),
    (
        "apis/storage.k8s.io/v1",
        "csidrivers",
        "CSIDriver",
        {"spec": {"storageCapacity": True}},
        False,
    ),
    (
        "apis/storage.k8s.io/v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        {"storageClassName": "fast", "capacity": "1Gi"},
        True,
    ),
    (
        "apis/storage.k8s.io/v1",
        "volumeattachments",
        "VolumeAttachment",
        {
            "spec": {
                "attacher": "d.example.com",
                "nodeName": "n",
                "source": {"persistentVolumeName": "pv"},
            }
        },
        False,
    ),
    (
        "apis/batch/v1",
        "cronjobs",
        "CronJob",
        {"spec": {"schedule": "*/5 0-6 * jan mon", "jobTemplate": _JOB_TEMPLATE_OF_CRON}},
        True,
    ),
    (
        "apis/networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        {"spec": {"rules": [_RULE], "tls": [{"hosts": ["shop.example.com"]}]}},
        True,
    ),
    (
        "apis/networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        {"spec": {"controller": "example.com/c", "parameters": {"kind": "P", "name": "p"}}},
        False,
    ),
    (
        "apis/networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {"matchLabels": {"app": "x"}},
                "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}],
                "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            }
        },
        True,
    ),
    (
        "apis/autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
                "maxReplicas": 3,
                "behavior": {"scaleUp": {"selectPolicy": "Min"}},
            }
        },
        True,
    ),
    (
        "api/v1",
        "limitranges",
        "LimitRange",
        {
            "spec": {
                "limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Ki"}}]
            }
        },
        True,
    ),
    (
        "apis/node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        {"handler": "fast", "overhead": {"podFixed": {"cpu": "10m"}}},
        False,
    ),
    ("apis/coordination.k8s.io/v1", "leases", "Lease", {"spec": {"holderIdentity": "me"}}, True),
    (
        "apis/resource.k8s.io/v1",
        "deviceclasses",
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}},
        False,
    ),
    (
        "apis/resource.k8s.io/v1",
        "resourceclaims",
        "ResourceClaim",
        {"spec": {"devices": _DEVICES}},
        True,
    ),
    (
        "apis/resource.k8s.io/v1",
        "resourceslices",
        "ResourceSlice",
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            }
        },
        False,
    ),
]


def _one_kind(
    group_version: str, plural: str, kind: str, content: dict[str, Any], namespaced: bool
) -> None:
    def run(api: Api, ns: str) -> None:
        name = f"{ns}-x"
        collection = path(group_version, ns if namespaced else "", plural)
        document = {
            "apiVersion": group_version.partition("/")[2],
            "kind": kind,
            "metadata": {"name": name, "labels": {"suite": ns}},
            **content,
        }
        made = api.post(collection, document)
        assert made.code == 201, made.message
        assert api.get(f"{collection}/{name}").body == made.body
        listed = api.get(collection, labelSelector=f"suite={ns}").body
        assert listed["kind"] == f"{kind}List"
        assert len(listed["items"]) == 1
        table = api.ask("GET", collection, accept=TABLE, labelSelector=f"suite={ns}")
        assert len(table.body["rows"]) == 1
        marked = api.patch(f"{collection}/{name}", {"metadata": {"annotations": {"a": "b"}}})
        assert marked.code == 200
        assert api.delete(f"{collection}/{name}", {"propagationPolicy": "Background"}).code == 200
        if plural.startswith("persistentvolume"):
            # What lets unused volumes go is a controller, which kube-apiserver does not have.
            api.patch(f"{collection}/{name}", {"metadata": {"finalizers": None}})
            api.notes.pop()
        assert api.get(f"{collection}/{name}").code == 404
        without_ages(api)

    SCENARIOS[f"kinds-{plural}"] = run


for _kind in KINDS:
    _one_kind(*_kind)
