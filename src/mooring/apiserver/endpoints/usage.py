"""The usage of nodes and pods as metrics.k8s.io reports it: here the requests of running pods.

Nothing is measured: simulated containers use what they request. ``kubectl top`` and autoscalers
read these objects; they cannot be written or watched.

Source: k8s.io/metrics pkg/apis/metrics/v1beta1/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver.errors import method_not_allowed, not_found
from mooring.apiserver.resources import Resource, resource_named
from mooring.apiserver.storage.selection import selection_of
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.endpoints.query import Query
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import ResourcePath
    from mooring.apiserver.types import Object

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
_VERBS: Final = ("get", "list")
#: What is served: GET of one object, and of lists.
USAGE_RESOURCES: Final = {
    (GROUP, VERSION, "nodes"): Resource(
        GROUP, VERSION, "nodes", "", "NodeMetrics", namespaced=False, verbs=_VERBS
    ),
    (GROUP, VERSION, "pods"): Resource(
        GROUP, VERSION, "pods", "", "PodMetrics", namespaced=True, verbs=_VERBS
    ),
}
_NODES: Final = resource_named("", "nodes")
_PODS: Final = resource_named("", "pods")
_MEASURED: Final = ("cpu", "memory")
_ZERO: Final = Quantity.of_value(0)
#: Resource -> amount.
_Usage = dict[str, Quantity]


def read_usage(method: str, target: ResourcePath, query: Query, registry: Registry) -> Object:
    """Returns the usage of one object, or a list.

    Raises:
        ApiStatusError: 404 or 405, or 400 for a selector that cannot be parsed.
    """
    if method != "GET" or target.subresource or query.flag("watch"):
        raise method_not_allowed()
    is_node = target.resource.name == "nodes"
    stored = _NODES if is_node else _PODS
    selection = selection_of(
        stored,
        target.namespace,
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
    )
    collection = registry.collection(stored)
    if target.name:
        key = f"{target.namespace}/{target.name}" if target.namespace else target.name
        selected = [collection.get(key)]
    else:
        selected = [item for item in collection.in_order() if selection.matches(item)]
    objects = [item.object() for item in selected if item is not None]
    items = _of_nodes(objects, registry) if is_node else _of_pods(objects, registry)
    if not target.name:
        kind = f"{target.resource.kind}List"
        return {**_type_meta(kind), "metadata": {}, "items": items}
    if not items:
        raise not_found(target.resource, target.name)
    return {**_type_meta(target.resource.kind), **items[0]}


def _of_nodes(nodes: list[Object], registry: Registry) -> list[Object]:
    pods = (stored.object() for stored in registry.collection(_PODS).in_order())
    by_node = _usage_by_node([pod for pod in pods if _is_running(pod)])
    now = registry.now()
    return [
        {**_measured(node, now), "usage": _texts(by_node[node["metadata"]["name"]])}
        for node in nodes
    ]


def _of_pods(pods: list[Object], registry: Registry) -> list[Object]:
    now = registry.now()
    return [_pod_metrics(pod, now) for pod in pods if _is_running(pod)]


def _type_meta(kind: str) -> Object:
    return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}"}


def _is_running(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and bool(pod["spec"].get("nodeName"))


def _usage_by_node(pods: list[Object]) -> dict[str, _Usage]:
    usage: dict[str, _Usage] = defaultdict(dict)
    for pod in pods:
        of_node = usage[pod["spec"]["nodeName"]]
        for container in _containers(pod):
            for resource, quantity in _requests(container).items():
                of_node[resource] = of_node.get(resource, _ZERO) + quantity
    return usage


def _containers(pod: Object) -> list[Object]:
    """Returns the containers that run: those of the pod, and its sidecars."""
    spec = pod["spec"]
    first = spec.get("initContainers", ())
    sidecars = [item for item in first if item.get("restartPolicy") == "Always"]
    return [*sidecars, *spec["containers"]]


def _requests(container: Object) -> _Usage:
    requests: Mapping[str, Any] = container.get("resources", {}).get("requests", {})
    return {name: Quantity.from_wire(requests[name]) for name in _MEASURED if name in requests}


def _pod_metrics(pod: Object, now: str) -> Object:
    containers = [
        {"name": container["name"], "usage": _texts(_requests(container))}
        for container in _containers(pod)
    ]
    return {**_measured(pod, now), "containers": containers}


def _measured(obj: Object, now: str) -> Object:
    metadata = {"name": obj["metadata"]["name"], "creationTimestamp": now}
    if "namespace" in obj["metadata"]:
        metadata["namespace"] = obj["metadata"]["namespace"]
    if obj["metadata"].get("labels"):
        metadata["labels"] = obj["metadata"]["labels"]
    return {"metadata": metadata, "timestamp": now, "window": "0s"}


def _texts(usage: _Usage) -> dict[str, str]:
    return {name: str(usage.get(name, _ZERO)) for name in _MEASURED}
