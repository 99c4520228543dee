"""Log lines: one event a line, with what it is about as ``key=value``, readable by eye and by grep.

Modules log through ``logging.getLogger(__name__)`` and put facts into ``extra``; a program decides
where lines go by calling ``configure`` once.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO, Any, Final

#: The standard attributes of a record; all others come from ``extra``.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

#: Longer values are cut: a line is for reading.
VALUE_LENGTH_MAX: Final = 1000


class KeyValueFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO mooring.scheduler.service: caches synced nodes=5``."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line; what could end it or move a cursor is escaped."""
        moment = datetime.fromtimestamp(record.created, UTC)
        parts = [
            f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
            record.levelname,
            f"{record.name}:",
            _escaped(record.getMessage()),
        ]
        extra = {name: value for name, value in vars(record).items() if name not in _OWN}
        parts += [f"{name}={_value(value)}" for name, value in extra.items()]
        if record.exc_info:
            parts.append(f"trace={_value(self.formatException(record.exc_info), longest=8000)}")
        return " ".join(parts)


def configure(level: int | str = logging.INFO, *, out: IO[str] | None = None) -> None:
    """Writes all lines of at least ``level`` to ``out`` (stderr if None), and to nowhere else."""
    handler = logging.StreamHandler(out) if out is not None else _ToStderr()
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


class _ToStderr(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr``, which a live view may replace for a while."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def _value(value: Any, *, longest: int = VALUE_LENGTH_MAX) -> str:
    text = str(value)
    if len(text) > longest:
        text = text[:longest] + "..."
    is_word = text and text.isprintable() and not set(text) & set(' "=')
    return text if is_word else json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)[1:-1]


class ConnectionLog(logging.LoggerAdapter[logging.Logger]):
    """Logs what is wrong with a connection in one line for debugging, and nothing that was sent.

    aiohttp logs each malformed request with a traceback and its text, which may have a token, and
    no credentials are needed to cause that.
    """

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:  # noqa: ARG002
        """Logs the type of the error alone."""
        error = options.get("exc_info")
        kind = type(error).__name__ if isinstance(error, BaseException) else "unknown"
        self.logger.debug("malformed request", extra={"error": kind, "level": level})
