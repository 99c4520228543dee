"""JSON with sorted keys, in a time that grows with the number of keys.

msgspec's own sort takes quadratic time for some orders: a large key in front of 100 000 sorted ones
takes 12 s. It gets mappings with many keys sorted.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

import msgspec

#: Shorter texts have too few keys to take long.
_BYTES_MAX: Final = 16 << 10
#: Mappings with fewer keys are sorted by msgspec.
_KEYS_MAX: Final = 64

_plain = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode
_by_key = itemgetter(0)


def encode_sorted(value: Any) -> bytes:
    """Returns JSON with sorted keys; a mapping with many keys is sorted in place.

    Raises:
        UnicodeEncodeError: A text has a lone surrogate.

    Example:
        >>> encode_sorted({"b": 1, "a": [{"d": 2, "c": 3}]})
        b'{"a":[{"c":3,"d":2}],"b":1}'
    """
    if len(_plain(value)) > _BYTES_MAX:
        _sort_large_mappings(value)
    return _sorted(value)


def _sort_large_mappings(value: Any) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is dict:
            if len(part) > _KEYS_MAX:
                items = sorted(part.items(), key=_by_key)
                part.clear()
                part.update(items)
            waiting += part.values()
        elif type(part) is list:
            waiting += part
