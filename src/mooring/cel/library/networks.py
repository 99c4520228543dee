"""IP addresses and networks.

Source: apiserver v0.36.3, pkg/cel/library/ip.go, cidr.go; Go's net/netip for parsing and texts.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.golang.addresses import Address, AddressProblem, parse_address
from mooring.cel.types import BOOL, CIDR, INT, IP, STRING
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value
from mooring.objects.go_text import go_quote


class IPValue:
    """An IP address without zone."""

    __slots__ = ("address",)
    cel_type = IP

    def __init__(self, address: Address) -> None:
        self.address = address

    @property
    def n_bytes(self) -> int:
        """Size of the address: 4 or 16."""
        return self.address.max_prefixlen // 8

    @property
    def identity(self) -> object:
        """The value as a key of a map."""
        return self.address

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether addresses are equal; other types are refused."""
        return self.address == other.address if isinstance(other, IPValue) else NO_OVERLOAD

    def __str__(self) -> str:
        return str(self.address)


class CIDRValue:
    """An address and the length of its network's prefix."""

    __slots__ = ("address", "n_bits")
    cel_type = CIDR

    def __init__(self, address: Address, n_bits: int) -> None:
        self.address = address
        self.n_bits = n_bits

    @property
    def n_bytes(self) -> int:
        """Size of the prefix, rounded up."""
        return -(-self.n_bits // 8)

    @property
    def identity(self) -> object:
        """The value as a key of a map."""
        return (self.address, self.n_bits)

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether address and length are equal; other types are refused."""
        if not isinstance(other, CIDRValue):
            return NO_OVERLOAD
        return self.address == other.address and self.n_bits == other.n_bits

    def prefix(self, n_bits: int) -> int:
        """Returns the first bits of the address."""
        return int(self.address) >> (self.address.max_prefixlen - n_bits)

    def __str__(self) -> str:
        return f"{self.address}/{self.n_bits}"


def _mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> IPValue | ErrorValue:
    try:
        address, zone = parse_address(text)
    except AddressProblem as problem:
        return ErrorValue(
            f"IP Address {go_quote(text)} parse error during conversion from string: {problem}"
        )
    if zone:
        return ErrorValue(f"IP address {go_quote(text)} with zone value is not allowed")
    if _mapped(address):
        return ErrorValue(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return IPValue(address)


def _cidr(text: str) -> CIDRValue | ErrorValue:
    head = "network address parse error during conversion from string: "
    try:
        address, n_bits = _prefix(text)
    except AddressProblem as problem:
        shown_problem = f"netip.ParsePrefix({go_quote(text)}): {problem}"
        return ErrorValue(head + head + shown_problem)
    if _mapped(address):
        return ErrorValue(f"{head}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return CIDRValue(address, n_bits)


class _PrefixProblem(AddressProblem):
    """A text that is not a network."""

    def __init__(self, problem: str) -> None:
        Exception.__init__(self, problem)


def _prefix(text: str) -> tuple[Address, int]:
    head, slash, bits = text.rpartition("/")
    if not slash:
        raise _PrefixProblem("no '/'")
    address, zone = parse_address(head)
    if zone:
        raise _PrefixProblem("IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"[0-9]|[1-9][0-9]{1,17}", bits, re.ASCII):
        raise _PrefixProblem(f"bad bits after slash: {go_quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise _PrefixProblem("prefix length out of range")
    return address, int(bits)


# ---------------------------------------------------------------- functions


def _is_canonical(text: str) -> Value:
    parsed = _ip(text)
    return parsed if isinstance(parsed, ErrorValue) else str(parsed) == text


def _is_link_local(value: IPValue) -> bool:
    return value.address.is_link_local


def _is_link_local_multicast(value: IPValue) -> bool:
    number = int(value.address)
    if value.n_bytes == 4:
        return number >> 8 == 0xE00000
    return number >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(value: IPValue) -> bool:
    address = value.address
    if value.n_bytes == 4 and (int(address) in (0, 2**32 - 1)):
        return False
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _contains_ip(network: CIDRValue, value: IPValue | ErrorValue) -> Value:
    if isinstance(value, ErrorValue):
        return NO_OVERLOAD
    if network.address.version != value.address.version:
        return False
    other = CIDRValue(value.address, network.n_bits)
    return network.prefix(network.n_bits) == other.prefix(network.n_bits)


def _contains_cidr(network: CIDRValue, other: CIDRValue | ErrorValue) -> Value:
    if isinstance(other, ErrorValue):
        return other
    if network.address.version != other.address.version or network.n_bits > other.n_bits:
        return False
    return network.prefix(network.n_bits) == other.prefix(network.n_bits)


def _masked(network: CIDRValue) -> CIDRValue:
    n_free = network.address.max_prefixlen - network.n_bits
    address = type(network.address)(int(network.address) >> n_free << n_free)
    return CIDRValue(address, network.n_bits)


_IP_CHECKS: Final = {
    "isUnspecified": ("ip_is_unspecified", lambda value: value.address.is_unspecified),
    "isLoopback": ("ip_is_loopback", lambda value: value.address.is_loopback),
    "isLinkLocalMulticast": ("ip_is_link_local_multicast", _is_link_local_multicast),
    "isLinkLocalUnicast": ("ip_is_link_local_unicast", _is_link_local),
    "isGlobalUnicast": ("ip_is_global_unicast", _is_global_unicast),
}

IP_LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "ip": [function("string_to_ip", (STRING,), IP, _ip)],
    "family": [method("ip_family", (IP,), INT, lambda value: value.address.version)],
    "ip.isCanonical": [function("ip_is_canonical", (STRING,), BOOL, _is_canonical)],
    **{
        name: [method(overload_id, (IP,), BOOL, check)]
        for name, (overload_id, check) in _IP_CHECKS.items()
    },
    "isIP": [
        function("is_ip", (STRING,), BOOL, lambda text: not isinstance(_ip(text), ErrorValue))
    ],
    "string": [function("ip_to_string", (IP,), STRING, str)],
}

CIDR_LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "cidr": [function("string_to_cidr", (STRING,), CIDR, _cidr)],
    "containsIP": [
        method(
            "cidr_contains_ip_string",
            (CIDR, STRING),
            BOOL,
            lambda network, text: _contains_ip(network, _ip(text)),
        ),
        method("cidr_contains_ip_ip", (CIDR, IP), BOOL, _contains_ip),
    ],
    "containsCIDR": [
        method(
            "cidr_contains_cidr_string",
            (CIDR, STRING),
            BOOL,
            lambda network, text: _contains_cidr(network, _cidr(text)),
        ),
        method("cidr_contains_cidr", (CIDR, CIDR), BOOL, _contains_cidr),
    ],
    "ip": [method("cidr_ip", (CIDR,), IP, lambda network: IPValue(network.address))],
    "prefixLength": [method("cidr_prefix_length", (CIDR,), INT, lambda network: network.n_bits)],
    "masked": [method("cidr_masked", (CIDR,), CIDR, _masked)],
    "isCIDR": [
        function("is_cidr", (STRING,), BOOL, lambda text: not isinstance(_cidr(text), ErrorValue))
    ],
    "string": [function("cidr_to_string", (CIDR,), STRING, str)],
}
