"""One request for a resource: reading its body, checking its name, writing its response.

Source: k8s.io/apiserver pkg/endpoints/handlers/{rest,namer,response}.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.endpoints import negotiation, protobuf
from mooring.apiserver.endpoints.body import (
    ACCEPTED,
    JSON,
    PROTOBUF,
    TYPE_META,
    YAML,
    Expected,
    convert_object,
    decode_json,
    decode_yaml,
    media_type_of,
    patch_problems,
    read_object,
    with_reset_fields,
)
from mooring.apiserver.endpoints.rendering import SHAPES, Renderer
from mooring.apiserver.errors import (
    ApiStatusError,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    quoted,
    unsupported_media_type,
)
from mooring.apiserver.patch.apply_errors import find_apply_errors
from mooring.apiserver.patch.patch import JSON_PATCH, STRATEGIC_PATCH
from mooring.apiserver.patch.strategic_merge import conversion_problem, go_text
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_stored
from mooring.apiserver.schema.type_errors import find_type_errors, json_kind

if TYPE_CHECKING:
    from mooring.apiserver.endpoints.query import Query, WriteOptions
    from mooring.apiserver.resources import Resource, ResourcePath
    from mooring.apiserver.types import Object

HttpResponse = tuple[int, dict[str, str], bytes]
SUCCESS: Mapping[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
}


@dataclass(slots=True)
class Request:
    """One request for a resource.

    Attributes:
        method: "GET", "POST" ...
        path: The resource, namespace, name and subresource that the URL names.
        query: The URL's parameters.
        headers: With lower-case names.
        body: As sent.
        warnings: Sent to the client with the response.
    """

    method: str
    path: ResourcePath
    query: Query
    headers: Mapping[str, str]
    body: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def target(self) -> Target:
        """The object or collection."""
        return Target(self.path.resource, self.path.namespace, self.path.name)


def requested_shape(headers: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Returns the representation of objects that a client accepts; None = the objects themselves.

    Raises:
        ApiStatusError: 406.
    """
    header = headers.get("accept", "")
    if header == JSON:
        return None
    clauses = negotiation.clauses(header)
    if clauses and not any(clause.is_json for clause in clauses):
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(ACCEPTED)}"
        raise ApiStatusError(406, "NotAcceptable", text, {})
    return negotiation.requested_shape(header, SHAPES)


def renderer_for(request: Request, now_s: float) -> Renderer:
    """Returns the renderer of the representation that the client accepts; ``now_s``: wall clock.

    Raises:
        ApiStatusError: 406.
    """
    shape = requested_shape(request.headers)
    include = request.query.text("includeObject")
    return Renderer(request.path.resource, shape or ("", "", ""), include, now_s)


def expected_object(request: Request) -> Expected:
    """Returns the type that a body with the object itself must have."""
    resource = request.path.resource
    return Expected(struct_of(resource), resource.api_version, resource.kind, resource.custom)


def read_body(request: Request, expected: Expected, options: WriteOptions) -> Object:
    """Returns the object in the body, in its stored form.

    Raises:
        ApiStatusError: 400, 415.
    """
    obj = read_object(
        request.body,
        media_type_of(request.headers),
        expected,
        request.path.resource,
        validation=options.validation,
        warnings=request.warnings,
    )
    return to_stored(request.path.resource, obj) if is_view(request.path.resource) else obj


def read_delete_options(request: Request, expected: Expected) -> Object:
    """Returns the DeleteOptions in the body, of any version.

    Raises:
        ApiStatusError: 400, 415.
    """
    raw = _delete_options_in(request)
    kind, version = raw.get("kind") or expected.kind, raw.get("apiVersion") or "meta.k8s.io/v1"
    if kind != expected.kind:
        raise bad_request(
            f"no kind {quoted(str(kind))} is registered for version {quoted(str(version))} in "
            'scheme "pkg/runtime/scheme.go:111"'
        )
    # Clients set the version of the resource's group, "v1", or none.
    unversioned = {key: value for key, value in raw.items() if key != "apiVersion"}
    problem, _ = find_type_errors(expected.type_name, unversioned)
    if problem:
        raise bad_request(problem)
    return convert_object(unversioned, expected, "Ignore", request.warnings)


def _delete_options_in(request: Request) -> Object:
    media_type = media_type_of(request.headers)
    if media_type not in ACCEPTED:
        raise unsupported_media_type(ACCEPTED)
    if media_type == PROTOBUF:
        return protobuf.to_json(request.body, request.path.resource)
    try:
        is_yaml = media_type == YAML
        raw = decode_yaml(request.body).value if is_yaml else decode_json(request.body)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        problem = f"json: cannot unmarshal {json_kind(raw)} into Go value of type {TYPE_META}"
        raise bad_request(f"couldn't get version/kind; json parse error: {problem}")
    return raw


def decode_patch(request: Request, media_type: str) -> Any:
    """Returns the patch in the body.

    Raises:
        ApiStatusError: 400.
    """
    try:
        return decode_json(request.body)
    except ValueError as error:
        lead = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{lead}{error}") from error


def convert_patched(
    request: Request, expected: Expected, patched: Object, patch: Any, options: WriteOptions
) -> Object:
    """Returns the object that a patch leaves.

    Raises:
        ApiStatusError: 422.
    """
    media_type = media_type_of(request.headers)
    problems: list[str] = []
    if options.validation != "Ignore":
        is_json_patch = media_type == JSON_PATCH
        problems = patch_problems(request.body, patch, is_json_patch=is_json_patch)
    try:
        return convert_object(
            with_reset_fields(patched),
            expected,
            options.validation,
            request.warnings,
            patch_problems=problems,
        )
    except ApiStatusError as error:
        problem = error.message.partition(f"as a {expected.kind}: ")[2]
        if media_type == STRATEGIC_PATCH:
            value = go_text(patch)
            problem = conversion_problem(patched, expected.type_name) or problem
        else:
            value = msgspec.json.encode(patched).decode()
        field_error = invalid("patch", value, problem or error.message)
        raise invalid_object("", "", [field_error]) from None


def decode_applied(
    request: Request, resource: Resource, present: Object | None
) -> tuple[Object, Sequence[str]]:
    """Returns the configuration that a client applies, and the problems of its YAML.

    Args:
        request: Server-side apply.
        resource: Of the configuration: that of the request, or of its subresource.
        present: The object as stored; None if there is none.

    Raises:
        ApiStatusError: 400, 409, 500.
    """
    try:
        config, problems = decode_yaml(request.body)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    _check_applied(request, resource, config, present)
    return config, problems


def _check_applied(
    request: Request, resource: Resource, config: Any, present: Object | None
) -> None:
    fields = config if isinstance(config, dict) else {}
    api_version, kind = _text(fields, "apiVersion"), _text(fields, "kind")
    if config is not None and not isinstance(config, dict):
        problem = f"json: cannot unmarshal {json_kind(config)} into Go value of type "
        lead = "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
        raise bad_request(f"{lead}{problem}map[string]interface {{}}")
    if (api_version, kind) != (resource.api_version, resource.kind):
        group, _, version = api_version.rpartition("/")
        if "/" in group:  # upstream omits the kind as well
            group = version = kind = ""
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if isinstance(metadata.get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    problems = find_apply_errors(struct_of(resource), fields)
    if problems:
        raise no_typed_object("patch", resource, {"metadata": metadata}, problems)
    if present is not None:
        return  # the name and the version are those of the merged object
    check_name(request, {"metadata": metadata})
    if metadata.get("uid"):
        problem = f"the provided object specified uid {metadata['uid']}, and no existing object was"
        name = request.path.name
        raise conflict(resource.group, resource.name, name, f"uid mismatch: {problem} found")


def no_typed_object(
    role: str, resource: Resource, obj: Object, problems: list[str]
) -> ApiStatusError:
    """Returns error 500: an object does not fit its schema.

    Args:
        role: "patch" or "live".
        resource: Of the object.
        obj: The object.
        problems: As ``find_apply_errors`` returns them.
    """
    metadata = obj.get("metadata", {})
    name = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"
    lead = f"({name}; {_kind_text(resource)})"
    details = problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems)
    return ApiStatusError(500, "", f"failed to create typed {role} object {lead}: {details}")


def _text(obj: Object, name: str) -> str:
    """Returns a string field of an object that is not validated yet; "" if it has another type."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def _kind_text(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"


def check_name(request: Request, obj: Object) -> None:
    """Checks that the object is the one that the URL names.

    Raises:
        ApiStatusError: 400.
    """
    metadata = obj.get("metadata") or {}
    name, url_name = metadata.get("name", ""), request.path.name
    if not name:
        raise bad_request(
            f"the name of the object ({url_name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != url_name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({url_name})"
        )


def json_response(request: Request, status: int, body: bytes) -> HttpResponse:
    """Returns a JSON response with the warnings of the request."""
    return status, {"content-type": JSON, **warning_header(request.warnings)}, body


#: What would end a header, or the whole head: texts of clients are part of warnings.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def warning_header(warnings: list[str]) -> dict[str, str]:
    """Returns the Warning header; empty if there are no warnings that one line can say."""
    lines = [warning for warning in warnings if not _CONTROL.search(warning)]
    if not lines:
        return {}
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return {"warning": ", ".join(f'299 - "{warning}"' for warning in escaped)}
