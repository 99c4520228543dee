"""Addresses and ranges of addresses, as Go and kube-apiserver parse them.

Source: Go's package net, ParseIP and ParseCIDR; k8s.io/utils net/parse.go, their forms that accept
leading zeros, and net/ipfamily.go.
Differs: addresses are parsed by Python.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![\da-fA-F])0+(?=[\da-fA-F])")
_LENGTH: Final = re.compile(r"[0-9]+")
_LENGTH_DIGITS_MAX: Final = 3
#: Bits of an IPv4-mapped IPv6 address before the IPv4 address.
PREFIX_OF_MAPPED: Final = 96
_TWO_FAMILIES: Final = 2


def address_of(text: str) -> Address | None:
    """Returns a parsed address; None if it is none. As in Go, a zone is not part of one."""
    try:
        return ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None


def sloppy_address_of(text: str) -> Address | None:
    """Returns a parsed address, whose numbers may have leading zeros; None if it is none."""
    return address_of(text) or address_of(_LEADING_ZEROS.sub("", text))


def unmapped(address: Address) -> Address:
    """Returns the IPv4 address that an IPv4-mapped IPv6 address stands for, else the address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def is_mapped(address: Address) -> bool:
    """Returns True if this is an IPv4-mapped IPv6 address."""
    return unmapped(address) is not address


def network_of(text: str) -> Network | None:
    """Returns the range of addresses that a text names, also with leading zeros; None if none."""
    parts = interface_of(text)
    return None if parts is None else ipaddress.ip_network(parts, strict=False)


def interface_of(text: str) -> tuple[Address, int] | None:
    """Returns an address and the length of its prefix."""
    text, slash, length = text.partition("/")
    address = sloppy_address_of(text) if slash else None
    if address is None or not _LENGTH.fullmatch(length):
        return None
    digits = length.lstrip("0") or "0"
    if len(digits) > _LENGTH_DIGITS_MAX or int(digits) > address.max_prefixlen:
        return None
    return address, int(digits)


def is_dual_stack(addresses: Sequence[Address]) -> bool:
    """Returns True if there is an address of each family, as in upstream's lists."""
    return len({unmapped(address).version for address in addresses}) == _TWO_FAMILIES


def is_strict_subset(inner: Network, outer: Network) -> bool:
    """Returns True if a range is a part of another one, but not all of it."""
    network, address = _unmapped_network(outer), unmapped(inner.network_address)
    return (
        network.version == address.version
        and address in network
        and outer.prefixlen < inner.prefixlen
    )


def _unmapped_network(network: Network) -> Network:
    address = network.network_address
    if not is_mapped(address):
        return network
    return ipaddress.ip_network((unmapped(address), network.prefixlen - PREFIX_OF_MAPPED))
