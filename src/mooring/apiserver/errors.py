"""Errors of requests: ``ApiStatusError`` has the Status object that is sent to the client.

One function for each kind of error of kube-apiserver, with its code, reason, message and details;
and ``FieldError``, one validation error of one field.

Source: k8s.io/apimachinery pkg/api/errors/errors.go, pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.objects.go_text import go_json, go_quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.resources import Resource

#: Limit of causes in one Status.
CAUSES_MAX = 500


class ApiStatusError(Exception):
    """Raised if a request fails; the response is a Status of failure.

    Attributes:
        code: The HTTP status.
        reason: As in the Status: "NotFound", "Conflict" ...; "" for none.
        details: As in the Status; None for none.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        #: The metadata of the Status; that of an expired list has a new continue token.
        self.list_metadata: dict[str, Any] = {}
        #: Warnings that are sent in addition.
        self.warnings: list[str] = []

    def status(self) -> dict[str, Any]:
        """Returns the Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return {**status, "code": self.code}

    @property
    def retry_after_s(self) -> int:
        """Seconds after which the client should retry; 0 = not set."""
        return int((self.details or {}).get("retryAfterSeconds", 0))


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error of one field; the functions below create it.

    Attributes:
        type_name: As in a cause's reason, such as "FieldValueInvalid".
        field: The path, such as "spec.containers[0].name".
        body: The message, with the value.
    """

    type_name: str
    field: str
    body: str


#: What validation functions return; many are generators.
Errors = Iterable[FieldError]


def _format_value(value: Any) -> str:
    """Returns a value as Go's field errors format it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    return go_json(msgspec.to_builtins(value))


def quoted(text: str) -> str:
    """Returns the text in double quotes, as Go's %q writes it."""
    return go_quote(text)


def _field_error(type_name: str, title: str, field: str, detail: str) -> FieldError:
    return FieldError(type_name, field, f"{title}: {detail}" if detail else title)


def required(field: str, detail: str = "") -> FieldError:
    """Returns the error of a field that must have a value."""
    return _field_error("FieldValueRequired", "Required value", field, detail)


def forbidden_field(field: str, detail: str) -> FieldError:
    """Returns the error of a field that must not have a value, or not this one."""
    return _field_error("FieldValueForbidden", "Forbidden", field, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Returns the error of a value that breaks a rule."""
    return _field_error(
        "FieldValueInvalid", f"Invalid value: {_format_value(value)}", field, detail
    )


def invalid_without_value(field: str, detail: str) -> FieldError:
    """Returns the error of a value that breaks a rule, without the value."""
    return _field_error("FieldValueInvalid", "Invalid value", field, detail)


def internal_field_error(field: str, detail: str) -> FieldError:
    """Returns the error of a field that could not be checked."""
    return _field_error("InternalError", "Internal error", field, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Returns the error of a value that occurs twice."""
    return _field_error(
        "FieldValueDuplicate", f"Duplicate value: {_format_value(value)}", field, ""
    )


def not_found_value(field: str, value: Any, detail: str = "") -> FieldError:
    """Returns the error of a value that refers to something absent."""
    return _field_error("FieldValueNotFound", f"Not found: {_format_value(value)}", field, detail)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Returns the error of a value that is not in a list of supported values."""
    detail = "supported values: " + ", ".join(map(quoted, supported)) if supported else ""
    return _field_error(
        "FieldValueNotSupported", f"Unsupported value: {_format_value(value)}", field, detail
    )


def too_long(field: str, length_max: int) -> FieldError:
    """Returns the error of a text with too many bytes."""
    unit = "byte" if length_max == 1 else "bytes"
    return _field_error(
        "FieldValueTooLong", "Too long", field, f"may not be more than {length_max} {unit}"
    )


def too_many(field: str, count: int, count_max: int) -> FieldError:
    """Returns the error of a list with too many items."""
    unit = "item" if count_max == 1 else "items"
    return _field_error(
        "FieldValueTooMany", f"Too many: {count}", field, f"must have at most {count_max} {unit}"
    )


def _qualified(group: str, name: str) -> str:
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    names = {"name": name, "group": group, "kind": kind}
    return {**{key: value for key, value in names.items() if value}, **more}


def first_errors(errors: Errors) -> list[FieldError]:
    """Returns the errors that a Status can have: the others are not computed.

    Example:
        >>> len(first_errors(required("spec", "") for _ in range(1_000_000)))
        500
    """
    return list(islice(errors, CAUSES_MAX))


def invalid_object(kind: str, name: str, errors: Errors, *, group: str = "") -> ApiStatusError:
    """Returns error 422: the object is invalid."""
    causes = []
    texts: dict[str, None] = {}
    for error in first_errors(errors):
        cause = {"reason": error.type_name, "message": error.body, "field": error.field}
        causes.append(cause)
        texts[f"{error.field}: {error.body}"] = None
    summary = ", ".join(texts)
    summary = f"[{summary}]" if len(texts) > 1 else summary
    message = f"{_qualified(group, kind)} {quoted(name)} is invalid: {summary}"
    return ApiStatusError(422, "Invalid", message, _details(group, kind, name, causes=causes))


def not_found(resource: Resource, name: str) -> ApiStatusError:
    """Returns error 404: the object does not exist."""
    message = f"{resource.qualified} {quoted(name)} not found"
    return ApiStatusError(404, "NotFound", message, _details(resource.group, resource.name, name))


def already_exists(resource: Resource, name: str) -> ApiStatusError:
    """Returns error 409: an object with this name exists."""
    message = f"{resource.qualified} {quoted(name)} already exists"
    return ApiStatusError(
        409, "AlreadyExists", message, _details(resource.group, resource.name, name)
    )


def name_not_generated(resource: Resource, name: str) -> ApiStatusError:
    """Returns error 409: all generated names are in use."""
    message = (
        f"{resource.qualified} {quoted(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _details(resource.group, resource.name, name, retryAfterSeconds=1)
    return ApiStatusError(409, "AlreadyExists", message, details)


def conflict(group: str, kind: str, name: str, reason: str) -> ApiStatusError:
    """Returns error 409: a concurrent write, or a failed precondition."""
    message = f"Operation cannot be fulfilled on {_qualified(group, kind)} {quoted(name)}: {reason}"
    return ApiStatusError(409, "Conflict", message, _details(group, kind, name))


def forbidden(resource: Resource, name: str, reason: str, **more: Any) -> ApiStatusError:
    """Returns error 403: the request is not allowed."""
    subject = f"{resource.qualified} {quoted(name)}" if name else resource.qualified
    details = _details(resource.group, resource.name, name, **more)
    return ApiStatusError(403, "Forbidden", f"{subject} is forbidden: {reason}", details)


def bad_request(message: str) -> ApiStatusError:
    """Returns error 400: the request is malformed."""
    return ApiStatusError(400, "BadRequest", message)


def too_many_requests(
    message: str, *, retry_after_s: int = 0, causes: Sequence[dict[str, str]] = ()
) -> ApiStatusError:
    """Returns error 429: the client should retry later."""
    details: dict[str, Any] = {"causes": list(causes)} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiStatusError(429, "TooManyRequests", message, details)


def expired(message: str) -> ApiStatusError:
    """Returns error 410: the requested version is no longer stored."""
    return ApiStatusError(410, "Expired", message)


def entity_too_large(message: str) -> ApiStatusError:
    """Returns error 413: the body, or the patched object, is too large."""
    return ApiStatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(accepted: Sequence[str]) -> ApiStatusError:
    """Returns error 415: the media type of the body is not supported."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiStatusError(415, "UnsupportedMediaType", message)


def unprocessable(message: str) -> ApiStatusError:
    """Returns error 422 without a field: the patch cannot be applied."""
    del message  # upstream's response omits it
    text = "the server rejected our request due to an error in our request"
    return ApiStatusError(422, "Invalid", text, {})


def method_not_allowed() -> ApiStatusError:
    """Returns error 405: the path has no such method."""
    text = "the server does not allow this method on the requested resource"
    return ApiStatusError(405, "MethodNotAllowed", text, {})


def no_such_path() -> ApiStatusError:
    """Returns error 404: nothing is served at the path."""
    text = "the server could not find the requested resource"
    return ApiStatusError(404, "NotFound", text, {})


def internal_error(message: str) -> ApiStatusError:
    """Returns error 500: a bug of the server."""
    details = {"causes": [{"message": message}]}
    return ApiStatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def version_too_large(requested: int, current: int) -> ApiStatusError:
    """Returns error 504: the resourceVersion does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return ApiStatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
