"""Converts responses of the API server to values or errors.

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

#: Longer messages of a server or proxy are truncated in errors and logs.
MESSAGE_LENGTH_MAX: Final = 1024

#: Longer Retry-After values of a server or proxy are capped: a waiting task holds resources.
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
    """A Status, which the API server returns instead of an object; all fields are optional."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decoder = msgspec.json.Decoder(Status)


def check(response: Response, what: str) -> bytes:
    """Returns the body of a successful response.

    Args:
        response: The complete response.
        what: Describes the request, for the error.

    Raises:
        ApiError: the response is an error; the subclass depends on its code and reason.
    """
    if 200 <= response.status < 300:
        return response.body
    raise error_of(response, what)


def error_of(response: Response, what: str) -> ApiError:
    """Returns the error of an error response."""
    status = _status(response.body)
    wait_s = retry_after_s(response)
    if wait_s is None:
        wait_s = _requested_s(status)
    text = status.message or response.body[:MESSAGE_LENGTH_MAX].decode("utf-8", "replace").strip()
    return make_error(
        f"{what}: {text or 'no message'}",
        code=response.status,
        status=status,
        wait_s=wait_s,
    )


def error_in_stream(line: bytes) -> ApiError:
    """Returns the error in a watch event of type ERROR; ``line`` is its object."""
    status = _status(line)
    text = status.message or "no message"
    code, wait_s = status.code or 500, _requested_s(status)
    return make_error(f"watch: {text}", code=code, status=status, wait_s=wait_s)


def make_error(message: str, *, code: int, status: Status, wait_s: float | None) -> ApiError:
    """Returns the error for a code and a Status."""
    reason = status.reason or ""
    error_class = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if error_class is None:
        error_class = ServerError if code >= 500 else BadRequest
    causes = status.details.causes if status.details is not None else None
    return error_class(
        message[:MESSAGE_LENGTH_MAX],
        status=code,
        reason=reason,
        causes=tuple(f"{cause.field}: {cause.message}" for cause in causes or ()),
        retry_after_s=wait_s,
        server_message=(status.message or "")[:MESSAGE_LENGTH_MAX],
    )


def retry_after_s(response: Response) -> float | None:
    """Returns the Retry-After header in seconds, at most 120; None if absent or invalid.

    A date is relative to the server's Date header, so that only its clock matters.
    """
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        retry_at = parsedate_to_datetime(text)
        now = parsedate_to_datetime(response.headers.get("date", ""))
        return min(max(0.0, (retry_at - now).total_seconds()), RETRY_AFTER_S_MAX)
    except (TypeError, ValueError, OverflowError):
        return None


def _requested_s(status: Status) -> float | None:
    """Returns ``retryAfterSeconds`` of a Status; None if absent or 0."""
    requested_s = status.details.retry_after_seconds if status.details is not None else None
    # Compared before the conversion: a float cannot have hundreds of digits.
    return float(min(max(0, requested_s or 0), RETRY_AFTER_S_MAX)) or None


def _status(body: bytes) -> Status:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Status()
