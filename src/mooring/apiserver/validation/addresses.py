"""Validation of addresses and ranges of addresses, with kube-apiserver's messages.

Fields that are older than Kubernetes' strict rules accept IPv6 in any form; newer ones accept the
canonical form alone. Neither accepts leading zeros or an IPv4-mapped IPv6 address.

Source: k8s.io/apimachinery pkg/util/validation/ip.go (with the gate StrictIPCIDRValidation, which
is on by default); pkg/apis/core/validation/validation.go (ValidateEndpointIP).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from functools import lru_cache
from typing import Final

from mooring.apiserver.addresses import (
    PREFIX_OF_MAPPED,
    Address,
    address_of,
    interface_of,
    is_mapped,
    network_of,
    sloppy_address_of,
    unmapped,
)
from mooring.apiserver.errors import Errors, invalid

NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
IS_ADDRESS: Final = "must be a DNS name, not an IP address"
_MAPPED_ADDRESS: Final = "must not be an IPv4-mapped IPv6 address"
_ADDRESS_WITH_ZEROS: Final = "must not have leading 0s"
_NO_DESTINATION: Final = "must be a valid IP address"
_NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_CIDR_WITH_ZEROS: Final = "must not have leading 0s in IP or prefix length"
_MAPPED_CIDR: Final = "must not have an IPv4-mapped IPv6 address"
_HOST_BITS: Final = "must not have bits set beyond the prefix length"
_NO_INTERFACE_ADDRESS: Final = (
    "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
)
#: Longer texts are not cached: they are not addresses, unless they have many leading zeros.
_CACHED_LENGTH_MAX: Final = 45


def validate_ip(text: str, field: str, earlier: Container[str] = ()) -> Errors:
    """Validates an address, IPv6 in any form; ``earlier`` ones stay valid."""
    problem = "" if text in earlier else _address_problem(text)
    return [invalid(field, text, problem)] if problem else ()


def validate_canonical_ip(text: str, field: str) -> Errors:
    """Validates an address in its canonical form."""
    problem = canonical_ip_problem(text)
    return [invalid(field, text, problem)] if problem else ()


def canonical_ip_problem(text: str) -> str:
    """Returns why a text is no address in its canonical form; empty if it is."""
    problem, address = _address_problem(text), address_of(text)
    if problem or text == str(address):
        return problem
    return f'must be in canonical form ("{address}")'


def _address_problem(text: str) -> str:
    address = address_of(text)
    if address is None:
        return NO_ADDRESS if sloppy_address_of(text) is None else _ADDRESS_WITH_ZEROS
    return _MAPPED_ADDRESS if is_mapped(address) else ""


def validate_destination(text: str, field: str) -> Errors:
    """Validates an address that traffic is sent to: that of no special network."""
    is_short = len(text) <= _CACHED_LENGTH_MAX
    problems = _destination_problems(text) if is_short else _destination_problems.__wrapped__(text)
    return [invalid(field, text, problem) for problem in problems]


@lru_cache(maxsize=16_384)
def _destination_problems(text: str) -> tuple[str, ...]:
    parsed = sloppy_address_of(text)
    if parsed is None:
        return (_NO_DESTINATION,)
    address, problems = unmapped(parsed), []
    if address.is_unspecified:
        problems.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if _is_link_local_multicast(address):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    elif address.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    return tuple(problems)


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def validate_cidr(text: str, field: str, earlier: Container[str] = ()) -> Errors:
    """Validates a range of addresses, IPv6 in any form; ``earlier`` ones stay valid."""
    problem = "" if text in earlier else _cidr_problem(text)
    return [invalid(field, text, problem)] if problem else ()


def validate_canonical_cidr(text: str, field: str) -> Errors:
    """Validates a range of addresses in its canonical form."""
    problem, network = _cidr_problem(text), network_of(text)
    if not problem and text != str(network):
        problem = f'must be in canonical form ("{network}")'
    return [invalid(field, text, problem)] if problem else ()


def _cidr_problem(text: str) -> str:
    parts = interface_of(text)
    if parts is None:
        return _NO_CIDR
    address, length = parts
    text, _, length_text = text.partition("/")
    if address_of(text) is None or length_text != str(length):
        return _CIDR_WITH_ZEROS
    if is_mapped(address):
        return _MAPPED_CIDR
    network = ipaddress.ip_network(parts, strict=False)
    return "" if network.network_address == address else _HOST_BITS


def validate_interface_address(text: str, field: str) -> Errors:
    """Validates an address with the length of its prefix, in its canonical form."""
    parts = interface_of(text)
    if parts is None:
        return [invalid(field, text, _NO_INTERFACE_ADDRESS)]
    address, length = parts
    shown_length = length
    if is_mapped(address) and length > unmapped(address).max_prefixlen:
        shown_length -= PREFIX_OF_MAPPED
    canonical = f"{unmapped(address)}/{shown_length}"
    if text == canonical:
        return ()
    return [invalid(field, text, f'must be in canonical form ("{canonical}")')]
