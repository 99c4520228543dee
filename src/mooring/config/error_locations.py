"""File and line of errors that are found after the file has been read."""

from __future__ import annotations

import re
from typing import Final

from mooring.config.types import KubeSchedulerConfiguration
from mooring.errors import ConfigError
from mooring.objects.files.documents import Path, line_of

#: Paths with another first step are not of the file: command options, args of other plugins.
_FIRST_STEPS: Final = frozenset(KubeSchedulerConfiguration.__struct_encode_fields__)

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


def located(error: ConfigError, data: bytes | str, *, file: str | None = None) -> ConfigError:
    """Returns the error with file and line, if its path is in the configuration ``data``."""
    path = _path(error.path or "")
    line = line_of(data, 1, path) if path and path[0] in _FIRST_STEPS else None
    return error.located(file=file, line=line)


def _path(text: str) -> Path:
    """Returns the steps of ``profiles[0].plugins``: names, and positions in lists."""
    return tuple(
        int(position) if position else name
        for name, position in (step.groups() for step in _STEP.finditer(text))
    )
