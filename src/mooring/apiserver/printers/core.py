"""Tables of nodes, events, services, volumes and the other kinds of the core group.

Each function returns the cells of one row; the columns are in ``data/table_columns.json``.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.formatting import (
    NONE,
    UNKNOWN,
    UNSET,
    access_modes,
    age,
    containers,
    first_few,
    labels,
    since,
    volume_class,
)

if TYPE_CHECKING:
    from mooring.objects.types import Json

Cells = list[Any]
_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"
#: Status of objects that are being deleted.
_TERMINATING = "Terminating"


def _sections(obj: Json) -> tuple[Json, Json, Json]:
    return obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}


def _name(obj: Json) -> str:
    return str(obj["metadata"].get("name", ""))


def name_and_creation(obj: Json, now_s: float) -> Cells:
    """Returns name and creation time: the row of kinds without a printer upstream."""
    del now_s  # the row has a time, not an age
    metadata = obj["metadata"]
    return [metadata.get("name", ""), metadata.get("creationTimestamp")]


def name_and_age(obj: Json, now_s: float) -> Cells:
    """Returns name and age: the row of kinds without other columns."""
    return [_name(obj), age(obj, now_s)]


def node_cells(node: Json, now_s: float) -> Cells:
    """Returns name, status, roles, age, version, addresses, images and versions."""
    metadata, spec, status = _sections(node)
    # If a type occurs twice, the last condition is used.
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    states = ["Unknown"]
    if "Ready" in conditions:
        states = ["Ready" if conditions["Ready"] == "True" else "NotReady"]
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(node),
        ",".join(states),
        ",".join(_roles(metadata.get("labels") or {})) or NONE,
        age(node, now_s),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: dict[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""})


def _address(status: Json, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def event_cells(event: Json, now_s: float) -> Cells:
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
        _name(event),
    ]


def _either(event: Json, core_name: str, events_name: str) -> Json:
    return event.get(core_name) or event.get(events_name)


def _event_source(event: Json) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    controller = _either(event, "reportingComponent", "reportingController")
    component = source.get("component") or controller or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def namespace_cells(namespace: Json, now_s: float) -> Cells:
    """Returns name, status, age."""
    phase = (namespace.get("status") or {}).get("phase", "")
    return [_name(namespace), phase, age(namespace, now_s)]


def config_map_cells(config_map: Json, now_s: float) -> Cells:
    """Returns name, number of keys, age."""
    count = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [_name(config_map), count, age(config_map, now_s)]


def secret_cells(secret: Json, now_s: float) -> Cells:
    """Returns name, type, number of keys, age; never a value."""
    return [
        _name(secret),
        secret.get("type", ""),
        len(secret.get("data") or ()),
        age(secret, now_s),
    ]


def service_cells(service: Json, now_s: float) -> Cells:
    """Returns name, type, addresses, ports, age, selector."""
    _, spec, status = _sections(service)
    addresses = spec.get("clusterIPs") or ()
    return [
        _name(service),
        spec.get("type") or "ClusterIP",
        addresses[0] if addresses else NONE,
        _external_addresses(spec, status),
        ",".join(map(_service_port, spec.get("ports") or ())) or NONE,
        age(service, now_s),
        labels(spec.get("selector")),
    ]


def _external_addresses(spec: Json, status: Json) -> str:
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


def endpoints_cells(endpoints: Json, now_s: float) -> Cells:
    """Returns name, the first addresses, age."""
    return [_name(endpoints), _endpoint_addresses(endpoints), age(endpoints, now_s)]


def _endpoint_addresses(endpoints: Json) -> str:
    subsets = endpoints.get("subsets") or ()
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


def replication_controller_cells(controller: Json, now_s: float) -> Cells:
    """Returns name, replicas, age, containers, selector."""
    _, spec, status = _sections(controller)
    return [
        _name(controller),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(controller, now_s),
        *containers(spec.get("template")),
        labels(spec.get("selector")),
    ]


def persistent_volume_cells(volume: Json, now_s: float) -> Cells:
    """Returns name, capacity, modes, policy, status, claim, classes, reason, age, mode."""
    metadata, spec, status = _sections(volume)
    claim = spec.get("claimRef")
    return [
        _name(volume),
        (spec.get("capacity") or {}).get("storage", "0"),
        access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _TERMINATING if metadata.get("deletionTimestamp") else status.get("phase", ""),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        volume_class(volume),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(volume, now_s),
        spec.get("volumeMode") or UNSET,
    ]


def persistent_volume_claim_cells(claim: Json, now_s: float) -> Cells:
    """Returns name, status, volume, capacity, modes, classes, age, mode."""
    metadata, spec, status = _sections(claim)
    volume = spec.get("volumeName", "")
    return [
        _name(claim),
        _TERMINATING if metadata.get("deletionTimestamp") else status.get("phase", ""),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        access_modes(status.get("accessModes")) if volume else "",
        volume_class(claim),
        spec.get("volumeAttributesClassName") or UNSET,
        age(claim, now_s),
        spec.get("volumeMode") or UNSET,
    ]
