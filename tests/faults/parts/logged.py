"""Collects what a module logs, also while logging is disabled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

#: Level, message and fields.
Line = tuple[int, str, dict[str, Any]]


class Log:
    """A logger that appends to a list.

    Attributes:
        lines: What was logged, in order.
        level: Lines of a lower level are neither logged nor enabled.
    """

    def __init__(self, level: int = logging.NOTSET) -> None:
        self.lines: list[Line] = []
        self.level = level

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - as in logging
        """Returns whether a level is logged."""
        return level >= self.level

    def log(self, level: int, message: str, *_: object, **options: Any) -> None:
        """Logs a line."""
        if self.isEnabledFor(level):
            self.lines.append((level, message, options.get("extra") or {}))

    def debug(self, message: str, *_: object, **options: Any) -> None:
        """Logs a line."""
        self.log(logging.DEBUG, message, **options)

    def info(self, message: str, *_: object, **options: Any) -> None:
        """Logs a line."""
        self.log(logging.INFO, message, **options)

    def warning(self, message: str, *_: object, **options: Any) -> None:
        """Logs a line."""
        self.log(logging.WARNING, message, **options)

    def error(self, message: str, *_: object, **options: Any) -> None:
        """Logs a line."""
        self.log(logging.ERROR, message, **options)

    exception = error


@contextmanager
def logged(*modules: ModuleType, level: int = logging.NOTSET) -> Iterator[Log]:
    """Replaces the loggers of some modules by one that collects, until the end of the block."""
    log, before = Log(level), [vars(module)["_log"] for module in modules]
    for module in modules:
        vars(module)["_log"] = log
    try:
        yield log
    finally:
        for module, logger in zip(modules, before, strict=True):
            vars(module)["_log"] = logger
