"""Validation of Endpoints, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateEndpointSubsets, ValidateEndpointIP).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, required
from mooring.apiserver.validation.rules import field_errors, required_one_of
from mooring.apiserver.validation.services import NO_ADDRESS, PROTOCOLS, address_of

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from mooring.apiserver.types import Object

NOT_AN_ADDRESS: Final = "must be a valid IP address"
#: An IPv6 address with the last 32 bits in the form of IPv4.
_LENGTH_MAX: Final = 45


def validate_endpoints(endpoints: Object) -> Errors:
    """Validates new or changed Endpoints."""
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


def _validate_address(address: Object, field: str) -> Errors:
    text = address.get("ip", "")
    if NOT_AN_ADDRESS in _problems_of(text):
        yield invalid(f"{field}.ip", text, NO_ADDRESS)
    if address.get("hostname"):
        yield from field_errors(f"{field}.hostname", address["hostname"], names.dns_label)
    if address.get("nodeName") is not None:
        yield from field_errors(f"{field}.nodeName", address["nodeName"], names.dns_subdomain)
    yield from validate_network(text, f"{field}.ip")


def validate_network(text: str, field: str) -> Errors:
    """Validates an address that traffic is sent to: that of no special network."""
    for problem in _problems_of(text):
        yield invalid(field, text, problem)


def _problems_of(text: str) -> tuple[str, ...]:
    """Returns why traffic cannot be sent to an address."""
    return _address_problems(text) if len(text) <= _LENGTH_MAX else (NOT_AN_ADDRESS,)


@lru_cache(maxsize=16_384)
def _address_problems(text: str) -> tuple[str, ...]:
    address = address_of(text)
    if address is None:
        return (NOT_AN_ADDRESS,)
    problems = []
    if address.is_unspecified:
        problems.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if _is_link_local_multicast(address):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    elif address.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    return tuple(problems)


def _is_link_local_multicast(address: IPv4Address | IPv6Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


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
