"""Parses IP addresses as Go's net/netip does, with its reasons for refusing a text.

Source: Go 1.26, net/netip/netip.go.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

from mooring.objects.go_text import go_quote

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressProblem(Exception):
    """A text that is not an address, with Go's reason."""

    def __init__(self, text: str, problem: str, at: str = "") -> None:
        place = f" (at {go_quote(at)})" if at else ""
        super().__init__(f"ParseAddr({go_quote(text)}): {problem}{place}")


def parse_address(text: str) -> tuple[Address, str]:
    """Returns the address and the zone of a text.

    Raises:
        AddressProblem: It is not an address.
    """
    match = re.search(r"[.:%]", text)
    if match is None:
        raise AddressProblem(text, "unable to parse IP")
    if match[0] == "%":
        raise AddressProblem(text, "missing IPv6 address")
    if match[0] == ".":
        return ipaddress.IPv4Address(bytes(_ipv4_fields(text, text))), ""
    address, percent, zone = text.partition("%")
    if percent and not zone:
        raise AddressProblem(text, "zone must be a non-empty string")
    return ipaddress.IPv6Address(_ipv6_bytes(text, address)), zone


def _ipv4_fields(text: str, part: str) -> list[int]:
    fields: list[int] = []
    value = n_digits = 0
    for index, character in enumerate(part):
        if character in "0123456789":
            if n_digits == 1 and value == 0:
                raise AddressProblem(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            n_digits += 1
            if value > 255:
                raise AddressProblem(text, "IPv4 field has value >255")
        elif character == ".":
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise AddressProblem(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 3:
                raise AddressProblem(text, "IPv4 address too long")
            fields.append(value)
            value = n_digits = 0
        else:
            raise AddressProblem(text, "unexpected character", part[index:])
    if len(fields) < 3:
        raise AddressProblem(text, "IPv4 address too short")
    return [*fields, value]


def _ipv6_bytes(text: str, rest: str) -> bytes:
    parsed = bytearray()
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
    while len(parsed) < 16 and rest:
        digits = _hex_group(text, rest)
        if rest[len(digits) : len(digits) + 1] == ".":
            if ellipsis < 0 and len(parsed) != 12:
                problem = "embedded IPv4 address must replace the final 2 fields of the address"
                raise AddressProblem(text, problem, rest)
            if len(parsed) + 4 > 16:
                problem = "too many hex fields to fit an embedded IPv4 at the end of the address"
                raise AddressProblem(text, problem, rest)
            parsed += bytes(_ipv4_fields(text, rest))
            rest = ""
            break
        parsed += int(digits, 16).to_bytes(2, "big")
        rest, ellipsis = _after_group(text, rest[len(digits) :], ellipsis, len(parsed))
    if rest:
        raise AddressProblem(text, "trailing garbage after address", rest)
    if len(parsed) < 16:
        if ellipsis < 0:
            raise AddressProblem(text, "address string too short")
        parsed[ellipsis:ellipsis] = bytes(16 - len(parsed))
    elif ellipsis >= 0:
        raise AddressProblem(text, "the :: must expand to at least one field of zeros")
    return bytes(parsed)


def _hex_group(text: str, rest: str) -> str:
    match = re.match(r"[0-9a-fA-F]*", rest)
    digits = match[0] if match is not None else ""
    if len(digits) > 4:
        raise AddressProblem(text, "each group must have 4 or less digits", rest)
    if not digits:
        problem = "each colon-separated field must have at least one digit"
        raise AddressProblem(text, problem, rest)
    return digits


def _after_group(text: str, rest: str, ellipsis: int, n_parsed: int) -> tuple[str, int]:
    """Returns what follows a group and its colon, and the position of the ellipsis."""
    if not rest:
        return rest, ellipsis
    if rest[0] != ":":
        raise AddressProblem(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise AddressProblem(text, "colon must be followed by more characters", rest)
    rest = rest[1:]
    if rest[0] != ":":
        return rest, ellipsis
    if ellipsis >= 0:
        raise AddressProblem(text, "multiple :: in address", rest)
    return rest[1:], n_parsed
