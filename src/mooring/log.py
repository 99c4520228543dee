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

#: What every record has; everything else in it came with ``extra``.
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
    """Writes to what is stderr at the moment: a live view may stand before it for a while."""

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
