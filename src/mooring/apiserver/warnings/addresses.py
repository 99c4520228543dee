"""Warnings about IPv6 addresses and CIDRs that are not in their canonical form.

All other forms that are not standard are errors.

Source: k8s.io/apimachinery, pkg/util/validation/ip.go (GetWarningsForIP, GetWarningsForCIDR).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from mooring.apiserver.errors import quoted


def address_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an IPv6 address that is not canonical."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return
    if str(address) != text:
        canonical = f"RFC 5952 canonical format ({quoted(str(address))})"
        yield f"{field}: IPv6 address {quoted(text)} should be in {canonical}"


def cidr_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an IPv6 CIDR that is not canonical."""
    try:
        network = ipaddress.IPv6Network(text)
    except ValueError:
        return
    if str(network) != text:
        canonical = f"RFC 5952 canonical format ({quoted(str(network))})"
        yield f"{field}: IPv6 CIDR value {quoted(text)} should be in {canonical}"
