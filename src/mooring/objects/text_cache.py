"""A cache of functions of texts that a client may have written.

An ``lru_cache`` limits the number of its entries, not their length: 16 384 labels of a mebibyte
each would fill the memory. Longer texts than a valid one are not kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Result = TypeVar("Result")

#: Valid names have at most 253 characters, label keys 317.
CHARS_MAX = 320


def text_cache(
    maxsize: int, *, chars_max: int = CHARS_MAX
) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Returns a decorator that caches the results for texts of at most ``chars_max`` characters.

    Args:
        maxsize: The number of texts; the least recently used is removed first.
        chars_max: The result for a longer text is computed each time.

    Example:
        >>> calls = []
        >>> @text_cache(8, chars_max=3)
        ... def length(text):
        ...     calls.append(text)
        ...     return len(text)
        >>> length("abc"), length("abc"), length("abcd"), length("abcd"), calls
        (3, 3, 4, 4, ['abc', 'abcd', 'abcd'])
    """

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: str) -> Result:
            return cached(text) if len(text) <= chars_max else function(text)

        return call

    return decorate
