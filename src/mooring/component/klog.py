"""Log lines in the formats of kube-scheduler: klog's text, or JSON, on stderr.

::

    I1122 14:30:00.123456    4711 service.py:189] "caches synced" nodes=5
    {"ts":1795357940438.766,"caller":"cli/run.py:89","msg":"caches synced","v":0,"nodes":5}

Modules log as everywhere through ``logging.getLogger(__name__)``, with facts in ``extra``:

- the level is the letter: ERROR and CRITICAL are E, WARNING is W, the others are I;
- ``extra={"v": 2}`` is the verbosity from which a line is written; without it 0, and ``DEBUG_V``
  for a debug line. ``LogControl.level_of`` makes sure that such lines are created at all;
- a message is quoted if it is structured; ``extra={"bare": True}`` is a line of prose.

Source: k8s.io/klog/v2 (klog.go, internal/serialize, internal/verbosity), component-base's logs.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final, TextIO

from mooring.component.flag_kinds import LEVEL, VModule
from mooring.component.flags import LoggingFlags
from mooring.component.go_values import GoError, quote

#: The verbosity of a debug line that names none.
DEBUG_V: Final = 4

#: Longer values are cut: a line is for reading. A whole configuration fits.
VALUE_LENGTH_MAX: Final = 64 << 10

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "v", "bare"}
#: Characters that a terminal would obey; the other ones of a line are its text.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LETTERS: Final = {logging.ERROR: "E", logging.CRITICAL: "E", logging.WARNING: "W"}


class LogControl:
    """The choice of lines that are written; may change while the process runs.

    Attributes:
        verbosity: Lines of a higher one are left out.
    """

    def __init__(
        self, verbosity: int = 0, vmodule: Sequence[VModule] = (), *, level: int = logging.NOTSET
    ) -> None:
        """Sets verbosity, those of single files, and the lowest level (of --log-level)."""
        self.verbosity = verbosity
        self._vmodule = tuple(vmodule)
        self._level = level
        self._verbosities: dict[str, int | None] = {}

    def set_verbosity(self, text: str) -> str:
        """Sets the verbosity, as PUT /debug/flags/v does; returns the answer.

        Raises:
            ValueError: the text is no number.
        """
        try:
            self.verbosity = LEVEL.parse(None, text)
        except GoError as error:
            raise ValueError(f"failed to set klog.logging.verbosity to {text}: {error}") from None
        logging.getLogger().setLevel(self.level_of())
        return f"successfully set klog.logging.verbosity to {text}"

    def level_of(self) -> int:
        """Returns the level of the root logger: debug lines cost nothing while none is written."""
        highest = max([self.verbosity, *(item.verbosity for item in self._vmodule)])
        return logging.DEBUG if highest > 0 else max(logging.INFO, self._level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is written."""
        if record.levelno >= logging.WARNING:
            return record.levelno >= self._level
        # "info" and "debug" leave the choice to the verbosity.
        if self._level > logging.INFO:
            return False
        return verbosity_of(record) <= self._verbosity_for(record.module)

    def _verbosity_for(self, module: str) -> int:
        if not self._vmodule:
            return self.verbosity
        if module not in self._verbosities:
            self._verbosities[module] = next(
                (item.verbosity for item in self._vmodule if fnmatchcase(module, item.pattern)),
                None,
            )
        own = self._verbosities[module]
        return self.verbosity if own is None else own


def verbosity_of(record: logging.LogRecord) -> int:
    """Returns the verbosity from which a record is written."""
    own = vars(record).get("v")
    if own is not None:
        return int(own)
    return DEBUG_V if record.levelno < logging.INFO else 0


class TextFormatter(logging.Formatter):
    """klog's text format, in local time."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line; values of several lines follow indented."""
        letter = _LETTERS.get(record.levelno, "I")
        moment = datetime.fromtimestamp(record.created).astimezone()
        head = (
            f"{letter}{moment:%m%d %H:%M:%S.%f} {record.process or 0:7d} "
            f"{PurePath(record.pathname).name}:{record.lineno}]"
        )
        text = record.getMessage()
        if vars(record).get("bare"):
            return f"{head} {text}"
        values = "".join(f" {key}={_text_value(value)}" for key, value in _facts(record).items())
        return f"{head} {quote(text)}{values}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line. An entry without ``v`` is an error."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line."""
        path = PurePath(record.pathname)
        entry: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            entry["v"] = verbosity_of(record)
        entry |= {key: _json_value(value) for key, value in _facts(record).items()}
        return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)


def configure(flags: LoggingFlags, *, level: str = "info", out: TextIO | None = None) -> LogControl:
    """Writes the process's log as the flags say; returns its control.

    Args:
        flags: Format, verbosity and streams.
        level: Of --log-level.
        out: Instead of stderr.
    """
    verbosity = max(flags.v, DEBUG_V) if level == "debug" else flags.v
    control = LogControl(verbosity, flags.vmodule, level=getattr(logging, level.upper()))
    formatter = JsonFormatter() if flags.logging_format == "json" else TextFormatter()
    split = (
        flags.log_json_split_stream
        if flags.logging_format == "json"
        else flags.log_text_split_stream
    )
    handlers: list[logging.Handler] = [_handler(formatter, control, out, "stderr")]
    if split:
        handlers[0].addFilter(lambda record: record.levelno >= logging.ERROR)
        handlers.append(_handler(formatter, control, out, "stdout"))
        handlers[1].addFilter(lambda record: record.levelno < logging.ERROR)
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(control.level_of())
    return control


def _handler(
    formatter: logging.Formatter, control: LogControl, out: TextIO | None, stream: str
) -> logging.Handler:
    handler = logging.StreamHandler(out) if out is not None else _ToStream(stream)
    handler.setFormatter(formatter)
    handler.addFilter(control.filter)
    return handler


class _ToStream(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr`` or ``sys.stdout``."""

    def __init__(self, name: str) -> None:
        self._stream_name = name
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return getattr(sys, self._stream_name)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
        facts["trace"] = trace
    return facts


def _text_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return json.dumps(_json_value(value), separators=(",", ":"), ensure_ascii=False)
    text = _cut(str(value))
    if "\n" in text:
        printable = _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
        lines = "".join(f"\t{line}\n" for line in printable.removesuffix("\n").split("\n"))
        return f"<\n{lines} >"
    return quote(text)


def _json_value(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH_MAX else text[:VALUE_LENGTH_MAX] + "..."
