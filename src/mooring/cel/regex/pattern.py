r"""Regular expressions of RE2, in time linear in the text.

The pattern becomes an automaton whose states are sets of positions in the pattern, made as they
are needed. No pattern can make it backtrack.

Source: Go's regexp/syntax (what a pattern may have, texts of errors) and regexp (leftmost-first).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mooring.cel.regex.escapes import PatternError
from mooring.cel.regex.parser import parse_pattern
from mooring.cel.regex.program import Accept, Assertion, Branch, Chars, Instruction, build

__all__ = ["Pattern", "PatternError", "compile_pattern"]

#: States are forgotten when there are more.
_MAX_STATES: Final = 2000

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Returns the automaton of a pattern.

    Raises:
        PatternError: It is not a pattern of RE2.
    """
    return Pattern(pattern)


class _State:
    """Threads in the order of their priority, and the states that characters lead to."""

    __slots__ = ("is_match", "steps", "threads")

    def __init__(self, threads: tuple[Instruction, ...], *, is_match: bool) -> None:
        self.threads = threads
        self.is_match = is_match
        self.steps: dict[tuple[str, str], _State] = {}


class Pattern:
    """A compiled pattern.

    Example:
        >>> Pattern("[0-9]+").find("gpu-12")
        '12'
        >>> Pattern("^(gpu|nic)").matches("nic-1")
        True
    """

    def __init__(self, pattern: str) -> None:
        self._start = build(parse_pattern(pattern))
        self._states: dict[tuple[int, ...], _State] = {}

    def matches(self, text: str) -> bool:
        """Returns whether the pattern matches a part of a text."""
        return self._end(text, 0, is_anchored=False) is not None

    def find(self, text: str) -> str:
        """Returns the leftmost match, or ""."""
        span = self._span(text, 0)
        return "" if span is None else text[span[0] : span[1]]

    def find_all(self, text: str, limit: int = -1) -> list[object]:
        """Returns all matches that do not overlap, at most ``limit`` if it is not negative."""
        found_parts: list[object] = []
        position, previous_end = 0, -1
        while position <= len(text) and len(found_parts) != limit:
            span = self._span(text, position)
            if span is None:
                break
            start, end = span
            if start != end or start != previous_end:
                found_parts.append(text[start:end])
            previous_end = end
            position = end if end > start else end + 1
        return found_parts

    def _span(self, text: str, position: int) -> tuple[int, int] | None:
        """Returns start and end of the leftmost match from a position on."""
        if self._end(text, position, is_anchored=False) is None:
            return None
        for start in range(position, len(text) + 1):
            end = self._end(text, start, is_anchored=True)
            if end is not None:
                return start, end
        return None

    def _end(self, text: str, position: int, *, is_anchored: bool) -> int | None:
        """Returns the end of the best match at a position; unanchored, whether there is one."""
        threads: tuple[Instruction, ...] = (self._start,)
        before = text[position - 1] if position else ""
        state = self._closure(threads, before, text[position : position + 1])
        end: int | None = None
        for index in range(position, len(text) + 1):
            if state.is_match:
                end = index
                if not is_anchored:
                    return end
            if index == len(text) or (is_anchored and not state.threads):
                break
            state = self._step(state, text[index], text[index + 1 : index + 2], is_anchored)
        return end

    def _step(self, state: _State, character: str, after: str, is_anchored: bool) -> _State:
        key = (character, after if is_anchored else after + "*")
        following = state.steps.get(key)
        if following is None:
            threads = [
                thread.following
                for thread in state.threads
                if isinstance(thread, Chars) and thread.accepts(character)
            ]
            if not is_anchored:
                threads.append(self._start)
            following = self._closure(tuple(threads), character, after)
            state.steps[key] = following
        return following

    def _closure(self, threads: tuple[Instruction, ...], before: str, after: str) -> _State:
        """Follows instructions that read nothing, best first; a match drops what is worse."""
        context = _context(before, after)
        ordered: list[Instruction] = []
        reached: set[int] = set()
        pending = list(reversed(threads))
        is_match = False
        while pending:
            thread = pending.pop()
            if id(thread) in reached:
                continue
            reached.add(id(thread))
            if isinstance(thread, Accept):
                is_match = True
                break
            if isinstance(thread, Branch):
                pending.extend(reversed(thread.targets))
            elif isinstance(thread, Assertion):
                if thread.kind in context:
                    pending.append(thread.following)
            else:
                ordered.append(thread)
        return self._interned(tuple(ordered), is_match=is_match)

    def _interned(self, threads: tuple[Instruction, ...], *, is_match: bool) -> _State:
        key = (is_match, *map(id, threads))
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _MAX_STATES:
                self._states.clear()
            state = self._states[key] = _State(threads, is_match=is_match)
        return state


def _context(before: str, after: str) -> frozenset[str]:
    """Returns the assertions that hold between two characters; "" is the edge of the text."""
    is_boundary = (before in _WORD and before != "") != (after in _WORD and after != "")
    holds = {"boundary" if is_boundary else "no_boundary"}
    if not before:
        holds |= {"begin_text", "begin_line"}
    if not after:
        holds |= {"end_text", "end_line"}
    if before == "\n":
        holds.add("begin_line")
    if after == "\n":
        holds.add("end_line")
    return frozenset(holds)
