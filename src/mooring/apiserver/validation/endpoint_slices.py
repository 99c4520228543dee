"""Validation of EndpointSlices, with kube-apiserver's messages.

Source: pkg/apis/discovery/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.addresses import address_of
from mooring.apiserver.errors import Errors, duplicate, invalid, not_supported, required, too_many
from mooring.apiserver.validation.addresses import (
    validate_canonical_ip,
    validate_destination,
    validate_ip,
)
from mooring.apiserver.validation.rules import field_errors, immutable, one_of
from mooring.apiserver.validation.services import PROTOCOLS

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_TYPES = ("FQDN", "IPv4", "IPv6")
_ADDRESSES_MAX = 100
_PORTS_MAX = 20_000
_ENDPOINTS_MAX = 1_000
_HINTS_MAX = 8


def validate_endpoint_slice(endpoint_slice: Object, old: Object | None = None) -> Errors:
    """Validates a new or changed EndpointSlice; endpoints that do not change are not refused."""
    kind, endpoints = endpoint_slice.get("addressType", ""), endpoint_slice.get("endpoints") or []
    if not kind:
        yield required("addressType")
    elif kind not in _TYPES:
        yield not_supported("addressType", kind, _TYPES)
    yield from _validate_ports(endpoint_slice.get("ports") or [])
    if old is not None and endpoints == (old.get("endpoints") or []):
        return
    if len(endpoints) > _ENDPOINTS_MAX:
        yield too_many("endpoints", len(endpoints), _ENDPOINTS_MAX)
        return
    for number, endpoint in enumerate(endpoints):
        yield from _validate_endpoint(endpoint, f"endpoints[{number}]", kind)


def validate_endpoint_slice_update(new: Object, old: Object) -> Errors:
    """Validates a changed EndpointSlice: the type of its addresses is immutable."""
    yield from validate_endpoint_slice(new, old)
    yield from immutable(new, old, "addressType")


def _validate_ports(ports: list[Object]) -> Errors:
    if len(ports) > _PORTS_MAX:
        yield too_many("ports", len(ports), _PORTS_MAX)
        return
    port_names: set[str] = set()
    for number, port in enumerate(ports):
        field, name = f"ports[{number}]", port.get("name") or ""
        if name:
            yield from field_errors(f"{field}.name", name, names.dns_label)
        if name in port_names:
            yield duplicate(f"{field}.name", name)
        port_names.add(name)
        if port.get("protocol") is None:
            yield required(f"{field}.protocol")
        yield from one_of(f"{field}.protocol", port.get("protocol"), PROTOCOLS)
        if port.get("appProtocol") is not None:
            protocol = port["appProtocol"]
            yield from field_errors(f"{field}.appProtocol", protocol, names.qualified_name)


def _validate_address(text: str, field: str, number: int, kind: str) -> Errors:
    """Validates an address; those of IPv6 must be canonical."""
    validate = validate_canonical_ip if kind == "IPv6" else validate_ip
    problems = list(validate(text, f"{field}[{number}]"))
    yield from problems
    address = None if problems else address_of(text)
    if address is None:
        return
    if f"IPv{address.version}" != kind:
        yield invalid(field, text, f"must be an {kind} address")
    yield from validate_destination(text, f"{field}[{number}]")


def _validate_endpoint(endpoint: Object, field: str, kind: str) -> Errors:
    addresses, address_field = endpoint.get("addresses") or [], f"{field}.addresses"
    if not addresses:
        yield required(address_field, "must contain at least 1 address")
    elif len(addresses) > _ADDRESSES_MAX:
        yield too_many(address_field, len(addresses), _ADDRESSES_MAX)
    for number, text in enumerate(addresses):
        if kind == "FQDN":
            yield from field_errors(f"{address_field}[{number}]", text, names.dns_subdomain)
        if kind in ("IPv4", "IPv6"):
            yield from _validate_address(text, address_field, number, kind)
    if endpoint.get("nodeName") is not None:
        yield from field_errors(f"{field}.nodeName", endpoint["nodeName"], names.dns_subdomain)
    if endpoint.get("hostname") is not None:
        yield from field_errors(f"{field}.hostname", endpoint["hostname"], names.dns_label)
    hints = endpoint.get("hints") or {}
    for name, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        entries = hints.get(name) or []
        if len(entries) > _HINTS_MAX:
            yield too_many(f"{field}.hints.{name}", len(entries), _HINTS_MAX)
            return
        values: set[str] = set()
        for number, entry in enumerate(entries):
            hint_field, hint = f"{field}.hints.{name}[{number}].name", entry.get("name", "")
            if hint in values:
                yield duplicate(hint_field, hint)
            values.add(hint)
            yield from field_errors(hint_field, hint, check)
