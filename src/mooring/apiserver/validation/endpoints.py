"""Validation of Endpoints, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateEndpointSubsets).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, required
from mooring.apiserver.validation.addresses import validate_destination, validate_ip
from mooring.apiserver.validation.rules import field_errors, required_one_of
from mooring.apiserver.validation.services import PROTOCOLS

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_endpoints(endpoints: Object) -> Errors:
    """Validates new Endpoints."""
    for number, subset in enumerate(endpoints.get("subsets") or ()):
        field, ports = f"subsets[{number}]", subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(field, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(kind) or ()):
                yield from _validate_address(address, f"{field}.{kind}[{position}]")
        for position, port in enumerate(ports):
            inner = f"{field}.ports[{position}]"
            yield from _validate_port(port, inner, needs_name=len(ports) > 1)


def validate_endpoints_update(new: Object, old: Object) -> Errors:
    """Validates changed Endpoints; subsets that do not change are not refused."""
    if (new.get("subsets") or []) != (old.get("subsets") or []):
        yield from validate_endpoints(new)


def _validate_address(address: Object, field: str) -> Errors:
    text = address.get("ip", "")
    yield from validate_ip(text, f"{field}.ip")
    if address.get("hostname"):
        yield from field_errors(f"{field}.hostname", address["hostname"], names.dns_label)
    if address.get("nodeName") is not None:
        yield from field_errors(f"{field}.nodeName", address["nodeName"], names.dns_subdomain)
    yield from validate_destination(text, f"{field}.ip")


def _validate_port(port: Object, field: str, *, needs_name: bool) -> Errors:
    name = port.get("name", "")
    if name:
        yield from field_errors(f"{field}.name", name, names.dns_label)
    elif needs_name:
        yield required(f"{field}.name")
    yield from field_errors(f"{field}.port", port.get("port", 0), names.port_number)
    yield from required_one_of(f"{field}.protocol", port.get("protocol"), PROTOCOLS)
    if port.get("appProtocol") is not None:
        yield from field_errors(f"{field}.appProtocol", port["appProtocol"], names.qualified_name)
