"""Validation of Services, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateService, validateServicePort,
ValidateServiceClusterIPsRelatedFields).
Differs: the old ranges of a service that changes are validated again; addresses are parsed by
Python.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, duplicate, forbidden_field, invalid, required
from mooring.apiserver.validation.metadata import validate_labels
from mooring.apiserver.validation.networking import validate_cidr
from mooring.apiserver.validation.rules import field_errors, one_of, required_one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.types import Object

PROTOCOLS = ("SCTP", "TCP", "UDP")
HEADLESS = "None"
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_EXTERNAL_TYPES = ("LoadBalancer", "NodePort")
_AFFINITY_S_MAX = 86400


def validate_service(service: Object) -> Errors:
    """Validates a new service.

    Its addresses are allocated first: what is wrong with them hides all else.
    """
    spec = service["spec"]
    if spec.get("type") != "ExternalName":
        problems = [*_validate_families(spec), *_validate_addresses(spec)]
        if problems:
            yield from problems
            return
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    is_headless = spec.get("clusterIP") == HEADLESS
    if not ports and not is_headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind in _EXTERNAL_TYPES and is_headless:
        problem = f"may not be set to 'None' for {kind} services"
        yield invalid("spec.clusterIPs[0]", HEADLESS, problem)
    elif kind == "ExternalName":
        yield from _validate_external_name(spec)
    yield from _validate_ports(ports)
    yield from validate_labels(spec.get("selector") or {}, "spec.selector")
    yield from _validate_affinity(spec)
    for number, address in enumerate(spec.get("externalIPs") or ()):
        if address_of(address) is None:
            yield invalid(f"spec.externalIPs[{number}]", address, NO_ADDRESS)
    yield from required_one_of("spec.type", kind, _TYPES)
    yield from _validate_uniqueness(ports, kind)
    yield from _validate_traffic(spec)


def _validate_external_name(spec: Object) -> Errors:
    problem = "may not be set for ExternalName services"
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden_field(f"spec.{name}", problem)
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        yield from field_errors("spec.externalName", name, names.dns_subdomain)
    else:
        yield required("spec.externalName")


def _validate_ports(ports: Sequence[Object]) -> Errors:
    port_names: set[str] = set()
    for number, port in enumerate(ports):
        field, name = f"spec.ports[{number}]", port.get("name", "")
        if name:
            yield from field_errors(f"{field}.name", name, names.dns_label)
            if name in port_names:
                yield duplicate(f"{field}.name", name)
            port_names.add(name)
        elif len(ports) > 1:
            yield required(f"{field}.name")
        yield from field_errors(f"{field}.port", port.get("port", 0), names.port_number)
        yield from required_one_of(f"{field}.protocol", port.get("protocol", ""), PROTOCOLS)
        target = port.get("targetPort", 0)
        check: Any = names.port_name if isinstance(target, str) else names.port_number
        yield from field_errors(f"{field}.targetPort", target, check)
        if port.get("appProtocol") is not None:
            protocol = port["appProtocol"]
            yield from field_errors(f"{field}.appProtocol", protocol, names.qualified_name)


def _validate_affinity(spec: Object) -> Errors:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    yield from required_one_of("spec.sessionAffinity", affinity, _AFFINITIES)
    field = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        yield forbidden_field(field, "must not be set when session affinity is None")
    if affinity != "ClientIP":
        return
    client = None if config is None else config.get("clientIP")
    if config is None:
        yield required(field, "when session affinity type is ClientIP")
    elif client is None:
        yield required(f"{field}.clientIP", "when session affinity type is ClientIP")
    elif client.get("timeoutSeconds") is None:
        problem = "when session affinity type is ClientIP"
        yield required(f"{field}.clientIP.timeoutSeconds", problem)
    elif not 0 < client["timeoutSeconds"] <= _AFFINITY_S_MAX:
        problem = f"must be greater than 0 and less than {_AFFINITY_S_MAX}"
        yield invalid(f"{field}.clientIP.timeoutSeconds", client["timeoutSeconds"], problem)


def _validate_families(spec: Object) -> Errors:
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    # A client may set one address only: the list is filled in later.
    if address and addresses and addresses[0] != address:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    elif addresses and not address:
        problem = "must be empty when `clusterIP` is not specified"
        yield invalid("spec.clusterIPs", addresses, problem)
    families: set[str] = set()
    for number, family in enumerate(spec.get("ipFamilies") or ()):
        field = f"spec.ipFamilies[{number}]"
        yield from one_of(field, family, _FAMILIES)
        if family in families:
            yield duplicate(field, family)
        families.add(family)
    yield from one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)


def _validate_addresses(spec: Object) -> Errors:
    field, families = "spec.clusterIPs", spec.get("ipFamilies") or ()
    addresses = spec.get("clusterIPs") or [spec["clusterIP"]] if spec.get("clusterIP") else []
    parsed = [address_of(address) for address in addresses]
    has_problem = False
    for number, address in enumerate(addresses):
        if number == 0 and address == HEADLESS:
            if len(addresses) > 1:
                has_problem = True
                yield invalid(field, addresses, "'None' must be the first and only value")
        elif parsed[number] is None:
            has_problem = True
            yield invalid(f"{field}[{number}]", address, NO_ADDRESS)
    if len(addresses) > 2:
        yield invalid(field, addresses, "may only hold up to 2 values")
    if has_problem or HEADLESS in addresses:
        return
    versions = [address.version for address in parsed if address is not None]
    if len(addresses) > 1 and len(set(versions)) < 2:
        yield invalid(field, addresses, "may specify no more than one IP for each IP family")
    for number, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{versions[number]}":
            problem = f"expected an {family} value as indicated by `ipFamilies[{number}]`"
            yield invalid(f"{field}[{number}]", address, problem)


def _validate_uniqueness(ports: Sequence[Object], kind: str) -> Errors:
    node_ports: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            problem = "may not be used when `type` is 'ClusterIP'"
            yield forbidden_field(f"spec.ports[{number}].nodePort", problem)
    for number, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("nodePort", 0))
        if key[1] and key in node_ports:
            yield duplicate(f"spec.ports[{number}].nodePort", key[1])
        node_ports.add(key)
    keys: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        protocol, own = port.get("protocol", ""), port.get("port", 0)
        if (protocol, own) in keys:
            internal = {
                "Name": "", "Protocol": protocol, "AppProtocol": None, "Port": own,
                "TargetPort": 0, "NodePort": 0,
            }  # fmt: skip
            yield duplicate(f"spec.ports[{number}]", internal)
        keys.add((protocol, own))


def _validate_traffic(spec: Object) -> Errors:
    kind = spec.get("type", "")
    problem = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        yield forbidden_field("spec.LoadBalancerSourceRanges", problem)
    yield from (
        error
        for number, text in enumerate(spec.get("loadBalancerSourceRanges") or ())
        for error in validate_cidr(text.strip(), f"spec.LoadBalancerSourceRanges[{number}]")
    )
    if kind != "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            yield forbidden_field("spec.allocateLoadBalancerNodePorts", problem)
        if spec.get("loadBalancerClass") is not None:
            yield forbidden_field("spec.loadBalancerClass", problem)
    elif spec.get("loadBalancerClass") is not None:
        name = spec["loadBalancerClass"]
        yield from field_errors("spec.loadBalancerClass", name, names.qualified_name)
    policy, field = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    is_external = kind in _EXTERNAL_TYPES
    is_external = is_external or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if is_external:
        yield from required_one_of(field, policy, _TRAFFIC_POLICIES)
    elif policy:
        yield invalid(field, policy, "may only be set for externally-accessible services")
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is "
        number = spec["healthCheckNodePort"]
        yield invalid("spec.healthCheckNodePort", number, f"{problem}'Local'")
    internal = spec.get("internalTrafficPolicy")
    if internal is None and kind in ("ClusterIP", *_EXTERNAL_TYPES):
        yield required("spec.internalTrafficPolicy")
    yield from one_of("spec.internalTrafficPolicy", internal, _TRAFFIC_POLICIES)
    distribution = spec.get("trafficDistribution")
    yield from one_of("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns a parsed address; None if it is none. As in Go, a zone is not part of one."""
    try:
        return ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None
