"""Every error that mooring raises on purpose, in one tree.

::

    SchedulerError
    ├── ConfigError          bad input from a person: file, document, path, line, value, suggestion
    ├── ApiError             the API server answered, and the answer was no
    │   ├── NotFound         404
    │   ├── Conflict         409
    │   ├── Gone             410: the resourceVersion is too old, list again
    │   ├── TooManyRequests  429: wait for retry_after_s
    │   ├── Forbidden        401, 403
    │   └── ServerError      5xx
    ├── OutcomeUnknown       a write may have happened: ask before doing anything else
    ├── Unreachable          a write surely did not happen
    ├── PluginError          a plugin raised, or broke its contract
    ├── ExtenderError        an extender failed, timed out, or answered nonsense
    ├── LeaseLost            we do not lead any more: stop writing now
    └── InvariantViolation   our own bug: never caught, the process dumps its state and exits 70

What is expected is a value (``Reject``, ``Diagnosis``); only surprises are raised.
"""

from __future__ import annotations

from typing import Any


class SchedulerError(Exception):
    """The root of everything that mooring raises on purpose."""


class ConfigError(SchedulerError):
    """Input that a person wrote cannot be used; says where it stands and what was found there.

    Example:
        >>> str(ConfigError("must be positive", file="a.yaml", line=3, path="qps", value=-1))
        'a.yaml: line 3: qps: must be positive, got -1'
    """

    #: Longer values are cut in the message: a whole file must never end up in a log line.
    VALUE_LIMIT = 120

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        document: int | None = None,
        line: int | None = None,
        path: str | None = None,
        value: Any = None,
        suggestion: str | None = None,
    ) -> None:
        """Hold the parts apart, so that callers can add what only they know (see ``located``)."""
        self.problem = problem
        self.file = file
        self.document = document
        self.line = line
        self.path = path
        self.value = value
        self.suggestion = suggestion
        super().__init__(self._text())

    def located(self, *, file: str | None = None, document: int | None = None) -> ConfigError:
        """The same error, with the file and the document (counted from 1) it was found in."""
        return type(self)(
            self.problem,
            file=self.file or file,
            document=self.document if self.document is not None else document,
            line=self.line,
            path=self.path,
            value=self.value,
            suggestion=self.suggestion,
        )

    def _text(self) -> str:
        where = []
        if self.file:
            where.append(self.file)
        if self.document is not None:
            where.append(f"document {self.document}")
        if self.line is not None:
            where.append(f"line {self.line}")
        if self.path:
            where.append(self.path)
        text = ": ".join([*where, self.problem])
        if self.value is not None:
            shown = repr(self.value)
            if len(shown) > self.VALUE_LIMIT:
                shown = shown[: self.VALUE_LIMIT] + "..."
            text += f", got {shown}"
        if self.suggestion:
            text += f" (did you mean {self.suggestion!r}?)"
        return text


class ApiError(SchedulerError):
    """The API server refused: ``status`` is the HTTP code, ``reason`` that of its Status."""

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFound(ApiError):
    """404: the object does not exist."""


class Conflict(ApiError):
    """409: somebody else was faster, or the object already exists."""


class Gone(ApiError):
    """410: the resourceVersion asked for is no longer kept."""


class TooManyRequests(ApiError):
    """429: the server asks us to wait ``retry_after_s`` seconds."""

    def __init__(self, message: str, *, reason: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, status=429, reason=reason)
        self.retry_after_s = retry_after_s


class Forbidden(ApiError):
    """401 or 403: these credentials may not do this."""


class ServerError(ApiError):
    """5xx: the server failed; a write may or may not have been stored."""


class OutcomeUnknown(SchedulerError):
    """A write was sent and no answer came: it may have happened. Ask the API server."""


class Unreachable(SchedulerError):
    """The request never reached the server: it surely did not happen."""


class PluginError(SchedulerError):
    """A plugin raised or broke its contract; the message names it and the extension point."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {problem}')
        self.plugin = plugin
        self.point = point
        self.problem = problem


class ExtenderError(SchedulerError):
    """An extender failed, timed out, or answered something that cannot be used."""


class LeaseLost(SchedulerError):
    """The leader lease ran out: nothing may be written any more."""


class InvariantViolation(SchedulerError):
    """Our own bug. Never caught: the process dumps its state and exits with code 70."""
