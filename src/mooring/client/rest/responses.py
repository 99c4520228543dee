"""From an answer of the API server to a value, or to the error that it stands for.

Source: the codes and reasons of k8s.io/apimachinery/pkg/apis/meta/v1/types.go.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from mooring.client.transport.transport import Response
from mooring.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)

#: Longer texts of a server, or of a proxy before it, are cut in errors and logs.
MESSAGE_LENGTH_MAX: Final = 1024

#: Longer waits that a server, or a proxy before it, asks for are cut: who waits holds something.
RETRY_AFTER_S_MAX: Final = 120.0

_BY_CODE: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}

_BY_REASON: Final[dict[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Gone": Gone,
}


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct):
    """What the API server says instead of an object; everything may be absent."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decoder = msgspec.json.Decoder(Status)


def check(response: Response, what: str) -> bytes:
    """Returns the body of an answer that says yes.

    Args:
        response: Whole.
        what: The request in words, for the error.

    Raises:
        ApiError: it says no; the subclass tells how.
    """
    if 200 <= response.status < 300:
        return response.body
    raise error_of(response, what)


def error_of(response: Response, what: str) -> ApiError:
    """Returns the error that an answer stands for."""
    status = _status(response.body)
    waits_s = retry_after_s(response)
    if waits_s is None:
        waits_s = _asked_s(status)
    text = status.message or response.body[:MESSAGE_LENGTH_MAX].decode("utf-8", "replace").strip()
    return make_error(
        f"{what}: {text or 'no message'}",
        code=response.status,
        status=status,
        waits_s=waits_s,
    )


def error_in_stream(line: bytes) -> ApiError:
    """Returns the error that a watch event of type ERROR carries; ``line`` is its object."""
    status = _status(line)
    text = status.message or "no message"
    code, waits_s = status.code or 500, _asked_s(status)
    return make_error(f"watch: {text}", code=code, status=status, waits_s=waits_s)


def make_error(message: str, *, code: int, status: Status, waits_s: float | None) -> ApiError:
    """Returns the error for a code and a Status."""
    reason = status.reason or ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if kind is None:
        kind = ServerError if code >= 500 else BadRequest
    causes = status.details.causes if status.details is not None else None
    return kind(
        message[:MESSAGE_LENGTH_MAX],
        status=code,
        reason=reason,
        causes=tuple(f"{cause.field}: {cause.message}" for cause in causes or ()),
        retry_after_s=waits_s,
    )


def retry_after_s(response: Response) -> float | None:
    """What the Retry-After header asks for, up to 120 s; None if there is none that can be read.

    A date counts from the server's own Date header, so that its clock alone matters.
    """
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        then = parsedate_to_datetime(text)
        now = parsedate_to_datetime(response.headers.get("date", ""))
        return min(max(0.0, (then - now).total_seconds()), RETRY_AFTER_S_MAX)
    except (TypeError, ValueError):
        return None


def _asked_s(status: Status) -> float | None:
    """How long a Status itself asks us to wait; 0 is no wish."""
    asked_s = status.details.retry_after_seconds if status.details is not None else None
    return min(max(0.0, float(asked_s or 0)), RETRY_AFTER_S_MAX) or None


def _status(body: bytes) -> Status:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status()
