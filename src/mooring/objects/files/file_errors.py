"""Collects the errors of files, so that users can fix them all at once."""

from __future__ import annotations

import re
from typing import Any

from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import Path, lines_of, path_text
from mooring.objects.files.limits import ERRORS_MAX
from mooring.objects.files.sources import Source

#: A list position at the start of a path.
_POSITION = re.compile(r"\[([0-9]+)\]")


class FileErrors:
    """Collects errors; lines are looked up at the end, with one more pass over each file."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []
        #: Of each error where to look for its line; None if it has one, or cannot have one.
        self._places: list[tuple[Source, Path] | None] = []

    def __bool__(self) -> bool:
        """Returns whether there are any."""
        return bool(self._errors)

    def add(
        self,
        source: Source,
        path: Path,
        problem: str,
        *,
        shown_path: str = "",
        value: Any = None,
        suggestion: str | None = None,
    ) -> None:
        """Adds an error at a path below a source; ``shown_path`` is how to write that path.

        Raises:
            ConfigErrors: The maximum number of errors is reached.
        """
        lead = path_text(source.path)
        path_string = shown_path or path_text(path)
        error = ConfigError(
            problem,
            file=source.file,
            document=source.document,
            path=".".join(filter(None, (lead, path_string))) or None,
            value=value,
            suggestion=suggestion,
        )
        self._append(error, (source, (*source.path, *path)))

    def add_located(self, error: ConfigError) -> None:
        """Adds an error that has its own location.

        Raises:
            ConfigErrors: The maximum number of errors is reached.
        """
        self._append(error, None)

    def raise_collected(self, *, is_cut: bool = False) -> None:
        """Raises the collected errors, if any.

        Raises:
            ConfigError: The only error.
            ConfigErrors: All of several.
        """
        if not self._errors:
            return
        located = self._with_lines()
        if len(located) == 1:
            raise located[0]
        raise ConfigErrors(located, is_cut=is_cut)

    def _append(self, error: ConfigError, place: tuple[Source, Path] | None) -> None:
        self._errors.append(error)
        self._places.append(place)
        if len(self._errors) >= ERRORS_MAX:
            self.raise_collected(is_cut=True)

    def _with_lines(self) -> list[ConfigError]:
        by_text: dict[int, list[int]] = {}
        for index, place in enumerate(self._places):
            if place is not None:
                by_text.setdefault(id(place[0].text), []).append(index)
        located = list(self._errors)
        for indices in by_text.values():
            places = [place for index in indices if (place := self._places[index]) is not None]
            text = places[0][0].text.read()
            lines = lines_of(text, [(source.document, path) for source, path in places])
            for index, line in zip(indices, lines, strict=True):
                located[index] = located[index].located(line=line)
        files = list(dict.fromkeys(error.file for error in located))
        return sorted(
            located,
            key=lambda error: (files.index(error.file), error.document or 0, error.line or 0),
        )


def steps_of(value: Any, text: str) -> Path:
    """Returns the steps of a path that is written as text, as far as ``value`` has them.

    The keys of the value decide where a step ends, since keys may have dots themselves. What is
    missing in the value is one last step.

    Example:
        >>> steps_of({"spec": {"requests": {"a.b/c": 1}}}, "spec.requests[a.b/c]")
        ('spec', 'requests', 'a.b/c')
    """
    steps: list[str | int] = []
    while text:
        step, rest = _first_step(value, text)
        if step is None:
            return (*steps, text)
        steps.append(step)
        value = value[step]
        text = rest.removeprefix(".")
    return tuple(steps)


def _first_step(value: Any, text: str) -> tuple[str | int | None, str]:
    """Returns the first step that the value has, and the rest of the text."""
    if isinstance(value, list):
        match = _POSITION.match(text)
        if match is None or int(match[1]) >= len(value):
            return None, text
        return int(match[1]), text[match.end() :]
    if not isinstance(value, dict):
        return None, text
    for key in sorted(map(str, value), key=len, reverse=True):
        if text.startswith(f"[{key}]"):
            return key, text[len(key) + 2 :]
        if text == key or text.startswith((key + ".", key + "[")):
            return key, text[len(key) :]
    return None, text
