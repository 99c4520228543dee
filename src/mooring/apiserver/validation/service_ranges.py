"""Validation of IPAddresses and ServiceCIDRs, with kube-apiserver's messages.

Source: pkg/apis/networking/validation/validation.go (ValidateIPAddress, ValidateServiceCIDR).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.addresses import network_of, sloppy_address_of, unmapped
from mooring.apiserver.errors import Errors, invalid, required
from mooring.apiserver.validation.addresses import canonical_ip_problem, validate_canonical_cidr
from mooring.apiserver.validation.rules import (
    IMMUTABLE,
    field_errors,
    immutable,
    required_value,
)

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_CIDRS_MAX = 2
_CIDRS = "spec.cidrs"


def address_name(text: str) -> names.Problems:
    """Validates the name of an IPAddress: an address in its shortest form."""
    problem = canonical_ip_problem(text)
    return (problem,) if problem else ()


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
    for number, text in enumerate(cidrs):
        yield from validate_canonical_cidr(text, f"{_CIDRS}[{number}]")
    addresses = [sloppy_address_of(text.partition("/")[0]) for text in cidrs if network_of(text)]
    versions = [unmapped(address).version for address in addresses if address is not None]
    if len(versions) == _CIDRS_MAX and versions[0] == versions[1]:
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
