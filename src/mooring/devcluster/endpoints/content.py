"""The endpoint of a pod in the slices of a Service, and the ports of the Service at it.

Source: k8s.io/endpointslice v0.36.3, utils.go (podToEndpoint, getEndpointPorts, FindPort),
util/controller_utils.go (ShouldPodBeInEndpoints) and trafficdist.
Differs: addresses are IPv4; the annotation of topology hints is ignored.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.objects.pod import FINISHED_PHASES
from mooring.simulation.controllers.objects import Json, Workload

ZONE: Final = "topology.kubernetes.io/zone"
#: Values of ``trafficDistribution`` that lead to hints; the last one also to hints of nodes.
_CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")


def has_endpoints(service: Workload) -> bool:
    """Returns whether the controllers list the endpoints of a Service."""
    return bool(service.spec.get("selector")) and service.spec.get("type") != "ExternalName"


def has_address(pod: Workload) -> bool:
    """Returns whether a pod is an endpoint of the Services that select it."""
    return bool(pod.status.get("podIP")) and pod.status.get("phase") not in FINISHED_PHASES


def is_ready(pod: Workload) -> bool:
    """Returns whether the condition Ready of a pod is true."""
    conditions = pod.status.get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def state_of(pod: Workload) -> tuple[Any, ...]:
    """Returns all that the endpoints of a pod depend on, besides what cannot change."""
    spec = pod.spec
    return (
        pod.metadata.labels,
        pod.metadata.uid,
        pod.is_deleted,
        spec.get("nodeName"),
        has_address(pod) and pod.status["podIP"],
        is_ready(pod),
    )


def endpoint_of(service: Workload, pod: Workload, zone: str) -> Json:
    """Returns the endpoint of a pod; terminating pods stay in the slice, and are not ready."""
    is_serving, node_name = is_ready(pod), pod.spec.get("nodeName")
    ready = bool(service.spec.get("publishNotReadyAddresses")) or (
        is_serving and not pod.is_deleted
    )
    endpoint: Json = {
        "addresses": [pod.status["podIP"]],
        "conditions": {"ready": ready, "serving": is_serving, "terminating": pod.is_deleted},
        "targetRef": reference_to(pod),
    }
    if node_name:
        endpoint["nodeName"] = node_name
    if zone:
        endpoint["zone"] = zone
    hostname = hostname_of(service, pod)
    if hostname:
        endpoint["hostname"] = hostname
    hints = _hints(service, zone, node_name or "") if ready else {}
    if hints:
        endpoint["hints"] = hints
    return endpoint


def reference_to(pod: Workload) -> Json:
    """Returns the reference of an endpoint to its pod."""
    metadata = pod.metadata
    return {
        "kind": "Pod",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }


def hostname_of(service: Workload, pod: Workload) -> str:
    """Returns the name that a pod has in the domain of a Service; "" = none."""
    if pod.spec.get("subdomain") != service.metadata.name:
        return ""
    return str(pod.spec.get("hostname") or "")


def _hints(service: Workload, zone: str, node_name: str) -> Json:
    """Returns for which zones and nodes a ready endpoint is preferred."""
    distribution = service.spec.get("trafficDistribution")
    hints: Json = {}
    if distribution in _CLOSE and zone:
        hints["forZones"] = [{"name": zone}]
    if distribution == _CLOSE[-1] and node_name:
        hints["forNodes"] = [{"name": node_name}]
    return hints


def ports_of(service: Workload, pod: Workload) -> list[Json]:
    """Returns the ports of a Service at a pod; a named port that the pod lacks is left out."""
    ports: list[Json] = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = port.get("targetPort") or port["port"]
        if isinstance(number, str):
            number = _named_port(pod, number, protocol)
        if number is None:
            continue
        entry: Json = {"name": port.get("name", ""), "port": number, "protocol": protocol}
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        ports.append(entry)
    return ports


def _named_port(pod: Workload, name: str, protocol: str) -> int | None:
    sidecars = [
        container
        for container in pod.spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in [*(pod.spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None
