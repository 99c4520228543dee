"""Every error that mooring raises on purpose, in one tree.

::

    SchedulerError
    ├── ConfigError          bad input from a person: file, document, path, line, value, suggestion
    │   └── ConfigErrors     several of them
    ├── ApiError             the API server answered, and the answer was no
    │   ├── BadRequest       400, 405, 406, 413, 415: we asked wrongly
    │   ├── Unauthorized     401: the server does not know us
    │   ├── Forbidden        403: we may not do this
    │   ├── NotFound         404
    │   ├── Conflict         409: the object has changed, or AlreadyExists
    │   │   └── AlreadyExists
    │   ├── Gone             410: the resourceVersion is too old, list again
    │   ├── Invalid          422: the object breaks a rule; causes say which
    │   ├── TooManyRequests  429: wait for retry_after_s
    │   └── ServerError      5xx
    ├── OutcomeUnknown       a write may have happened: ask before doing anything else
    ├── Unreachable          a write surely did not happen
    ├── PluginError          a plugin raised, or broke its contract
    │   └── CycleError       our own code raised in an attempt: its pod fails, and no other
    ├── ExtenderError        an extender failed, timed out, or answered nonsense
    ├── LeaseLost            we do not lead any more: stop writing now
    └── InvariantViolation   our own bug: never caught, the process dumps its state and exits 70

Two more are at home where they are raised: ``StreamBroken`` (``mooring.client``) and the two of
``mooring.testing.controlplane``: the machine has no control plane, or a part of it failed.

What is expected is a value (``Reject``, ``Diagnosis``); only surprises are raised.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any


def encodable(text: str) -> str:
    r"""Returns a text that can be sent and written, as texts of plugins need not be.

    Half of a surrogate pair, which JSON may contain, is replaced by its escape sequence.

    Example:
        >>> encodable("size \ud800")
        'size \\ud800'
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def exception_text(error: BaseException) -> str:
    """Returns type and message of an exception in a line; its ``__str__`` may raise.

    Example:
        >>> exception_text(ValueError("too large")), exception_text(KeyError())
        ('ValueError: too large', 'KeyError')
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as unreadable:  # noqa: BLE001 - the class is a plugin's
        return f"{name} (its __str__ raises {type(unreadable).__name__})"
    return f"{name}: {text}" if text else name


class SchedulerError(Exception):
    """The root of everything that mooring raises on purpose."""


class ConfigError(SchedulerError):
    """Invalid user input, with its location and value.

    Example:
        >>> str(ConfigError("must be positive", file="a.yaml", line=3, path="qps", value=-1))
        'a.yaml: line 3: qps: must be positive, got -1'
    """

    #: Longer values are cut in the message: a whole file must never end up in a log line.
    VALUE_LIMIT = 120
    #: The same for the problem, which may have the value in it.
    PROBLEM_LIMIT = 2000

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
        """Keeps the parts, so that a caller can add the location later (see ``located``)."""
        self.problem = _shortened(problem, self.PROBLEM_LIMIT)
        self.file = file
        self.document = document
        self.line = line
        self.path = path
        self.value = value
        self.suggestion = suggestion
        super().__init__(self._text())

    def located(
        self,
        *,
        file: str | None = None,
        document: int | None = None,
        line: int | None = None,
        path: str | None = None,
    ) -> ConfigError:
        """Returns the error with this location, where it has none of its own (counted from 1)."""
        return type(self)(
            self.problem,
            file=self.file or file,
            document=self.document if self.document is not None else document,
            line=self.line if self.line is not None else line,
            path=self.path or path,
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
            value_text = repr(self.value)
            text += f", got {_shortened(value_text, self.VALUE_LIMIT)}"
        if self.suggestion:
            text += f" (did you mean {self.suggestion!r}?)"
        return text


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


class ConfigErrors(ConfigError):
    """Several errors of one input; its own attributes are those of the first.

    Attributes:
        errors: All of them, in the order of the input.
        is_cut: Whether there may be more than these.
    """

    def __init__(self, errors: Sequence[ConfigError], *, is_cut: bool = False) -> None:
        """Requires at least one error."""
        self.errors = tuple(errors)
        self.is_cut = is_cut
        first = errors[0]
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
    ) -> ConfigErrors:
        """Returns the errors with this location, where they have none of their own."""
        located = [
            error.located(file=file, document=document, line=line, path=path)
            for error in self.errors
        ]
        return ConfigErrors(located, is_cut=self.is_cut)

    def _text(self) -> str:
        lines = [str(error) for error in self.errors]
        if self.is_cut:
            lines.append(f"only the first {len(self.errors)} errors are listed")
        return "\n".join(lines)


class ApiError(SchedulerError):
    """The API server refused.

    Attributes:
        status: The HTTP code.
        reason: That of its Status: "NotFound", "Expired" ...; "" if it sent none.
        causes: What exactly was wrong, as "field: message".
        retry_after_s: How long the server asks us to wait; None if it does not say.
        server_message: The server's own text, without the request; "" if it sent none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: tuple[str, ...] = (),
        retry_after_s: float | None = None,
        server_message: str = "",
    ) -> None:
        super().__init__(message)
        self.server_message = server_message
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    """400 and similar: the request itself was invalid."""


class Unauthorized(ApiError):
    """401: the server does not know these credentials, or not any more."""


class NotFound(ApiError):
    """404: the object does not exist."""


class Conflict(ApiError):
    """409: a concurrent change was stored first, or the object already exists."""


class AlreadyExists(Conflict):
    """409: an object of this name exists."""


class Gone(ApiError):
    """410: the requested resourceVersion is too old."""


class Invalid(ApiError):
    """422: the object breaks a rule of its kind; ``causes`` say which."""


class TooManyRequests(ApiError):
    """429: wait ``retry_after_s``; an eviction that a PodDisruptionBudget forbids is one too."""


class Forbidden(ApiError):
    """403: these credentials may not do this, or an admission rule forbids it."""


class ServerError(ApiError):
    """5xx: the server failed; a write may or may not have been stored."""


class OutcomeUnknown(SchedulerError):
    """A write was sent and no response came: it may have happened. Read the object."""


class Unreachable(SchedulerError):
    """The request never reached the server: it did not happen."""


class PluginError(SchedulerError):
    """A plugin raised or broke its contract; the message names it and the extension point."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        # kube-scheduler words the errors of Filter differently.
        text = f'"{plugin}" filter plugin' if point == "Filter" else f'{point} plugin "{plugin}"'
        self.problem = encodable(problem)
        super().__init__(f"running {text}: {self.problem}")
        self.plugin = plugin
        self.point = point

    @property
    def location(self) -> str:
        """File and line of the exception that the plugin raised; "" if it raised none."""
        cause = self.__cause__
        if cause is None or isinstance(cause, SchedulerError) or cause.__traceback__ is None:
            return ""
        last = traceback.extract_tb(cause.__traceback__)[-1]
        return f"{last.filename}:{last.lineno}"

    @property
    def located(self) -> str:
        """The message, with file and line if the plugin raised an exception."""
        return f"{self} ({self.location})" if self.location else str(self)


class CycleError(PluginError):
    """Our own code raised in an attempt: its pod fails, and what the attempt reserved is released.

    Args:
        error: What was raised, the cause.
        cycle: "scheduling cycle" or "binding cycle".
    """

    def __init__(self, error: Exception, cycle: str = "scheduling cycle") -> None:
        point = cycle.title().replace(" ", "")
        super().__init__("mooring", point, exception_text(error))
        self.args = (f"{cycle}: {self.problem}",)
        self.__cause__ = error


class ExtenderError(SchedulerError):
    """An extender failed, timed out, or sent an invalid response."""


class LeaseLost(SchedulerError):
    """The leader lease expired: no more writes are allowed."""


class InvariantViolation(SchedulerError):
    """Our own bug. Never caught: the process dumps its state and exits with code 70."""


def first_error(error: BaseException) -> BaseException:
    """Returns the first exception of a group that is no group itself: the cause of its end."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
