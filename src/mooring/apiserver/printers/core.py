"""Tables of nodes, events, services, volumes and the other kinds of the core group.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.cells import (
    Row,
    age,
    containers,
    containers_of,
    desired_replicas,
    field,
    formatted,
    name,
    phase_or_terminating,
    ready_replicas,
    replicas,
    row,
)
from mooring.apiserver.printers.formatting import (
    NONE,
    UNKNOWN,
    UNSET,
    access_modes,
    first_few,
    labels,
    since,
    volume_class,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.printers.cells import Cell
    from mooring.objects.types import Json

_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"

name_and_age = row(name, age)
#: The row of kinds without a printer upstream: it has a time, not an age.
name_and_creation = row(name, field("metadata.creationTimestamp", None))


def _node_status(node: Json, _now_s: float) -> str:
    # If a type occurs twice, the last condition is used.
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in (node.get("status") or {}).get("conditions") or ()
    }
    states = ["Unknown"]
    if "Ready" in conditions:
        states = ["Ready" if conditions["Ready"] == "True" else "NotReady"]
    if (node.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(labels: dict[str, str] | None) -> str:
    labels = labels or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""})) or NONE


def _address(kind: str) -> Cell:
    """Returns the cell of a node's first address of a type."""

    def text(addresses: Any) -> str:
        matches = (a.get("address", "") for a in addresses or () if a.get("type") == kind)
        return next(matches, NONE)

    return formatted("status.addresses", text)


def _kernel(info: Json | None) -> str:
    info = info or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel


def event_cells(event: Json, now_s: float) -> list[Any]:
    """Returns times, type, reason, object and message; for both event API groups."""
    first = _either(event, "firstTimestamp", "deprecatedFirstTimestamp")
    first_seen = since(first or event.get("eventTime"), now_s)
    last = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    last_seen = since(last, now_s) if last else first_seen
    count = _either(event, "count", "deprecatedCount") or 1
    series = event.get("series")
    if series is not None:
        last_seen, count = since(series.get("lastObservedTime"), now_s), series.get("count", 0)
    involved = _either(event, "involvedObject", "regarding") or {}
    object_text = involved.get("kind", "").lower()
    if involved.get("name"):
        object_text += f"/{involved['name']}"
    return [
        last_seen,
        event.get("type", ""),
        event.get("reason", ""),
        object_text,
        involved.get("fieldPath", ""),
        _event_source(event),
        (_either(event, "message", "note") or "").strip(),
        first_seen,
        count,
        name(event, now_s),
    ]


def _either(event: Json, core_name: str, events_name: str) -> Json:
    return event.get(core_name) or event.get(events_name)


def _event_source(event: Json) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    controller = _either(event, "reportingComponent", "reportingController")
    component = source.get("component") or controller or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _count_of_keys(config_map: Json, _now_s: float) -> int:
    return len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())


def _external_addresses(service: Json, _now_s: float) -> str:
    spec, status = service.get("spec") or {}, service.get("status") or {}
    kind, external_ips = spec.get("type") or "ClusterIP", list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return (",".join(external_ips) or NONE) if kind in ("ClusterIP", "NodePort") else UNKNOWN
    ingresses = (status.get("loadBalancer") or {}).get("ingress") or ()
    balancers = sorted({i.get("ip") or i.get("hostname") or "" for i in ingresses} - {""})
    return ",".join([*balancers, *external_ips]) or "<pending>"


def _service_port(port: Json) -> str:
    number, protocol = port.get("port", 0), port.get("protocol") or "TCP"
    if port.get("nodePort"):
        return f"{number}:{port['nodePort']}/{protocol}"
    return f"{number}/{protocol}"


def _endpoint_addresses(subsets: Any) -> str:
    if not subsets:
        return NONE
    texts: list[str] = []
    for subset in subsets:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [port.get("port", 0) for port in subset.get("ports") or ()]
        pairs = ((address, port) for port in ports for address in addresses)
        texts += [_joined(*pair) for pair in pairs] if ports else addresses
    return first_few(texts, "")


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _if_bound(cell: Cell) -> Cell:
    """Returns the cell, empty for a claim without a volume."""
    return lambda claim, now_s: cell(claim, now_s) if _claimed_volume(claim, now_s) else ""


_claimed_volume = field("spec.volumeName")
_attributes_class = field("spec.volumeAttributesClassName", UNSET)
_volume_mode = field("spec.volumeMode", UNSET)


def _health(status: Json) -> Json:
    """Returns the condition "Healthy" of a component, empty without it."""
    conditions = status.get("conditions") or ()
    return next((item for item in conditions if item.get("type") == "Healthy"), {})


def _component_health(status: Json, _now_s: float) -> str:
    healthy = _health(status).get("status")
    if healthy is None:
        return "Unknown"
    return "Healthy" if healthy == "True" else "Unhealthy"


def _of_health(part: str) -> Cell:
    """Returns the cell of a field of the condition "Healthy"."""
    return lambda status, _now_s: _health(status).get(part, "")


#: Kind -> the cells of its row.
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "ComponentStatus": row(name, _component_health, _of_health("message"), _of_health("error")),
        "ConfigMap": row(name, _count_of_keys, age),
        "Endpoints": row(name, formatted("subsets", _endpoint_addresses), age),
        "Event": event_cells,
        "Namespace": row(name, field("status.phase"), age),
        "Node": row(
            name,
            _node_status,
            formatted("metadata.labels", _roles),
            age,
            field("status.nodeInfo.kubeletVersion"),
            _address("InternalIP"),
            _address("ExternalIP"),
            field("status.nodeInfo.osImage", UNKNOWN),
            formatted("status.nodeInfo", _kernel),
            field("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
        ),
        "PersistentVolume": row(
            name,
            field("spec.capacity.storage", "0"),
            formatted("spec.accessModes", access_modes),
            field("spec.persistentVolumeReclaimPolicy"),
            phase_or_terminating,
            formatted(
                "spec.claimRef",
                lambda claim: (
                    "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"
                ),
            ),
            volume_class,
            _attributes_class,
            field("status.reason"),
            age,
            _volume_mode,
        ),
        "PersistentVolumeClaim": row(
            name,
            phase_or_terminating,
            _claimed_volume,
            _if_bound(field("status.capacity.storage", "0")),
            _if_bound(formatted("status.accessModes", access_modes)),
            volume_class,
            _attributes_class,
            age,
            _volume_mode,
        ),
        "PodTemplate": row(
            name, *containers_of("template"), formatted("template.metadata.labels", labels)
        ),
        "ReplicationController": row(
            name,
            desired_replicas,
            replicas,
            ready_replicas,
            age,
            *containers,
            formatted("spec.selector", labels),
        ),
        "Secret": row(name, field("type"), formatted("data", lambda data: len(data or ())), age),
        "Service": row(
            name,
            field("spec.type", "ClusterIP"),
            formatted("spec.clusterIPs", lambda addresses: addresses[0] if addresses else NONE),
            _external_addresses,
            formatted(
                "spec.ports", lambda ports: ",".join(map(_service_port, ports or ())) or NONE
            ),
            age,
            formatted("spec.selector", labels),
        ),
        "ServiceAccount": name_and_age,
    }
)
