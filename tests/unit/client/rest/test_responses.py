"""The errors for responses of the API server."""

from __future__ import annotations

import json

import pytest

from mooring.client.rest.responses import MESSAGE_LENGTH_MAX, check, error_in_stream, error_of
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


def response(code: int, body: object = b"", **headers: str) -> Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(code, {name.replace("_", "-"): text for name, text in headers.items()}, content)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", BadRequest),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (415, "UnsupportedMediaType", BadRequest),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_code_and_reason_say_which_error_it_is(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "the reason why"}
    error = error_of(response(code, status), "GET /api/v1/pods")
    assert type(error) is expected
    assert (error.status, error.reason) == (code, reason)
    assert str(error) == "GET /api/v1/pods: the reason why"


def test_a_yes_is_its_body() -> None:
    assert check(response(201, b"made"), "POST /") == b"made"
    with pytest.raises(BadRequest):
        check(response(302, b""), "GET /")


def test_the_causes_say_which_fields_are_wrong() -> None:
    causes = [
        {"reason": "FieldValueRequired", "field": "spec.containers", "message": "Required value"},
        {"reason": "FieldValueInvalid", "field": "metadata.name", "message": "Invalid value"},
    ]
    status = {"code": 422, "reason": "Invalid", "message": "no", "details": {"causes": causes}}
    error = error_of(response(422, status), "POST /")
    assert error.causes == ("spec.containers: Required value", "metadata.name: Invalid value")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html>Bad gateway</html>\n", "<html>Bad gateway</html>"),
        (b"", "no message"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"message": 7}', '{"message": 7}'),
        (b"null", "null"),
    ],
)
def test_a_proxy_that_says_something_else_is_quoted(body: bytes, shown: str) -> None:
    error = error_of(response(502, body), "GET /")
    assert str(error) == f"GET /: {shown}"
    assert isinstance(error, ServerError)


def test_a_long_text_is_cut() -> None:
    assert len(str(error_of(response(500, b"x" * 10_000), "GET /"))) == MESSAGE_LENGTH_MAX


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"retry_after": "7"}, {}, 7.0),
        ({"retry_after": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"retry_after": "120"}, {}, 120.0),
        ({"retry_after": "9" * 400}, {}, 120.0),
        ({}, {"retryAfterSeconds": 86_400}, 120.0),
        ({}, {"retryAfterSeconds": 10**400}, 120.0),
        ({}, {"retryAfterSeconds": -(10**400)}, None),
        ({}, {"retryAfterSeconds": -3}, None),
        (
            {
                "retry_after": "Sat, 21 Nov 2099 12:00:30 GMT",
                "date": "Sat, 21 Nov 2026 12:00:00 GMT",
            },
            {},
            120.0,
        ),
        ({"retry_after": "soon"}, {}, None),
        ({"retry_after": "-1"}, {}, None),
        ({}, {}, None),
        (
            {
                "retry_after": "Sat, 21 Nov 2026 12:00:30 GMT",
                "date": "Sat, 21 Nov 2026 12:00:00 GMT",
            },
            {},
            30.0,
        ),
        (
            {
                "retry_after": "Sat, 21 Nov 2026 11:00:00 GMT",
                "date": "Sat, 21 Nov 2026 12:00:00 GMT",
            },
            {},
            0.0,
        ),
        ({"retry_after": "Sat, 21 Nov 2026 12:00:30 GMT"}, {}, None),
        (
            {
                "retry_after": "Sat, 21 Nov 99999999999999999999 12:00:30 GMT",
                "date": "Sat, 21 Nov 2026 12:00:00 GMT",
            },
            {},
            None,
        ),
    ],
)
def test_how_long_the_server_asks_us_to_wait(
    headers: dict[str, str], details: dict[str, int], expected: float | None
) -> None:
    status = {"code": 429, "reason": "TooManyRequests", "details": details}
    assert error_of(response(429, status, **headers), "GET /").retry_after_s == expected


def test_an_error_in_a_watch_is_the_same_error() -> None:
    status = {"code": 410, "reason": "Expired", "message": "too old resource version: 1 (7)"}
    error = error_in_stream(json.dumps(status).encode())
    assert isinstance(error, Gone)
    assert str(error) == "watch: too old resource version: 1 (7)"


def test_an_error_in_a_watch_may_ask_us_to_wait_or_say_nothing() -> None:
    status = {"code": 429, "details": {"retryAfterSeconds": 1}}
    slow = error_in_stream(json.dumps(status).encode())
    assert isinstance(slow, TooManyRequests)
    assert slow.retry_after_s == 1.0
    assert isinstance(error_in_stream(b"null"), ServerError)


def test_a_status_that_is_nested_too_deeply_has_no_message() -> None:
    body = b'{"more": ' + b"[" * 100_000
    assert str(error_in_stream(body)) == "watch: no message"
