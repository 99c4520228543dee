"""Answers that say no: ``ApiStatusError`` carries the Status object that the client is sent.

One function for each way in which kube-apiserver refuses, with its code, reason, message and
details; and ``FieldError``, one thing that is wrong with one field.

Source: k8s.io/apimachinery pkg/api/errors/errors.go, pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.apiserver.resources import Resource

#: A Status may carry this many causes; more would only repeat themselves.
CAUSES_MAX = 500


class ApiStatusError(Exception):
    """The request is answered with a Status of failure.

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
        #: The metadata of the Status; an expired list says there how to go on.
        self.list_metadata: dict[str, Any] = {}
        #: What to warn the client about besides.
        self.warnings: list[str] = []

    def status(self) -> dict[str, Any]:
        """Returns the Status object."""
        found: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            found["reason"] = self.reason
        if self.details is not None:
            found["details"] = self.details
        return {**found, "code": self.code}

    @property
    def retry_after_s(self) -> int:
        """The seconds after which the client should ask again; 0 = it was not told."""
        return int((self.details or {}).get("retryAfterSeconds", 0))


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field; made by the functions below.

    Attributes:
        type_name: As in a cause's reason, such as "FieldValueInvalid".
        field: The path, such as "spec.containers[0].name".
        body: What is wrong, with the value.
    """

    type_name: str
    field: str
    body: str


def _shown(value: Any) -> str:
    """Returns a value as Go's field errors show it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()


def quoted(text: str) -> str:
    """Returns the text in double quotes, as Go's %q writes it."""
    return json.dumps(text, ensure_ascii=False)


def _fault(type_name: str, title: str, field: str, detail: str) -> FieldError:
    return FieldError(type_name, field, f"{title}: {detail}" if detail else title)


def required(field: str, detail: str = "") -> FieldError:
    """The field must have a value."""
    return _fault("FieldValueRequired", "Required value", field, detail)


def forbidden_field(field: str, detail: str) -> FieldError:
    """The field must not have a value, or not this one."""
    return _fault("FieldValueForbidden", "Forbidden", field, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Returns the value breaks a rule."""
    return _fault("FieldValueInvalid", f"Invalid value: {_shown(value)}", field, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Returns the value stands twice where it may stand once."""
    return _fault("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", field, "")


def not_found_value(field: str, value: Any, detail: str = "") -> FieldError:
    """Returns the value names something that is not there."""
    return _fault("FieldValueNotFound", f"Not found: {_shown(value)}", field, detail)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """The value is none of those that there are."""
    known = "supported values: " + ", ".join(map(quoted, supported)) if supported else ""
    return _fault("FieldValueNotSupported", f"Unsupported value: {_shown(value)}", field, known)


def too_long(field: str, length_max: int) -> FieldError:
    """The text has too many bytes."""
    unit = "byte" if length_max == 1 else "bytes"
    return _fault(
        "FieldValueTooLong", "Too long", field, f"may not be more than {length_max} {unit}"
    )


def too_many(field: str, count: int, count_max: int) -> FieldError:
    """The list has too many items."""
    unit = "item" if count_max == 1 else "items"
    return _fault(
        "FieldValueTooMany", f"Too many: {count}", field, f"must have at most {count_max} {unit}"
    )


def _qualified(group: str, name: str) -> str:
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    found = {"name": name, "group": group, "kind": kind}
    return {**{key: value for key, value in found.items() if value}, **more}


def invalid_object(
    kind: str, name: str, errors: Iterable[FieldError], *, group: str = ""
) -> ApiStatusError:
    """422: the object breaks rules."""
    causes = []
    texts: dict[str, None] = {}
    for error in list(errors)[:CAUSES_MAX]:
        cause = {"reason": error.type_name, "message": error.body, "field": error.field}
        causes.append(cause)
        texts[f"{error.field}: {error.body}"] = None
    said = ", ".join(texts)
    said = f"[{said}]" if len(texts) > 1 else said
    message = f"{_qualified(group, kind)} {quoted(name)} is invalid: {said}"
    return ApiStatusError(422, "Invalid", message, _details(group, kind, name, causes=causes))


def not_found(resource: Resource, name: str) -> ApiStatusError:
    """404: the object does not exist."""
    message = f"{resource.qualified} {quoted(name)} not found"
    return ApiStatusError(404, "NotFound", message, _details(resource.group, resource.name, name))


def already_exists(resource: Resource, name: str) -> ApiStatusError:
    """409: an object with this name is there already."""
    message = f"{resource.qualified} {quoted(name)} already exists"
    return ApiStatusError(
        409, "AlreadyExists", message, _details(resource.group, resource.name, name)
    )


def name_not_generated(resource: Resource, name: str) -> ApiStatusError:
    """409: all the names that were tried are taken."""
    message = (
        f"{resource.qualified} {quoted(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _details(resource.group, resource.name, name, retryAfterSeconds=1)
    return ApiStatusError(409, "AlreadyExists", message, details)


def conflict(group: str, kind: str, name: str, reason: str) -> ApiStatusError:
    """409: somebody else was faster, or a condition of the request does not hold."""
    message = f"Operation cannot be fulfilled on {_qualified(group, kind)} {quoted(name)}: {reason}"
    return ApiStatusError(409, "Conflict", message, _details(group, kind, name))


def forbidden(resource: Resource, name: str, reason: str, **more: Any) -> ApiStatusError:
    """403: the request is understood and not allowed."""
    subject = f"{resource.qualified} {quoted(name)}" if name else resource.qualified
    details = _details(resource.group, resource.name, name, **more)
    return ApiStatusError(403, "Forbidden", f"{subject} is forbidden: {reason}", details)


def bad_request(message: str) -> ApiStatusError:
    """400: the request makes no sense."""
    return ApiStatusError(400, "BadRequest", message)


def too_many_requests(
    message: str, *, retry_after_s: int = 0, causes: Sequence[dict[str, str]] = ()
) -> ApiStatusError:
    """429: not now."""
    details: dict[str, Any] = {"causes": list(causes)} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiStatusError(429, "TooManyRequests", message, details)


def expired(message: str) -> ApiStatusError:
    """410: what was asked for is no longer kept."""
    return ApiStatusError(410, "Expired", message)


def entity_too_large(message: str) -> ApiStatusError:
    """413: the body, or what it makes of the object, is too big."""
    return ApiStatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(accepted: Sequence[str]) -> ApiStatusError:
    """415: the body is in a form that is not read here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiStatusError(415, "UnsupportedMediaType", message)


def unprocessable(message: str) -> ApiStatusError:
    """422 without a field: a patch that cannot be applied."""
    del message  # upstream's answer keeps it to itself
    text = "the server rejected our request due to an error in our request"
    return ApiStatusError(422, "Invalid", text, {})


def method_not_allowed() -> ApiStatusError:
    """405: the path has no such method."""
    text = "the server does not allow this method on the requested resource"
    return ApiStatusError(405, "MethodNotAllowed", text, {})


def method_not_supported(resource: Resource, action: str) -> ApiStatusError:
    """405: the resource cannot do this."""
    message = f"{action} is not supported on resources of kind {quoted(resource.qualified)}"
    details = _details(resource.group, resource.name)
    return ApiStatusError(405, "MethodNotAllowed", message, details)


def no_such_path() -> ApiStatusError:
    """404: nothing is served at the path."""
    text = "the server could not find the requested resource"
    return ApiStatusError(404, "NotFound", text, {})


def internal_error(message: str) -> ApiStatusError:
    """500: our fault."""
    details = {"causes": [{"message": message}]}
    return ApiStatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def version_too_large(asked: int, current: int) -> ApiStatusError:
    """504: a resourceVersion that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiStatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
