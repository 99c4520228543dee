"""Validation of Services, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateService, validateServicePort,
ValidateServiceClusterIPsRelatedFields).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.addresses import is_dual_stack, sloppy_address_of, unmapped
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from mooring.apiserver.validation.addresses import validate_cidr, validate_destination, validate_ip
from mooring.apiserver.validation.metadata import validate_labels
from mooring.apiserver.validation.rules import field_errors, one_of, required_one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.types import Object

PROTOCOLS = ("SCTP", "TCP", "UDP")
HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_EXTERNAL_TYPES = ("LoadBalancer", "NodePort")
_AFFINITY_S_MAX = 86400
_ADDRESSES_MAX = 2
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_NO_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate_service(service: Object, old: Object | None = None) -> Errors:
    """Validates a new or changed service; addresses and ranges that it has already stay valid.

    Its addresses are allocated first: what is wrong with them hides all else.
    """
    spec = service["spec"]
    before: Object = {} if old is None else old["spec"]
    if spec.get("type") != "ExternalName":
        earlier = before.get("clusterIPs") or ()
        problems = [*_validate_families(spec), *_validate_addresses(spec, earlier)]
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
        field = f"spec.externalIPs[{number}]"
        problems = list(validate_ip(address, field, before.get("externalIPs") or ()))
        yield from problems or validate_destination(address, field)
    yield from required_one_of("spec.type", kind, _TYPES)
    yield from _validate_uniqueness(ports, kind)
    yield from _validate_source_ranges(service, old)
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


def _validate_addresses(spec: Object, earlier: Sequence[str]) -> Errors:
    field, families = "spec.clusterIPs", spec.get("ipFamilies") or ()
    addresses = spec.get("clusterIPs") or [spec["clusterIP"]] if spec.get("clusterIP") else []
    problems: list[FieldError] = []
    for number, address in enumerate(addresses):
        if number or address != HEADLESS:
            problems += validate_ip(address, f"{field}[{number}]", earlier)
        elif len(addresses) > 1:
            problem = "'None' must be the first and only value"
            problems.append(invalid(field, addresses, problem))
    yield from problems
    if len(addresses) > _ADDRESSES_MAX:
        yield invalid(field, addresses, "may only hold up to 2 values")
    if problems:
        return
    parsed = [address for address in map(sloppy_address_of, addresses) if address is not None]
    if len(addresses) > 1 and not is_dual_stack(parsed):
        yield invalid(field, addresses, "may specify no more than one IP for each IP family")
    for number, (address, family) in enumerate(zip(parsed, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{unmapped(address).version}":
            problem = f"expected an {family} value as indicated by `ipFamilies[{number}]`"
            yield invalid(f"{field}[{number}]", addresses[number], problem)


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


def _validate_source_ranges(service: Object, old: Object | None) -> Errors:
    """Validates the ranges of a load balancer's clients, or those of the annotation before them."""
    spec, annotation = service["spec"], _annotated_ranges(service)
    before = {} if old is None else old["spec"]
    ranges, earlier = (
        [text.strip() for text in obj.get("loadBalancerSourceRanges") or ()]
        for obj in (spec, before)
    )
    if not ranges and annotation is None:
        return
    field = "spec.LoadBalancerSourceRanges"
    if not ranges:
        field = f"metadata.annotations[{_SOURCE_RANGES}]"
    if spec.get("type") != "LoadBalancer":
        yield forbidden_field(field, _NO_LOAD_BALANCER)
    for number, text in enumerate(ranges):
        yield from validate_cidr(text, f"{field}[{number}]", earlier)
    is_new = old is None or _annotated_ranges(old) != annotation
    if not ranges and annotation and annotation.strip() and is_new:
        for text in annotation.split(","):
            yield from validate_cidr(text.strip(), field)


def _annotated_ranges(service: Object) -> str | None:
    annotations: dict[str, str] = service["metadata"].get("annotations") or {}
    return annotations.get(_SOURCE_RANGES)


def _validate_traffic(spec: Object) -> Errors:
    kind = spec.get("type", "")
    if kind != "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            yield forbidden_field("spec.allocateLoadBalancerNodePorts", _NO_LOAD_BALANCER)
        if spec.get("loadBalancerClass") is not None:
            yield forbidden_field("spec.loadBalancerClass", _NO_LOAD_BALANCER)
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
