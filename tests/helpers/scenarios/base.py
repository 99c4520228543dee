"""Requests of the scenarios: paths, bodies, and reasons for differences."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

PODS = "/api/v1/namespaces/NS/pods"
CONFIG_MAPS = "/api/v1/namespaces/NS/configmaps"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/NS/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/NS/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/NS/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/NS/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/NS/replicasets"
BUDGETS = "/apis/policy/v1/namespaces/NS/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLAIMS = "/api/v1/namespaces/NS/persistentvolumeclaims"

#: The answer need not be the same; the reason is what docs/reference/apiserver.md says.
INTERNAL_DIFF = "upstream shows the difference of its internal types"
NO_CONFLICTS = "server-side apply does not look for conflicts"
OTHER_YAML_WORDS = "another YAML library"
PROTECTION = "no finalizers that only a controller would take away"
OTHER_RULES = "not all rules of volumes are checked"
OTHER_ORDER = "upstream writes the fields of the patched object in another order"


class Step(NamedTuple):
    """One request; ``differs`` says why only the code and reason are compared."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    differs: str = ""

    @property
    def payload(self) -> str | None:
        """The body as it is sent."""
        if self.body is None or isinstance(self.body, str):
            return self.body
        return json.dumps(self.body)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Returns a pod with one container."""
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def container(**fields: Any) -> dict[str, Any]:
    """Returns a pod "p" whose container has these fields."""
    obj = pod("p")
    obj["spec"]["containers"][0].update(fields)
    return obj


def labelled(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Returns a pod with labels."""
    obj = pod(name)
    obj["metadata"]["labels"] = labels
    return obj


def post_pod(obj: Any, query: str = "") -> Step:
    """Creates a pod."""
    return Step("POST", PODS + query, obj)


def patch_pod(patch: Any, content_type: str, query: str = "", **more: Any) -> Step:
    """Changes the pod "w"."""
    return Step("PATCH", f"{PODS}/w{query}", patch, content_type, **more)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}


def with_metadata(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def affine(kind: str, **rules: Any) -> dict[str, Any]:
    return pod("p", affinity={kind: rules})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_term(**expression: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return affine("nodeAffinity", **{REQUIRED: terms})


def spread(**fields: Any) -> dict[str, Any]:
    full = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return pod("p", topologySpreadConstraints=[full])


def resources(**resources: Any) -> dict[str, Any]:
    return container(resources=resources)


DOUBLE = (
    '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"z","name":"y"},'
    '"spec":{"containers":[{"name":"c","image":"i","image":"j"}]}}'
)
UNKNOWN = {**container(bar=1)}
UNKNOWN["spec"] = {**UNKNOWN["spec"], "foo": 1}
BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "w"},
    "target": {"kind": "Node", "name": "NS-node"},
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
SELECTOR = {"matchLabels": {"a": "b"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}
APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ap"}}
NEW_EVENT = {
    "regarding": {"kind": "Pod", "namespace": "NS", "name": "a"},
    "reason": "R",
    "note": "n",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "type": "Normal",
    "action": "Binding",
    "reportingController": "c/x",
    "reportingInstance": "i",
}
OLD_EVENT = {
    "involvedObject": {"kind": "Pod", "namespace": "NS", "name": "a"},
    "reason": "R",
    "message": "m",
    "source": {"component": "c"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "count": 1,
    "type": "Normal",
}


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


def box(name: str) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1"}


def apply_workload(manager: str, **spec: Any) -> Step:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        **named("applied"),
        "spec": {"selector": SELECTOR, "template": template},
    }
    path = f"{DEPLOYMENTS}/applied?fieldManager={manager}&force=true"
    return Step("PATCH", path, body, APPLY)
