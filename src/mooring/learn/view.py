"""Prints a lesson: an introduction, the events as they happen, and a summary."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Final

from mooring.learn.event_log import Line
from mooring.learn.lessons import LESSONS, Lesson
from mooring.learn.scenario_runner import runs
from mooring.learn.scenarios import Scenario

WIDTH: Final = 100

#: Event -> the words before its node.
_AT_NODE: Final = {"waiting": "in Permit for", "allowed": "on", "bound": "to"}

#: Events of several nodes that are merged into one line.
_MERGED: Final = frozenset({"refused", "scored"})


class TextLines:
    """Writes events as they happen; the same event of several nodes becomes one line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._merged: list[Line] = []

    def __call__(self, line: Line) -> None:
        """Writes one event, or buffers it if the next one may be merged with it."""
        if self._merged and not _is_alike(self._merged[0], line):
            self.flush()
        if line.what in _MERGED:
            self._merged.append(line)
        else:
            self._put(line.time_s, line.pod, f"{line.what}{_rest(line)}")

    def say(self, time_s: float, text: str) -> None:
        """Writes a step of the scenario."""
        self.flush()
        self._put(time_s, "", text)

    def flush(self) -> None:
        """Writes the buffered events."""
        merged, self._merged = self._merged, []
        if not merged:
            return
        first = merged[0]
        if first.what == "refused":
            text = f"refused by {runs(line.node for line in merged)}: {first.detail}"
        else:
            by_score: dict[int, list[str]] = {}
            for line in merged:
                by_score.setdefault(int(line.detail), []).append(line.node)
            best_first = sorted(by_score.items(), reverse=True)
            text = "scored " + ", ".join(f"{score} at {runs(nodes)}" for score, nodes in best_first)
        self._put(first.time_s, first.pod, text)

    def _put(self, time_s: float, pod: str, text: str) -> None:
        name = pod.rpartition("/")[2]
        self._write(f"{time_s:8.3f} s  {name:<6}  {text}".rstrip())


def _is_alike(line: Line, other: Line) -> bool:
    same = (line.what, line.pod) == (other.what, other.pod)
    return same and (line.what == "scored" or line.detail == other.detail)


def _rest(line: Line) -> str:
    at = f" {_AT_NODE.get(line.what, 'at')} {line.node}" if line.node else ""
    return f"{at} ({line.detail})" if line.detail else at


def before(lesson: Lesson, scenario: Scenario) -> str:
    """Returns the introduction."""
    title = f"Step {lesson.number} of {len(LESSONS)}: {lesson.title}: {lesson.subject}"
    return f"{title}\n\n{filled(scenario.about)}\n"


def after(lesson: Lesson, outcome: list[str], failures: list[str]) -> str:
    """Returns the summary."""
    parts = ["", *outcome]
    if failures:
        parts += ["", "Failed checks:", *(f"  {failure}" for failure in failures)]
    parts += ["", filled(f"What this shows: {lesson.conclusion}")]
    if lesson.file is None:
        parts += ["", "New in this step:"]
        for where, text in lesson.source():
            parts += ["", f"  # {where}", textwrap.indent(text, "  ")]
    if lesson.number < len(LESSONS):
        following = LESSONS[lesson.number]
        parts += ["", f"Next: mooring learn {following.number}, {following.title}."]
    return "\n".join(parts)


def filled(text: str) -> str:
    """Returns a paragraph in lines of at most ``WIDTH``."""
    return textwrap.fill(text, WIDTH)
