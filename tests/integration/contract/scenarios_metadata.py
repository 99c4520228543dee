"""Changes with invalid metadata: how often an error is a cause, and in which order."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import deployment, node, pod
from tests.integration.contract.scenario import path, scenario

Document = dict[str, Any]
BAD: Document = {
    "labels": {"x y": "a"},
    "finalizers": ["x:y"],
    "deletionTimestamp": "2026-01-02T03:04:05Z",
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
]
WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/a"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": RULES,
}
VIEW = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/a"},
}
DEVICES = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "x"}}]}}
SCALED: Document = {
    "maxReplicas": 3,
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
}
BACKEND = {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}
_ADMISSION = "apis/admissionregistration.k8s.io/v1"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
_STORAGE = "apis/storage.k8s.io/v1"
_NETWORKING = "apis/networking.k8s.io/v1"
#: Group and version, resource, whether it has namespaces, the object without metadata.
OBJECTS: tuple[tuple[str, str, bool, Document], ...] = (
    ("api/v1", "configmaps", True, {}),
    ("api/v1", "secrets", True, {}),
    ("api/v1", "endpoints", True, {}),
    ("api/v1", "limitranges", True, {}),
    ("api/v1", "serviceaccounts", True, {}),
    ("api/v1", "podtemplates", True, {"template": TEMPLATE}),
    ("api/v1", "persistentvolumes", False, {"spec": VOLUME}),
    ("apis/coordination.k8s.io/v1", "leases", True, {}),
    ("apis/discovery.k8s.io/v1", "endpointslices", True, {"addressType": "IPv4"}),
    (_NETWORKING, "networkpolicies", True, {"spec": {"podSelector": {}}}),
    (_NETWORKING, "ingressclasses", False, {"spec": {"controller": "a.example.com/b"}}),
    (_NETWORKING, "ingresses", True, {"spec": BACKEND}),
    (_RBAC, "roles", True, {}),
    (_RBAC, "clusterroles", False, {}),
    (_RBAC, "rolebindings", True, {"roleRef": VIEW}),
    (_RBAC, "clusterrolebindings", False, {"roleRef": VIEW}),
    (_STORAGE, "storageclasses", False, {"provisioner": "a.example.com"}),
    (_STORAGE, "csistoragecapacities", True, {"storageClassName": "a"}),
    (_STORAGE, "csidrivers", False, {"spec": {}}),
    ("apis/node.k8s.io/v1", "runtimeclasses", False, {"handler": "a"}),
    ("apis/scheduling.k8s.io/v1", "priorityclasses", False, {"value": 1}),
    ("apis/resource.k8s.io/v1", "resourceclaims", True, {"spec": DEVICES}),
    ("apis/resource.k8s.io/v1", "resourceclaimtemplates", True, {"spec": {"spec": DEVICES}}),
    ("apis/resource.k8s.io/v1", "deviceclasses", False, {"spec": {}}),
    ("apis/autoscaling/v2", "horizontalpodautoscalers", True, {"spec": SCALED}),
    ("apis/policy/v1", "poddisruptionbudgets", True, {"spec": {"minAvailable": 1}}),
    (_ADMISSION, "validatingwebhookconfigurations", False, {"webhooks": [WEBHOOK]}),
    (_ADMISSION, "validatingadmissionpolicybindings", False, {"spec": {"policyName": "a"}}),
)
#: With a status.
WITH_STATUS: tuple[tuple[str, str, Document], ...] = (
    ("apis/batch/v1", "jobs", {"spec": {"template": TEMPLATE}}),
    (
        "apis/batch/v1",
        "cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    ),
    ("apis/policy/v1", "poddisruptionbudgets", {"spec": {"minAvailable": 1}}),
    ("apis/apps/v1", "deployments", {"spec": deployment("a")["spec"]}),
    ("api/v1", "persistentvolumeclaims", {"spec": CLAIM}),
    ("api/v1", "pods", {"spec": pod("a")["spec"]}),
)


def refused(api: Api, url: str, *, metadata: Document | None = None, **more: Any) -> list[str]:
    answer = api.patch(url, {"metadata": metadata or BAD, **more}, dryRun="All")
    assert answer.code == 422
    return [cause["field"] for cause in answer.body["details"]["causes"]]


@scenario
def metadata_is_validated_as_often_as_upstream(api: Api, ns: str) -> None:
    for group, resource, has_namespace, obj in OBJECTS:
        name = f"{ns}-a"
        if resource == "validatingadmissionpolicybindings":
            obj["spec"]["validationActions"] = ["Deny"]
        url = path(group, ns if has_namespace else "", resource)
        assert api.post(url, {"metadata": {"name": name}, **obj}).code == 201
        assert "metadata.labels" in refused(api, f"{url}/{name}")
        api.delete(f"{url}/{name}")
        api.notes.pop()  # some are deleted at once, some later


@scenario
def metadata_is_validated_with_a_status(api: Api, ns: str) -> None:
    for group, resource, obj in WITH_STATUS:
        url = path(group, ns, resource)
        assert api.post(url, {"metadata": {"name": "a"}, **obj}).code == 201
        assert "metadata.finalizers" in refused(api, f"{url}/a")
        assert "metadata.finalizers" in refused(api, f"{url}/a/status")
    for part in ("ephemeralcontainers", "resize"):  # they change no metadata
        part_url = path("api/v1", ns, "pods", "a", part)
        assert api.patch(part_url, {"metadata": BAD}, dryRun="All").code == 200


@scenario
def errors_of_a_new_object_stand_before_those_of_a_change(api: Api, ns: str) -> None:
    name = f"{ns}-a"
    nodes = path("api/v1", "", "nodes")
    api.post(nodes, node(name))
    taint = {"key": "a b", "effect": "Other"}
    refused(api, f"{nodes}/{name}", spec={"podCIDR": "none", "taints": [taint]})
    api.delete(f"{nodes}/{name}")
    classes = path(_STORAGE, "", "storageclasses")
    api.post(classes, {"metadata": {"name": name}, "provisioner": "a.example.com"})
    refused(api, f"{classes}/{name}", reclaimPolicy="A", provisioner="b.example.com")
    api.delete(f"{classes}/{name}")
    volumes = path("api/v1", "", "persistentvolumes")
    api.post(volumes, {"metadata": {"name": name}, "spec": VOLUME})
    refused(api, f"{volumes}/{name}", spec={"accessModes": ["A"]})
    api.delete(f"{volumes}/{name}")
    api.notes.pop()


@scenario
def a_stop_signal_needs_its_gate(api: Api, ns: str) -> None:
    pre_stop = {"preStop": {"exec": {"command": ["true"]}}}
    containers = [
        {"name": "c", "image": "i", "lifecycle": {**pre_stop, "stopSignal": "SIGTERM"}},
        {"name": "d", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}},
    ]
    spec = {"containers": containers, "os": {"name": "linux"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    job = {"template": {"spec": {**spec, "restartPolicy": "Never"}}}
    selector = {"matchLabels": {"a": "b"}}
    workload = {"spec": {"template": template, "selector": selector}}
    claimed = {"spec": {**workload["spec"], "serviceName": "a"}}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    for group, resource, obj in (
        ("api/v1", "pods", {"spec": spec}),
        ("api/v1", "podtemplates", {"template": template}),
        ("api/v1", "replicationcontrollers", {"spec": {"template": template}}),
        ("apis/apps/v1", "deployments", workload),
        ("apis/apps/v1", "statefulsets", claimed),
        ("apis/batch/v1", "jobs", {"spec": job}),
        ("apis/batch/v1", "cronjobs", {"spec": cron}),
    ):
        url = path(group, ns, resource)
        stored = api.post(url, {"metadata": {"name": "a"}, **obj})
        assert stored.code == 201
        generation = stored.body["metadata"].get("generation")
        without = {name: part for name, part in stored.body.items() if name != "metadata"}
        assert "stopSignal" not in str(without)
        changed = api.patch(f"{url}/a", {"metadata": {"labels": {"c": "d"}}, **obj})
        assert changed.body["metadata"].get("generation") == generation
