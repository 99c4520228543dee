"""Divides the endpoints of a Service into slices, and changes as few of them as it can.

Endpoints with the same ports share slices. A slice that changes anyway is filled first, then one
that has room for all that remain; only then slices are created.

Source: k8s.io/endpointslice v0.36.3, reconciler.go (reconcileByPortMapping, finalize).
Differs: new endpoints are added in the order of their pods' names, not in that of a Go map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from mooring.objects.meta import ApiStruct, ObjectMeta
from mooring.simulation.controllers.objects import Json, Workload

#: The default of kube-controller-manager's --max-endpoints-per-slice.
ENDPOINTS_MAX: Final = 100
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_RESERVED: Final = frozenset((SERVICE_NAME, MANAGED_BY, HEADLESS))


class EndpointSlice(ApiStruct, frozen=True, kw_only=True):
    """A slice; endpoints and ports are JSON."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None


class Content(NamedTuple):
    """The endpoints of a slice, and their ports."""

    endpoints: list[Json]
    ports: list[Json]


#: What makes an endpoint the same one: the namespace and name of its pod, address and hostname.
EndpointKey = tuple[Any, ...]


class Group:
    """The endpoints with the same ports."""

    def __init__(self, ports: list[Json]) -> None:
        self.ports = ports
        self.endpoints: dict[EndpointKey, Json] = {}

    def add(self, endpoint: Json) -> None:
        """Adds an endpoint."""
        self.endpoints[endpoint_key(endpoint)] = endpoint


class Plan(NamedTuple):
    """The slices to create, to update and to delete."""

    create: list[Content]
    update: list[tuple[EndpointSlice, Content]]
    delete: list[EndpointSlice]


def endpoint_key(endpoint: Json) -> EndpointKey:
    """Returns what makes an endpoint the same one."""
    target = endpoint.get("targetRef") or {}
    addresses = endpoint.get("addresses") or ()
    return target.get("namespace"), target.get("name"), endpoint.get("hostname"), *addresses


def ports_key(ports: Iterable[Json]) -> tuple[Any, ...]:
    """Returns a key that is equal for equal ports in any order."""
    return tuple(sorted(tuple(sorted((k, str(v)) for k, v in port.items())) for port in ports))


def labels_of(service: Workload) -> dict[str, str]:
    """Returns the labels of the slices of a Service."""
    labels = {
        name: value for name, value in service.metadata.labels.items() if name not in _RESERVED
    }
    if service.spec.get("clusterIP") in ("None", "", None):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}


def plan(
    service: Workload,
    existing: Iterable[EndpointSlice],
    groups: dict[tuple[Any, ...], Group],
) -> Plan:
    """Returns the changes that give a Service the slices of its endpoints.

    Args:
        service: The Service.
        existing: Its slices; those that another object owns are deleted.
        groups: Key of ports -> the endpoints with them; is emptied.
    """
    result = Plan([], [], [])
    by_ports: dict[tuple[Any, ...], list[EndpointSlice]] = {}
    count = 0
    for part in existing:
        count += 1
        if _is_owned(part, service):
            by_ports.setdefault(ports_key(part.ports or ()), []).append(part)
        else:
            result.delete.append(part)
    labels = _own_labels(labels_of(service))
    for key, group in groups.items():
        _divide(group, by_ports.pop(key, []), labels, result)
    for parts in by_ports.values():
        result.delete.extend(parts)
    if len(result.delete) == count and not result.create:
        _keep_one(service, labels, result)
    _reuse_deleted(service, result)
    return result


def _divide(group: Group, parts: list[EndpointSlice], labels: dict[str, str], result: Plan) -> None:
    """Adds the changes of the slices with the same ports to ``result``."""
    unchanged: list[EndpointSlice] = []
    changed: list[tuple[EndpointSlice, list[Json]]] = []
    waiting = group.endpoints
    for part in parts:
        before = part.endpoints or []
        after = list(_kept(before, waiting))
        if not after and before:
            result.delete.append(part)
        elif after != before or _own_labels(part.metadata.labels) != labels:
            changed.append((part, after))
        else:
            unchanged.append(part)
    added = iter(sorted(waiting.values(), key=_pod_name))
    number = len(waiting)
    for _, endpoints in sorted(changed, key=lambda item: -len(item[1])):
        number -= _fill(endpoints, added)
    while number > 0:
        target = _closest_to_full(unchanged, number)
        if target is None:
            endpoints = []
            result.create.append(Content(endpoints, group.ports))
        else:
            unchanged.remove(target)
            endpoints = list(target.endpoints or ())
            changed.append((target, endpoints))
        number -= _fill(endpoints, added)
    result.update.extend((part, Content(endpoints, group.ports)) for part, endpoints in changed)


def _kept(endpoints: Iterable[Json], waiting: dict[EndpointKey, Json]) -> Iterator[Json]:
    """Returns those endpoints that still exist, as they are now; they wait no longer."""
    for endpoint in endpoints:
        current = waiting.pop(endpoint_key(endpoint), None)
        if current is not None:
            yield current


def _fill(endpoints: list[Json], added: Iterator[Json]) -> int:
    """Appends endpoints until the slice is full; returns their number."""
    before = len(endpoints)
    for _ in range(ENDPOINTS_MAX - before):
        endpoint = next(added, None)
        if endpoint is None:
            break
        endpoints.append(endpoint)
    return len(endpoints) - before


def _closest_to_full(parts: list[EndpointSlice], number: int) -> EndpointSlice | None:
    """Returns the slice with the least room that has room for so many endpoints."""
    fit = [
        part
        for part in parts
        if number < ENDPOINTS_MAX and number + len(part.endpoints or ()) <= ENDPOINTS_MAX
    ]
    return max(fit, key=lambda part: len(part.endpoints or ()), default=None)


def _keep_one(service: Workload, labels: dict[str, str], result: Plan) -> None:
    """Keeps or creates the slice of a Service without endpoints, which has no ports either."""
    if len(result.delete) == 1:
        [last] = result.delete
        is_placeholder = not last.endpoints and not last.ports and _is_owned(last, service)
        if is_placeholder and _own_labels(last.metadata.labels) == labels:
            result.delete.clear()
            return
    result.create.append(Content([], []))


def _reuse_deleted(service: Workload, result: Plan) -> None:
    """Turns deletions and creations into updates."""
    for part in list(result.delete):
        if result.create and _is_owned(part, service):
            result.delete.remove(part)
            result.update.append((part, result.create.pop()))


def _is_owned(part: EndpointSlice, service: Workload) -> bool:
    return any(
        owner.uid == service.metadata.uid and owner.kind == "Service"
        for owner in part.metadata.owner_references
    )


def _own_labels(labels: dict[str, str]) -> dict[str, str]:
    """Returns the labels whose changes are followed."""
    return {name: value for name, value in labels.items() if name not in _RESERVED}


def _pod_name(endpoint: Json) -> str:
    return str(endpoint["targetRef"]["name"])
