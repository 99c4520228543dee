"""Characters, escapes and classes of regular expressions.

Source: Go 1.26, regexp/syntax/parse.go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mooring.cel.regex.unicode_classes import MAX_CODE, Ranges, complement, find_class

_PERL: Final[dict[str, Ranges]] = {
    "d": [(48, 57)],
    "s": [(9, 10), (12, 13), (32, 32)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [(48, 57)],
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "word": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
EDGES: Final = {"A": "begin_text", "b": "boundary", "B": "no_boundary", "z": "end_text"}


class PatternError(ValueError):
    """A text that is not a regular expression of RE2, in Go's words."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part}`")


class CharSet:
    """A set of code points as sorted ranges."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Ranges) -> None:
        merged: list[list[int]] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self._starts = [low for low, _ in merged]
        self._ends = [high for _, high in merged]

    def has(self, code: int) -> bool:
        """Returns whether a code point is in the set."""
        index = bisect_right(self._starts, code) - 1
        return index >= 0 and code <= self._ends[index]

    @property
    def ranges(self) -> Ranges:
        """The ranges, sorted and disjoint."""
        return list(zip(self._starts, self._ends, strict=True))

    def negated(self) -> CharSet:
        """Returns all code points that are not in the set."""
        return CharSet(complement(self.ranges))


class EscapeReader:
    """Reads a pattern from a position on; ``flags`` are those of the current group."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self._flags: frozenset[str] = frozenset()

    def _next_is(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def _folded(self, ranges: Ranges) -> CharSet:
        if "i" not in self._flags:
            return CharSet(ranges)
        return CharSet(ranges + _other_cases(ranges))

    def _class_escape(self) -> CharSet | None:
        r"""Reads ``\d``, ``\PL`` and the like; None (and nothing read) for another escape."""
        start = self.position
        letter = self.pattern[start + 1 : start + 2]
        if letter.lower() in _PERL and letter:
            self.position += 2
            chars = self._folded(_PERL[letter.lower()])
            return chars.negated() if letter.isupper() else chars
        if letter not in ("p", "P"):
            return None
        name = self.pattern[start + 2 : start + 3]
        end = start + 3
        if name == "{":
            end = self.pattern.find("}", start) + 1
            if end == 0:
                raise PatternError("invalid character class range", self.pattern[start:])
            name = self.pattern[start + 3 : end - 1]
        is_negated = (letter == "P") != name.startswith("^")
        name = name.removeprefix("^")
        named = find_class(name)
        if named is None:
            raise PatternError("invalid character class range", self.pattern[start:end])
        self.position = end
        chars = CharSet(named.ranges + (named.folded if "i" in self._flags else []))
        return chars.negated() if is_negated else chars

    def _escaped_code(self) -> int:
        start = self.position
        letter = self.pattern[start + 1 : start + 2]
        if not letter:
            raise PatternError("trailing backslash at end of expression", "")
        self.position += 2
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter in "01234567":
            return self._octal(start, letter)
        if letter == "x":
            return self._hexadecimal(start)
        if ord(letter) < 0x80 and not letter.isalnum():
            return ord(letter)
        raise PatternError("invalid escape sequence", self.pattern[start : start + 2])

    def _octal(self, start: int, letter: str) -> int:
        following = self.pattern[start + 2 : start + 3]
        if letter != "0" and (not following or following not in "01234567"):
            raise PatternError("invalid escape sequence", self.pattern[start : start + 2])
        end = start + 2
        while end < min(start + 4, len(self.pattern)) and self.pattern[end] in "01234567":
            end += 1
        self.position = end
        return int(self.pattern[start + 1 : end], 8)

    def _hexadecimal(self, start: int) -> int:
        digits = self.pattern[start + 2 : start + 4]
        end = start + 4
        if digits.startswith("{"):
            end = self.pattern.find("}", start) + 1
            digits = self.pattern[start + 3 : end - 1] if end else ""
        is_hex = digits and all(digit in "0123456789abcdefABCDEF" for digit in digits)
        has_length = self.pattern[start + 2 : start + 3] == "{" or len(digits) == 2
        if not (is_hex and has_length and len(digits) < 10 and int(digits, 16) <= MAX_CODE):
            part = self.pattern[start : end or None]
            raise PatternError("invalid escape sequence", part)
        self.position = end
        return int(digits, 16)

    # ------------------------------------------------------------ classes

    def _check_dash(self, *, is_first: bool) -> None:
        following = self.pattern[self.position + 1 : self.position + 2]
        if self._next_is("-") and not is_first and following and following != "]":
            part = self.pattern[self.position : self.position + 2]
            raise PatternError("invalid character class range", part)

    def _class_part(self, class_start: int) -> Ranges:
        if self._next_is("[:"):
            end = self.pattern.find(":]", self.position + 2)
            if end >= 0:
                return self._posix(end)
        if self._next_is("\\"):
            chars = self._class_escape()
            if chars is not None:
                return chars.ranges
        start = self.position
        low = self._class_char(class_start)
        high = low
        following = self.pattern[self.position + 1 : self.position + 2]
        if self._next_is("-") and following and following != "]":
            self.position += 1
            high = self._class_char(class_start)
            if high < low:
                part = self.pattern[start : self.position]
                raise PatternError("invalid character class range", part)
        return self._folded([(low, high)]).ranges

    def _class_char(self, class_start: int) -> int:
        if self.position >= len(self.pattern):
            raise PatternError("missing closing ]", self.pattern[class_start:])
        if self._next_is("\\"):
            return self._escaped_code()
        self.position += 1
        return ord(self.pattern[self.position - 1])

    def _posix(self, end: int) -> Ranges:
        name = self.pattern[self.position + 2 : end]
        is_negated = name.startswith("^")
        ranges = _POSIX.get(name.removeprefix("^"))
        if ranges is None:
            part = self.pattern[self.position : end + 2]
            raise PatternError("invalid character class range", part)
        self.position = end + 2
        chars = self._folded(ranges)
        return (chars.negated() if is_negated else chars).ranges


def _other_cases(ranges: Ranges) -> Ranges:
    """Returns the code points that differ in case only from those of ranges."""
    result: Ranges = []
    for low, high in ranges:
        if high - low > 0x3000:
            continue
        for code in range(low, high + 1):
            character = chr(code)
            others = (character.lower(), character.upper(), character.swapcase())
            result += [(ord(other), ord(other)) for other in others if len(other) == 1]
            if character in "kK":
                result.append((0x212A, 0x212A))
            if character in "sS":
                result.append((0x17F, 0x17F))
    return result
