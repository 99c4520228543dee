r"""The classes of characters behind ``\p{Greek}`` and ``\pL``: of Unicode 15.0.0, as in Go 1.26.

The table is ``cel/data/unicode_classes.tsv``: Python's ``unicodedata`` has no scripts, and another
version of Unicode.

Source: Go 1.26, regexp/syntax/parse.go (canonicalName, unicodeTable).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

MAX_CODE: Final = 0x10FFFF
Ranges = list[tuple[int, int]]

#: The separators that names may contain, as in ``\p{upper case_letter}``.
_SEPARATORS: Final = str.maketrans("", "", "_- ")


class UnicodeClass(NamedTuple):
    """A class of characters.

    Attributes:
        ranges: The first and last code point of each range.
        folded: The code points that ``(?i)`` adds: the other cases of those in the class.
    """

    ranges: Ranges
    folded: Ranges


_ANY: Final = UnicodeClass([(0, MAX_CODE)], [])
#: K and S are also the other cases of the Kelvin sign and of the long s.
_ASCII: Final = UnicodeClass([(0, 0x7F)], [(0x17F, 0x17F), (0x212A, 0x212A)])


def find_class(name: str) -> UnicodeClass | None:
    """Returns the class with this name; None = there is none.

    As in Go, case and separators do not count, and so a script with a separator in its own name,
    such as Old_Italic, cannot be named.

    Example:
        >>> find_class("greek").ranges[0]
        (880, 883)
    """
    canonical = name.translate(_SEPARATORS)
    # Only ASCII letters change case.
    if canonical.isascii():
        canonical = canonical[:1].upper() + canonical[1:].lower()
    if canonical == "Any":
        return _ANY
    if canonical == "Ascii":
        return _ASCII
    if canonical == "Assigned":
        return UnicodeClass(complement(_classes()["Cn"].ranges), [])
    classes = _classes()
    return classes.get("LC" if canonical == "Lc" else canonical)


@lru_cache(maxsize=1)
def _classes() -> dict[str, UnicodeClass]:
    """Returns the classes by canonical name, aliases included."""
    text = files("mooring").joinpath("cel/data/unicode_classes.tsv").read_text("utf-8")
    classes: dict[str, UnicodeClass] = {}
    aliases: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        kind, name, first, second = line.split("\t")
        if kind == "alias":
            aliases[name.translate(_SEPARATORS).capitalize()] = first
        else:
            classes.setdefault(name, UnicodeClass(_decode(first), _decode(second)))
    for alias, name in aliases.items():
        classes.setdefault(alias, classes[name])
    return classes


def _decode(text: str) -> Ranges:
    ranges: Ranges = []
    end = 0
    for word in text.split():
        distance, _, more = word.partition("+")
        start = end + int(distance, 16)
        end = start + int(more or "0", 16)
        ranges.append((start, end))
    return ranges


def complement(ranges: Ranges) -> Ranges:
    """Returns the code points that are in none of some sorted, disjoint ranges."""
    result: Ranges = []
    position = 0
    for low, high in ranges:
        if position < low:
            result.append((position, low - 1))
        position = high + 1
    if position <= MAX_CODE:
        result.append((position, MAX_CODE))
    return result
