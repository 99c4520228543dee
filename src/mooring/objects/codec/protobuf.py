"""Fields in the wire format of protocol buffers: what is written in it without a library.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _BYTES = 0, 2


def varint(number: int) -> bytes:
    """Returns an integer >= 0 in groups of seven bits.

    Example:
        >>> varint(300).hex()
        'ac02'
    """
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def int_field(number: int, value: int) -> bytes:
    """Returns a field with an integer >= 0."""
    return varint(number << 3 | _VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Returns a field with bytes, a string or a message."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """Returns a field with repeated integers."""
    return bytes_field(number, b"".join(map(varint, values)))
