"""Warnings about IPv6 addresses and CIDRs that are not in their canonical form.

All other forms that are not standard are errors.

Source: k8s.io/apimachinery, pkg/util/validation/ip.go (GetWarningsForIP, GetWarningsForCIDR).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

from mooring.apiserver.errors import quoted


def address_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an IPv6 address that is not canonical."""
    yield from _canonical_warning(field, "IPv6 address", text, ipaddress.IPv6Address)


def cidr_warnings(field: str, text: str) -> Iterator[str]:
    """Yields the warning of an IPv6 CIDR that is not canonical."""
    yield from _canonical_warning(field, "IPv6 CIDR value", text, ipaddress.IPv6Network)


def _canonical_warning(
    field: str, subject: str, text: str, parse: Callable[[str], object]
) -> Iterator[str]:
    try:
        canonical = str(parse(text))
    except ValueError:
        return
    if canonical != text:
        form = f"RFC 5952 canonical format ({quoted(canonical)})"
        yield f"{field}: {subject} {quoted(text)} should be in {form}"
