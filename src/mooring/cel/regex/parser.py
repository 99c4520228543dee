"""Parses regular expressions of RE2, and refuses what it does not have.

Source: Go 1.26, regexp/syntax/parse.go (Perl flags) and the texts of its errors.
"""

from __future__ import annotations

from typing import Final

from mooring.cel.regex.escapes import EDGES, CharSet, EscapeReader, PatternError
from mooring.cel.regex.program import Choice, Edge, Empty, Repeat, Sequence, Set, Tree
from mooring.cel.regex.unicode_classes import MAX_CODE, Ranges

_MAX_REPEAT: Final = 1000
#: Instructions of a pattern, with repetitions written out.
_MAX_SIZE: Final = 100_000
_MAX_NESTING: Final = 1000


def parse_pattern(pattern: str) -> Tree:
    """Returns the tree of a pattern.

    Raises:
        PatternError: It is not a pattern of RE2.
    """
    parser = _Parser(pattern)
    tree = parser.alternatives(0)
    if parser.position < len(pattern):
        raise PatternError("unexpected )", pattern)
    if _size(tree) > _MAX_SIZE:
        raise PatternError("expression too large", pattern)
    return tree


class _Parser(EscapeReader):
    """A recursive descent over a pattern."""

    def alternatives(self, depth: int) -> Tree:
        """Parses alternatives up to a closing parenthesis or the end."""
        if depth > _MAX_NESTING:
            raise PatternError("expression nests too deeply", self.pattern)
        branches: list[Tree] = [self._sequence(depth)]
        while self._next_is("|"):
            self.position += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else Choice(branches)

    def _sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            if self._next_is("\\Q"):
                parts.extend(self._quoted())
                continue
            atom = self._atom(depth)
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else Sequence(parts) if parts else Empty()

    def _quoted(self) -> list[Tree]:
        end = self.pattern.find("\\E", self.position + 2)
        text = self.pattern[self.position + 2 : end if end >= 0 else None]
        self.position = end + 2 if end >= 0 else len(self.pattern)
        return [self._char(ord(character)) for character in text]

    # ------------------------------------------------------------ repetition

    def _repeated(self, atom: Tree) -> Tree:
        previous_start = -1
        while self.position < len(self.pattern):
            operator_start = self.position
            bounds = self._bounds()
            if bounds is None:
                break
            operator = self.pattern[operator_start : self.position]
            if previous_start >= 0:
                raise PatternError(
                    "invalid nested repetition operator",
                    self.pattern[previous_start : self.position],
                )
            is_greedy = "U" not in self._flags
            if self._next_is("?"):
                self.position += 1
                is_greedy = not is_greedy
            low, high = bounds
            if low > _MAX_REPEAT or (high or 0) > _MAX_REPEAT or (high is not None and high < low):
                raise PatternError("invalid repeat count", operator)
            previous_start = operator_start
            atom = Repeat(atom, low, high, is_greedy)
            if _repeats(atom) > _MAX_REPEAT:
                raise PatternError(
                    "invalid repeat count", self.pattern[operator_start : self.position]
                )
        return atom

    def _bounds(self) -> tuple[int, int | None] | None:
        """Reads a repetition operator; None (and nothing read) if there is none."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        bounds = simple.get(self.pattern[self.position])
        if bounds is not None:
            self.position += 1
            return bounds
        if not self._next_is("{"):
            return None
        end = self.pattern.find("}", self.position)
        low, comma, high = self.pattern[self.position + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_count(low) or (high and not _is_count(high)):
            return None
        self.position = end + 1
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    # ------------------------------------------------------------ atoms

    def _atom(self, depth: int) -> Tree | None:
        character = self.pattern[self.position]
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        if character in "*+?":
            return self._missing_argument()
        self.position += 1
        if character == ".":
            return Set(CharSet([(0, MAX_CODE)] if "s" in self._flags else [(0, 9), (11, MAX_CODE)]))
        if character == "^":
            return Edge("begin_line" if "m" in self._flags else "begin_text")
        if character == "$":
            return Edge("end_line" if "m" in self._flags else "end_text")
        if character == "{":
            self.position -= 1
            if self._bounds() is not None:
                return self._missing_argument()
            self.position += 1
        return self._char(ord(character))

    def _missing_argument(self) -> Tree:
        start = self.position
        end = start + 1
        if self.pattern[start] == "{":
            end = self.pattern.find("}", start) + 1
        raise PatternError("missing argument to repetition operator", self.pattern[start:end])

    def _char(self, code: int) -> Tree:
        return Set(self._folded([(code, code)]))

    def _group(self, depth: int) -> Tree | None:
        start = self.position
        outer = self._flags
        self.position += 1
        if self._next_is("?"):
            if self._next_is("?P<") or self._next_is("?<"):
                self._group_name(start)
            elif not self._group_flags(start):
                return None
        tree = self.alternatives(depth + 1)
        if not self._next_is(")"):
            raise PatternError("missing closing )", self.pattern)
        self.position += 1
        self._flags = outer
        return tree

    def _group_name(self, start: int) -> None:
        opening = self.pattern.index("<", self.position)
        end = self.pattern.find(">", opening)
        name = self.pattern[opening + 1 : end] if end >= 0 else ""
        if end < 0:
            raise PatternError("invalid named capture", self.pattern[start:])
        capture = self.pattern[start : end + 1]
        if not name or not all(letter == "_" or letter.isalnum() for letter in name):
            raise PatternError("invalid named capture", capture)
        self.position = end + 1

    def _group_flags(self, start: int) -> bool:
        """Reads flags; returns whether a group follows (else they hold for the rest)."""
        index = start + 2
        flags = set(self._flags)
        is_removing = has_flag = False
        while index < len(self.pattern):
            letter = self.pattern[index]
            index += 1
            if letter in "imsU":
                (flags.discard if is_removing else flags.add)(letter)
                has_flag = True
            elif letter == "-" and not is_removing:
                is_removing, has_flag = True, False
            elif letter in ":)" and (has_flag or not is_removing):
                self._flags = frozenset(flags)
                self.position = index
                return letter == ":"
            else:
                break
        end = min(index, len(self.pattern))
        raise PatternError("invalid or unsupported Perl syntax", self.pattern[start:end])

    def _escape(self) -> Tree:
        start = self.position
        if start + 1 >= len(self.pattern):
            raise PatternError("trailing backslash at end of expression", "")
        letter = self.pattern[start + 1]
        if letter in EDGES:
            self.position += 2
            return Edge(EDGES[letter])
        ranges = self._class_escape()
        if ranges is not None:
            return Set(ranges)
        return self._char(self._escaped_code())

    def _class(self) -> Tree:
        start = self.position
        self.position += 1
        is_negated = self._next_is("^")
        self.position += is_negated
        ranges: Ranges = []
        # Go's classes leave out the newline only if a flag says so; Perl's flags do not.
        is_first = True
        while is_first or not self._next_is("]"):
            if self.position >= len(self.pattern):
                raise PatternError("missing closing ]", self.pattern[start:])
            self._check_dash(is_first=is_first)
            ranges.extend(self._class_part(start))
            is_first = False
        self.position += 1
        chars = CharSet(ranges)
        return Set(chars.negated() if is_negated else chars)


def _is_count(text: str) -> bool:
    return (
        text.isascii()
        and text.isdigit()
        and len(text) < 10
        and not (len(text) > 1 and text[0] == "0")
    )


def _repeats(tree: Tree) -> int:
    """Returns how often the innermost part is written out at most."""
    if isinstance(tree, Repeat):
        count = tree.low if tree.high is None else tree.high
        return max(count, 1) * _repeats(tree.part)
    if isinstance(tree, Sequence | Choice):
        return max([_repeats(part) for part in tree.parts], default=1)
    return 1


def _size(tree: Tree) -> int:
    if isinstance(tree, Repeat):
        return _size(tree.part) * max(tree.low, tree.high or 1) + 1
    if isinstance(tree, Sequence | Choice):
        return sum([_size(part) for part in tree.parts]) + 1
    return 1
