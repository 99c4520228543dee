"""An error of one field of a configuration, and all of them together as one exception.

Users want to see all errors of a file at once, so validation collects ``FieldError`` values; only
``load`` raises them, since only it has the text and its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mooring.errors import ConfigError
from mooring.objects.files.documents import Path


class FieldError(NamedTuple):
    """An error of one field; ``value`` is its value, None if it has none."""

    path: Path
    problem: str
    value: Any = None
    suggestion: str | None = None


class ConfigFieldErrors(ConfigError):
    """A configuration with one or more errors: the attributes are those of the first.

    Attributes:
        errors: All errors; ``str()`` has a line for each.
    """

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        self.errors = tuple(errors)
        super().__init__(
            first.problem,
            file=first.file,
            document=first.document,
            line=first.line,
            path=first.path,
            value=first.value,
            suggestion=first.suggestion,
        )

    def located(
        self,
        *,
        file: str | None = None,
        document: int | None = None,
        line: int | None = None,
        path: str | None = None,
    ) -> ConfigFieldErrors:
        """Returns the same errors with their location, where they have none."""
        return ConfigFieldErrors(
            [
                error.located(file=file, document=document, line=line, path=path)
                for error in self.errors
            ]
        )

    def _text(self) -> str:
        return "\n".join(map(str, self.errors))
