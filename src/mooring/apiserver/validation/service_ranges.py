"""Validation of IPAddresses and ServiceCIDRs, with kube-apiserver's messages.

Source: pkg/apis/networking/validation/validation.go (ValidateIPAddress, ValidateServiceCIDR);
apimachinery pkg/util/validation/ip.go.
Differs: an address or prefix length with leading zeros is called invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, required
from mooring.apiserver.validation.networking import network_of, validate_cidr
from mooring.apiserver.validation.rules import (
    IMMUTABLE,
    field_errors,
    immutable,
    required_value,
)
from mooring.apiserver.validation.services import NO_ADDRESS, address_of

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_CIDRS_MAX = 2
_CIDRS = "spec.cidrs"


def address_name(text: str) -> names.Problems:
    """Validates the name of an IPAddress: an address in its shortest form."""
    address = address_of(text)
    if address is None:
        return (NO_ADDRESS,)
    if address.version == 6 and address.ipv4_mapped is not None:
        return ("must not be an IPv4-mapped IPv6 address",)
    return () if text == str(address) else (f'must be in canonical form ("{address}")',)


def validate_ip_address(ip_address: Object) -> Errors:
    """Validates a new IPAddress."""
    parent, field = ip_address["spec"].get("parentRef"), "spec.parentRef"
    if parent is None:
        yield required(field)
        return
    if parent.get("group"):
        yield from field_errors(f"{field}.group", parent["group"], names.dns_subdomain)
    for name in ("resource", "name"):
        yield from required_value(f"{field}.{name}", parent.get(name, ""), names.path_segment)
    if parent.get("namespace"):
        yield from field_errors(f"{field}.namespace", parent["namespace"], names.path_segment)


def validate_ip_address_update(new: Object, old: Object) -> Errors:
    """Validates a changed IPAddress: its parent is immutable."""
    yield from validate_ip_address(new)
    yield from immutable(new["spec"], old["spec"], "parentRef", parent="spec.")


def validate_service_cidr(service_cidr: Object) -> Errors:
    """Validates a new ServiceCIDR."""
    cidrs = service_cidr["spec"].get("cidrs") or []
    if not cidrs:
        yield required(_CIDRS, "at least one CIDR required")
    elif len(cidrs) > _CIDRS_MAX:
        yield invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")
    else:
        yield from _validate_cidrs(cidrs)


def _validate_cidrs(cidrs: list[str]) -> Errors:
    networks = []
    for number, text in enumerate(cidrs):
        problems = list(validate_cidr(text, f"{_CIDRS}[{number}]"))
        yield from problems
        network = network_of(text)
        networks.append(network)
        if not problems and text != str(network):
            problem = f'must be in canonical form ("{network}")'
            yield invalid(f"{_CIDRS}[{number}]", text, problem)
    versions = [None if network is None else network.version for network in networks]
    if len(versions) == _CIDRS_MAX and versions[0] == versions[1] and versions[0] is not None:
        problem = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        yield invalid(_CIDRS, cidrs, problem)


def validate_service_cidr_update(new: Object, old: Object) -> Errors:
    """Validates a changed ServiceCIDR: a range of the other family may be added."""
    cidrs, before = new["spec"].get("cidrs") or [], old["spec"].get("cidrs") or []
    if len(cidrs) == len(before):
        for number, (text, old_text) in enumerate(zip(cidrs, before, strict=True)):
            if text != old_text:
                yield invalid(f"{_CIDRS}[{number}]", text, IMMUTABLE)
    elif (len(before), len(cidrs)) == (1, _CIDRS_MAX):
        if cidrs[0] != before[0]:
            yield invalid(f"{_CIDRS}[0]", cidrs[0], IMMUTABLE)
        yield from _validate_cidrs(cidrs)
    else:
        yield invalid(_CIDRS, cidrs, IMMUTABLE)
