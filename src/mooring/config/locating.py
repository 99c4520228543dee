"""Where in a file a fault stands that was found long after the file had been read."""

from __future__ import annotations

import re
from typing import Final

from mooring.errors import ConfigError
from mooring.objects.documents import Path, line_of

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


def located(error: ConfigError, data: bytes | str, *, file: str | None = None) -> ConfigError:
    """The error with its file and line, if its path is one of the configuration in ``data``."""
    line = line_of(data, 1, _path(error.path)) if error.path else None
    return ConfigError(
        error.problem,
        file=error.file or file,
        line=error.line if error.line is not None else line,
        path=error.path,
        value=error.value,
        suggestion=error.suggestion,
    )


def _path(text: str) -> Path:
    """The steps of ``profiles[0].plugins``: names, and positions in lists."""
    return tuple(
        int(position) if position else name
        for name, position in (step.groups() for step in _STEP.finditer(text))
    )
