"""The addresses and node ports of Services.

A service gets a free address of ``ADDRESSES`` when it is created, or when its type begins to need
one, and keeps it. IPv4 only.

Source: pkg/registry/core/service/storage/alloc.go, pkg/registry/core/service/strategy.go.
Differs: the lowest free address and port are taken, not random ones; families and policies of two
stacks are not validated; health check ports are not assigned.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from mooring.apiserver.addresses import Address, sloppy_address_of
from mooring.apiserver.errors import Errors, FieldError, invalid, invalid_object
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.resources import resource_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.types import Object

#: As kubeadm's clusters. The first address is that of the service `kubernetes`.
ADDRESSES = ipaddress.ip_network("10.96.0.0/12")
NODE_PORTS = range(30000, 32768)
SERVICES = resource_named("", "services")
IP_ADDRESSES = resource_named("networking.k8s.io", "ipaddresses")
HEADLESS = "None"
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_FAMILY_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ServiceAddresses:
    """Assigns the addresses and node ports of the services of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = Changes(store, SERVICES)
        self._spec_by_key: dict[str, Object] = {}

    def assign(self, service: Object) -> None:
        """Sets the addresses and node ports that a valid service lacks.

        Raises:
            ApiStatusError: 422, the service has an address or port that is not free.
        """
        for change in self._changes.take():
            if change.new is None:
                self._spec_by_key.pop(change.key, None)
            else:
                self._spec_by_key[change.key] = change.new.object()["spec"]
        metadata, spec = service["metadata"], service["spec"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        others = [other for name, other in self._spec_by_key.items() if name != key]
        errors: list[FieldError] = []
        if spec["type"] != "ExternalName":
            errors += _assign_address(spec, self._used_addresses(key, others))
        if spec["type"] in _WITH_NODE_PORTS:
            used = {port.get("nodePort") for other in others for port in other.get("ports") or ()}
            errors += _assign_ports(spec, used)
        if errors:
            raise invalid_object("Service", metadata["name"], errors)

    def _used_addresses(self, key: str, others: Iterable[Object]) -> set[str | None]:
        """Returns the addresses of other services, and those that clients have taken."""
        own = self._spec_by_key.get(key, {}).get("clusterIPs") or ()
        taken = {stored.key for stored in self._store.collection(IP_ADDRESSES).in_order()}
        return (taken - set(own)) | {other.get("clusterIP") for other in others}


def _assign_address(spec: Object, used: set[str | None]) -> Errors:
    if spec.get("clusterIP") == HEADLESS:
        return []
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4"])
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if address:
        parsed = sloppy_address_of(address)
        if parsed is not None and parsed.version == 6:
            problem = "IPv6 is not configured on this cluster"
            return [invalid("spec.clusterIPs[0]", [address], problem)]
        problem = _address_problem(address, parsed, used)
        if problem:
            text = f"failed to allocate IP {address}: {problem}"
            return [invalid("spec.clusterIPs", [address], text)]
    else:
        address = _first_free(map(str, ADDRESSES.hosts()), used, lambda text: text[-2:] != ".1")
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    return []


def _address_problem(address: str, parsed: Address | None, used: set[str | None]) -> str:
    if address in used:
        return "provided IP is already allocated"
    if parsed is None or parsed not in ADDRESSES:
        return (
            f"the provided IP ({address}) is not in the valid range. The range of valid IPs is "
            f"{ADDRESSES}"
        )
    return ""


def _first_free(texts: Iterable[str], used: set[str | None], fits: Callable[[str], bool]) -> str:
    return next(text for text in texts if text not in used and fits(text))


def _assign_ports(spec: Object, used: set[Any]) -> Errors:
    ports = spec.get("ports") or ()
    own: set[Any] = set()
    #: Port -> the node port of the first one with this number, of another protocol.
    shared: dict[object, object] = {}
    for number, port in enumerate(ports):
        node_port = port.get("nodePort") or shared.get(port.get("port"))
        field = f"spec.ports[{number}].nodePort"
        if not node_port:
            if not _assigns_ports(spec):
                continue
            same = [it["nodePort"] for it in ports if it.get("nodePort") and _has_port(it, port)]
            node_port = next(iter(same), None)
        if node_port and node_port in used and node_port not in own:
            yield invalid(field, node_port, "provided port is already allocated")
        elif node_port and node_port not in NODE_PORTS:
            problem = "provided port is not in the valid range. The range of valid ports is "
            yield invalid(field, node_port, f"{problem}{NODE_PORTS[0]}-{NODE_PORTS[-1]}")
        elif not node_port:
            node_port = next(free for free in NODE_PORTS if free not in used)
        port["nodePort"] = node_port
        shared.setdefault(port.get("port"), node_port)
        own.add(node_port)
        used.add(node_port)


def _assigns_ports(spec: Object) -> bool:
    is_balanced = spec["type"] == "LoadBalancer"
    return not (is_balanced and spec.get("allocateLoadBalancerNodePorts") is False)


def _has_port(port: Object, other: Object) -> bool:
    return port.get("port") == other.get("port")


def keep_addresses(new: Object, old: Object) -> None:
    """Restores the addresses and node ports that a change omits; drops those of another type."""
    spec, before = new["spec"], old["spec"]
    if "status" in old:
        new["status"] = old["status"]
        if spec["type"] != "LoadBalancer":
            new["status"] = {**old["status"], "loadBalancer": {}}
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
        if before["type"] != "ExternalName":
            _drop_unchanged(spec, before, *_FAMILY_FIELDS)
    elif before["type"] != "ExternalName":
        for name in _FAMILY_FIELDS:
            if name in before and not spec.get(name):
                spec[name] = before[name]
        if spec["type"] in _WITH_NODE_PORTS and before["type"] in _WITH_NODE_PORTS:
            _keep_ports(spec, before)
    _drop_fields_of_type(spec, before)


def _keep_ports(spec: Object, before: Object) -> None:
    node_ports = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        if not port.get("nodePort") and node_ports.get(_port_key(port)):
            port["nodePort"] = node_ports[_port_key(port)]


def _drop_fields_of_type(spec: Object, before: Object) -> None:
    """Removes what an earlier type needed, unless the client has changed it.

    Source: pkg/registry/core/service/strategy.go (dropTypeDependentFields).
    """
    if (
        _has_node_ports(before)
        and not _has_node_ports(spec)
        and _node_ports(spec) == _node_ports(before)
    ):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if _is_checked(before) and not _is_checked(spec):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before["type"] == "LoadBalancer" != spec["type"]:
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _is_external(before) and not _is_external(spec):
        _drop_unchanged(spec, before, "externalTrafficPolicy")


def _drop_unchanged(spec: Object, before: Object, *names: str) -> None:
    for name in names:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _has_node_ports(spec: Object) -> bool:
    return spec["type"] in _WITH_NODE_PORTS and (spec["type"] == "NodePort" or _assigns_ports(spec))


def _node_ports(spec: Object) -> set[object]:
    return {port.get("nodePort") or 0 for port in spec.get("ports") or ()}


def _is_checked(spec: Object) -> bool:
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _is_external(spec: Object) -> bool:
    """Returns whether clients outside of the cluster can reach a service."""
    return spec["type"] in _WITH_NODE_PORTS or bool(
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    )


def _port_key(port: Object) -> tuple[object, object]:
    return port.get("protocol"), port.get("port")


def validate_addresses(new: Object, old: Object) -> Errors:
    """Validates that a service keeps its address."""
    spec, before = new["spec"], old["spec"]
    if "ExternalName" in (spec["type"], before["type"]) or not before.get("clusterIP"):
        return
    if spec.get("clusterIP") != before["clusterIP"]:
        addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
        yield invalid("spec.clusterIPs[0]", addresses, "may not change once set")
