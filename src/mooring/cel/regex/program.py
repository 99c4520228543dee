"""The automaton of a regular expression.

Source: Go's regexp/syntax/compile.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mooring.cel.regex.escapes import CharSet


@dataclass(slots=True, eq=False)
class Empty:
    """Matches the empty text."""


@dataclass(slots=True, eq=False)
class Set:
    """Matches one character of a set."""

    chars: CharSet


@dataclass(slots=True, eq=False)
class Edge:
    """Matches a place: the begin of a line, a word boundary and so on."""

    kind: str


@dataclass(slots=True, eq=False)
class Sequence:
    """Matches parts one after the other."""

    parts: list[Tree]


@dataclass(slots=True, eq=False)
class Choice:
    """Matches one of several alternatives, the first one that leads to a match."""

    parts: list[Tree]


@dataclass(slots=True, eq=False)
class Repeat:
    """Matches a part ``low`` to ``high`` times; None is without limit."""

    part: Tree
    low: int
    high: int | None
    is_greedy: bool


Tree: TypeAlias = Empty | Set | Edge | Sequence | Choice | Repeat


@dataclass(slots=True, eq=False)
class Accept:
    """The end of a match."""


@dataclass(slots=True, eq=False)
class Chars:
    """Reads one character of a set."""

    chars: CharSet
    following: Instruction

    def accepts(self, character: str) -> bool:
        """Returns whether the set has a character."""
        return self.chars.has(ord(character))


@dataclass(slots=True, eq=False)
class Assertion:
    """Continues if the place is of a kind."""

    kind: str
    following: Instruction


@dataclass(slots=True, eq=False)
class Branch:
    """Continues at several instructions; the first one is preferred."""

    targets: list[Instruction] = field(default_factory=list)


Instruction: TypeAlias = Accept | Chars | Assertion | Branch


def build(tree: Tree) -> Instruction:
    """Returns the first instruction of the automaton of a pattern."""
    return _build(tree, Accept())


def _build(tree: Tree, following: Instruction) -> Instruction:
    if isinstance(tree, Set):
        return Chars(tree.chars, following)
    if isinstance(tree, Edge):
        return Assertion(tree.kind, following)
    if isinstance(tree, Sequence):
        for part in reversed(tree.parts):
            following = _build(part, following)
        return following
    if isinstance(tree, Choice):
        return Branch([_build(part, following) for part in tree.parts])
    if isinstance(tree, Repeat):
        return _build_repeat(tree, following)
    return following


def _build_repeat(tree: Repeat, following: Instruction) -> Instruction:
    if tree.high is None:
        loop = Branch()
        body = _build(tree.part, loop)
        loop.targets = [body, following] if tree.is_greedy else [following, body]
        following = loop
        n_required = tree.low
    else:
        n_required = tree.low
        end = following
        for _ in range(tree.high - tree.low):
            body = _build(tree.part, following)
            following = Branch([body, end] if tree.is_greedy else [end, body])
    for _ in range(n_required):
        following = _build(tree.part, following)
    return following
