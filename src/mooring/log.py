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

#: A command that prints results logs at most so many different lines.
LINES_MAX: Final = 100


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
        parts += _fields(record)
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


class ConsoleFormatter(logging.Formatter):
    """``mooring simulate: a plugin failed: plugin=P pod=default/web error=... at=p.py:6``.

    For commands that print results: without time and module, and without the traceback of an error
    whose place is in the field ``at``.
    """

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line, and the traceback after it if the line has no place."""
        text = f"{self._command}: {_escaped(record.getMessage())}"
        fields = " ".join(_fields(record))
        lines = [f"{text}: {fields}" if fields else text]
        if record.exc_info and not getattr(record, "at", None):
            lines.append(self.formatException(record.exc_info))
        return "\n".join(lines)


class _Once(logging.Filter):
    """Drops lines that were written before: a decision may be computed several times."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter
        self._lines: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True for a new line; after ``LINES_MAX`` all are dropped."""
        line = self._formatter.format(record)
        if line in self._lines or len(self._lines) >= LINES_MAX:
            return False
        self._lines.add(line)
        if len(self._lines) == LINES_MAX:
            record.msg, record.args = f"{record.getMessage()} (no further messages)", None
        return True


def configure_console(command: str) -> None:
    """Writes warnings and errors to stderr, each once, unless logging is configured already."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = _ToStderr()
    formatter = ConsoleFormatter(command)
    handler.setFormatter(formatter)
    handler.addFilter(_Once(formatter))
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)


class _ToStderr(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr``, which a live view may replace for a while."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def _fields(record: logging.LogRecord) -> list[str]:
    extra = {name: value for name, value in vars(record).items() if name not in _OWN}
    return [f"{name}={_value(value)}" for name, value in extra.items()]


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
