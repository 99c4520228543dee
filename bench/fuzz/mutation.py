"""Mutations of inputs: bytes, ranges, numbers, nesting, and parts of other inputs."""

from __future__ import annotations

from typing import Final

from mooring.clock import Rng

MUTATIONS_MAX: Final = 6
BYTES_MAX: Final = 16 << 10

#: Texts on which readers fail: limits of numbers, signs of formats, odd characters.
TOKENS: Final = (
    *(b"0", b"-1", b"1e999", b"-0", b"9223372036854775808", b"NaN", b"Infinity", b"1" * 5000),
    *(b"null", b"true", b"{}", b"[]", b'""', b'{"a":', b"[[", b"]]", b"}", b"&a", b"*a", b"!!"),
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\\ud800", b"\r\n", b"\n\n", b":"),
    *(b"(", b")", b"in (", b"!", b",", b"=", b"<<: ", b"- ", b"---\n", b"Ki", b"E", b"e3", b"n"),
    *(b'"$patch":"delete"', b'"$setElementOrder/a":[]', b"~1", b"/-", b"/0", b"[0]", b"?", b"%"),
)


def mutated(rng: Rng, corpus: list[bytes]) -> bytes:
    """Returns a mutation of one of the inputs."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.randrange(1, MUTATIONS_MAX)):
        _mutate(rng, data, corpus)
    return bytes(data[:BYTES_MAX])


def _mutate(rng: Rng, data: bytearray, corpus: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.randrange(1, 20))
    match rng.randrange(7):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            del data[at:end]
        case 2:
            data[at:at] = rng.choice(TOKENS)
        case 3:
            data[at:end] = rng.choice(TOKENS)
        case 4:
            data[at:at] = bytes(data[at:end]) * rng.randrange(1, 50)
        case 5:
            other = rng.choice(corpus)
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start : start + rng.randrange(1, 200)]
        case _:
            data[at:at] = rng.choice((b"[", b"{", b"(", b'{"a":', b"- ")) * rng.randrange(1, 300)
