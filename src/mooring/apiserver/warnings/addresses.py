"""Warnings about addresses and CIDRs that are not in their canonical form.

Only the load balancer's address of a Service is not validated, so it alone can have leading zeros
or be an IPv4-mapped IPv6 address. In other fields these are errors.

Source: k8s.io/apimachinery, pkg/util/validation/ip.go (GetWarningsForIP, GetWarningsForCIDR).
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.apiserver.addresses import (
    address_of,
    is_mapped,
    network_of,
    sloppy_address_of,
    unmapped,
)
from mooring.apiserver.errors import quoted


def address_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an address that is not canonical."""
    address = sloppy_address_of(text)
    if address is None:
        return
    if address_of(text) is None or is_mapped(address):
        canonical = quoted(str(unmapped(address)))
        yield f"{field}: non-standard IP address {quoted(text)} is invalid: use {canonical}"
    elif str(address) != text:
        yield _not_canonical(field, "IPv6 address", text, str(address))


def cidr_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an IPv6 CIDR that is not canonical."""
    network = network_of(text)
    if network is not None and network.version == 6 and str(network) != text:
        yield _not_canonical(field, "IPv6 CIDR value", text, str(network))


def _not_canonical(field: str, subject: str, text: str, canonical: str) -> str:
    form = f"RFC 5952 canonical format ({quoted(canonical)})"
    return f"{field}: {subject} {quoted(text)} should be in {form}"
