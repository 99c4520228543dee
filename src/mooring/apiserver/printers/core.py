"""The tables of nodes, events, services, volumes and the other kinds of the core group.

Each function makes the cells of one row; the columns stand in ``data/table_columns.json``.

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
    from mooring.apiserver.printers.formatting import Json

Cells = list[Any]
_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"
#: Only the wide table exists on the server; this is what its narrow one would cut.
_TERMINATING = "Terminating"


def _parts(found: Json) -> tuple[Json, Json, Json]:
    return found["metadata"], found.get("spec") or {}, found.get("status") or {}


def _name(found: Json) -> str:
    return str(found["metadata"].get("name", ""))


def name_and_creation(found: Json, now_s: float) -> Cells:
    """Name and time of creation: of kinds that upstream has no printer for."""
    del now_s  # a time, not an age
    metadata = found["metadata"]
    return [metadata.get("name", ""), metadata.get("creationTimestamp")]


def name_and_age(found: Json, now_s: float) -> Cells:
    """Returns the row of kinds that have nothing else to show."""
    return [_name(found), age(found, now_s)]


def node_cells(node: Json, now_s: float) -> Cells:
    """Name, status, roles, age, version, addresses, images and versions."""
    metadata, spec, status = _parts(node)
    # The last condition of a type counts; there should be one.
    ready = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    said = ["Unknown"]
    if "Ready" in ready:
        said = ["Ready" if ready["Ready"] == "True" else "NotReady"]
    if spec.get("unschedulable"):
        said.append("SchedulingDisabled")
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(node),
        ",".join(said),
        ",".join(_roles(metadata.get("labels") or {})) or NONE,
        age(node, now_s),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(found: dict[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in found if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {found.get(_ROLE_LABEL, "")}) - {""})


def _address(status: Json, kind: str) -> str:
    for one in status.get("addresses") or ():
        if one.get("type") == kind:
            return str(one.get("address", ""))
    return NONE


def event_cells(event: Json, now_s: float) -> Cells:
    """When, what, about whom; the same for both API groups, whose fields have different names."""
    first = _either(event, "firstTimestamp", "deprecatedFirstTimestamp")
    first_seen = since(first or event.get("eventTime"), now_s)
    last = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    last_seen = since(last, now_s) if last else first_seen
    count = _either(event, "count", "deprecatedCount") or 1
    series = event.get("series")
    if series is not None:
        last_seen, count = since(series.get("lastObservedTime"), now_s), series.get("count", 0)
    about = _either(event, "involvedObject", "regarding") or {}
    target = about.get("kind", "").lower()
    if about.get("name"):
        target += f"/{about['name']}"
    return [
        last_seen,
        event.get("type", ""),
        event.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        _event_source(event),
        (_either(event, "message", "note") or "").strip(),
        first_seen,
        count,
        _name(event),
    ]


def _either(found: Json, core_name: str, events_name: str) -> Json:
    return found.get(core_name) or found.get(events_name)


def _event_source(event: Json) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    controller = _either(event, "reportingComponent", "reportingController")
    component = source.get("component") or controller or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def namespace_cells(namespace: Json, now_s: float) -> Cells:
    """Name, status, age."""
    phase = (namespace.get("status") or {}).get("phase", "")
    return [_name(namespace), phase, age(namespace, now_s)]


def config_map_cells(found: Json, now_s: float) -> Cells:
    """Name, number of keys, age."""
    count = len(found.get("data") or ()) + len(found.get("binaryData") or ())
    return [_name(found), count, age(found, now_s)]


def secret_cells(secret: Json, now_s: float) -> Cells:
    """Name, type, number of keys, age; never a value."""
    return [
        _name(secret),
        secret.get("type", ""),
        len(secret.get("data") or ()),
        age(secret, now_s),
    ]


def service_cells(service: Json, now_s: float) -> Cells:
    """Name, type, addresses, ports, age, selector."""
    _, spec, status = _parts(service)
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
    kind, fixed = spec.get("type") or "ClusterIP", list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return (",".join(fixed) or NONE) if kind in ("ClusterIP", "NodePort") else UNKNOWN
    entries = (status.get("loadBalancer") or {}).get("ingress") or ()
    balancers = sorted({one.get("ip") or one.get("hostname") or "" for one in entries} - {""})
    return ",".join([*balancers, *fixed]) or "<pending>"


def _service_port(port: Json) -> str:
    number, protocol = port.get("port", 0), port.get("protocol") or "TCP"
    if port.get("nodePort"):
        return f"{number}:{port['nodePort']}/{protocol}"
    return f"{number}/{protocol}"


def endpoints_cells(endpoints: Json, now_s: float) -> Cells:
    """Name, the first addresses, age."""
    return [_name(endpoints), _endpoint_addresses(endpoints), age(endpoints, now_s)]


def _endpoint_addresses(endpoints: Json) -> str:
    subsets = endpoints.get("subsets") or ()
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = [one.get("port", 0) for one in subset.get("ports") or ()]
        pairs = ((address, port) for port in ports for address in addresses)
        found += [_joined(*pair) for pair in pairs] if ports else addresses
    return first_few(found, "")


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def replication_controller_cells(found: Json, now_s: float) -> Cells:
    """Name, replicas, age, containers, selector."""
    _, spec, status = _parts(found)
    return [
        _name(found),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(found, now_s),
        *containers(spec.get("template")),
        labels(spec.get("selector")),
    ]


def persistent_volume_cells(volume: Json, now_s: float) -> Cells:
    """Name, capacity, modes, policy, status, claim, classes, reason, age, mode."""
    metadata, spec, status = _parts(volume)
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
    """Name, status, volume, capacity, modes, classes, age, mode."""
    metadata, spec, status = _parts(claim)
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
