"""The Endpoints object of a Service: addresses by the ports that they offer.

It is the old form of EndpointSlices, with one object for each Service, and a limit of addresses.

Source: pkg/controller/endpoint/endpoints_controller.go (truncateEndpoints), pkg/api/v1/endpoints
(RepackSubsets).
Differs: subsets and their ports are sorted by name and number, not by a hash of Go structs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any, Final, NamedTuple

from mooring.devcluster.endpoints.slices import HEADLESS, Group
from mooring.objects.meta import ApiStruct, ObjectMeta
from mooring.simulation.controllers.objects import Json, Workload

#: Addresses of one Endpoints object.
ADDRESSES_MAX: Final = 1000
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_CONTROLLER: Final = "endpoint-controller"


class Endpoints(ApiStruct, frozen=True, kw_only=True):
    """The addresses of a Service; subsets are JSON."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    subsets: list[dict[str, Any]] | None = None


class Subsets(NamedTuple):
    """The subsets of a Service; ``is_truncated`` if there were more addresses than allowed."""

    subsets: list[Json]
    is_truncated: bool


def subsets_of(service: Workload, groups: Iterable[Group]) -> Subsets:
    """Returns the subsets of a Service.

    Args:
        service: The Service.
        groups: Its endpoints by their ports.
    """
    publishes_all = bool(service.spec.get("publishNotReadyAddresses"))
    is_headless = service.spec.get("clusterIP") == "None"
    groups = [group for group in groups if _addresses(group, publishes_all=publishes_all)]
    #: Indices of the groups that offer a port -> the ports.
    ports_of: dict[tuple[int, ...], list[Json]] = {}
    offers: dict[tuple[Any, ...], tuple[Json, list[int]]] = {}
    for number, group in enumerate(groups):
        for port in group.ports:
            offers.setdefault(_port_key(port), (port, []))[1].append(number)
        if not group.ports and is_headless and not service.spec.get("ports"):
            ports_of[number,] = []
    for _, (port, numbers) in sorted(offers.items()):
        entry = {name: value for name, value in port.items() if value != ""}
        ports_of.setdefault(tuple(numbers), []).append(entry)
    subsets = []
    for numbers_of_group, ports in ports_of.items():
        addresses: dict[str, list[tuple[str, str, Json]]] = {}
        for number in numbers_of_group:
            for name, address in _addresses(groups[number], publishes_all=publishes_all):
                addresses.setdefault(name, []).append(address)
        subset: Json = {
            name: [item[-1] for item in sorted(addresses[name], key=lambda item: item[:2])]
            for name in ("addresses", "notReadyAddresses")
            if name in addresses
        }
        if ports:
            subset["ports"] = ports
        subsets.append(subset)
    return Subsets(subsets, _truncate(subsets))


def labels_of(service: Workload) -> dict[str, str]:
    """Returns the labels of the Endpoints of a Service."""
    labels = {name: value for name, value in service.metadata.labels.items() if name != HEADLESS}
    if service.spec.get("clusterIP") in ("None", "", None):
        labels[HEADLESS] = ""
    return {**labels, MANAGED_BY: _CONTROLLER}


def _addresses(group: Group, *, publishes_all: bool) -> list[tuple[str, tuple[str, str, Json]]]:
    """Returns (field of a subset, (IP, UID, address)) of each endpoint of a group."""
    result = []
    for endpoint in group.endpoints.values():
        conditions = endpoint["conditions"]
        if conditions["terminating"] and not publishes_all:
            continue
        target, ip = endpoint["targetRef"], endpoint["addresses"][0]
        address = {"ip": ip, "targetRef": target}
        for name in ("nodeName", "hostname"):
            if name in endpoint:
                address[name] = endpoint[name]
        is_ready = publishes_all or conditions["serving"]
        name = "addresses" if is_ready else "notReadyAddresses"
        result.append((name, (ip, target["uid"], address)))
    return result


def _port_key(port: Json) -> tuple[Any, ...]:
    return tuple(str(port.get(name, "")) for name in ("name", "port", "protocol", "appProtocol"))


def _truncate(subsets: list[Json]) -> bool:
    """Removes addresses beyond the limit, those that are not ready first; returns if it did."""
    ready, not_ready = (
        sum(len(subset.get(name, ())) for subset in subsets)
        for name in ("addresses", "notReadyAddresses")
    )
    if ready + not_ready <= ADDRESSES_MAX:
        return False
    name, total, most = "notReadyAddresses", not_ready, ADDRESSES_MAX - ready
    if ready > ADDRESSES_MAX:
        name, total, most = "addresses", ready, ADDRESSES_MAX
        for subset in subsets:
            subset.pop("notReadyAddresses", None)
    room = most
    for subset in subsets:
        addresses = subset.pop(name, [])
        remaining = addresses[: min(ceil(len(addresses) / total * most), room)]
        room -= len(remaining)
        if remaining:
            subset[name] = remaining
    subsets[:] = [item for item in subsets if item.keys() & {"addresses", "notReadyAddresses"}]
    return True
