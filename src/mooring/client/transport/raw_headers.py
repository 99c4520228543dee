"""The headers of a response, decoded when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

#: Names of headers that are remembered; servers send a few dozen.
_NAMES_MAX: Final = 256


class RawHeaders(Mapping[str, str]):
    """Headers by name in lower case; the values of equal names are joined by ", ".

    They are decoded at the first access: of the response to a write, only an error's are read.

    Args:
        pairs: Name and value of each header, in their order.

    Example:
        >>> RawHeaders([(b"Warning", b"a"), (b"warning", b"b")])["warning"]
        'a, b'
    """

    __slots__ = ("_decoded", "_pairs")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self._decoded: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._headers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers())

    def __len__(self) -> int:
        return len(self._headers())

    def _headers(self) -> dict[str, str]:
        headers = self._decoded
        if headers is None:
            headers = self._decoded = {}
            for name, value in self._pairs:
                key, text = _lower_name(name), value.decode("latin-1")
                headers[key] = f"{headers[key]}, {text}" if key in headers else text
        return headers


@lru_cache(maxsize=_NAMES_MAX)
def _lower_name(name: bytes) -> str:
    return name.decode("latin-1").lower()
