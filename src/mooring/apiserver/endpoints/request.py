"""One request about a resource, and what every verb needs of it: its body, its name, its answer.

Source: k8s.io/apiserver pkg/endpoints/handlers/{rest,namer,response}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.endpoints.body import (
    ACCEPTED,
    JSON,
    TYPE_META,
    YAML,
    Expected,
    decode_json,
    decode_yaml,
    json_kind,
    media_type_of,
    read_object,
    typed,
)
from mooring.apiserver.endpoints.rendering import SHAPES, Renderer
from mooring.apiserver.errors import Refused, bad_request, quoted
from mooring.apiserver.patch.patch import STRATEGIC_PATCH
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_core
from mooring.apiserver.schema.type_errors import find_faults

if TYPE_CHECKING:
    from mooring.apiserver.endpoints.query import Query, WriteOptions
    from mooring.apiserver.resources import ResourcePath
    from mooring.apiserver.types import Object

Answer = tuple[int, dict[str, str], bytes]
SUCCESS: Mapping[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
}


@dataclass(slots=True)
class Request:
    """One request about a resource.

    Attributes:
        method: "GET", "POST" ...
        place: What the path names.
        query: The URL's parameters.
        headers: With lower-case names.
        body: As sent.
        warnings: What to tell the client besides the answer.
    """

    method: str
    place: ResourcePath
    query: Query
    headers: Mapping[str, str]
    body: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def target(self) -> Target:
        """The object or collection."""
        return Target(self.place.resource, self.place.namespace, self.place.name)


def wanted_shape(headers: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Returns the shape in which a client wants objects; None = as they are.

    Raises:
        Refused: 406.
    """
    header = headers.get("accept", "")
    if header == JSON:
        return None
    clauses = negotiation.clauses(header)
    if clauses and not any(clause.is_json for clause in clauses):
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(ACCEPTED)}"
        raise Refused(406, "NotAcceptable", text, {})
    return negotiation.wanted_shape(header, SHAPES)


def renderer_for(request: Request, now_s: float) -> Renderer:
    """Writes the answer as the client wants it; ``now_s`` is the wall clock.

    Raises:
        Refused: 406.
    """
    shape = wanted_shape(request.headers)
    include = request.query.text("includeObject")
    return Renderer(request.place.resource, shape or ("", "", ""), include, now_s)


def expected_object(request: Request) -> Expected:
    """What a body with the object itself must hold."""
    resource = request.place.resource
    return Expected(struct_of(resource), resource.api_version, resource.kind)


def read_body(request: Request, expected: Expected, options: WriteOptions) -> Object:
    """Returns the object in the body, in the form in which it is stored.

    Raises:
        Refused: 400, 415.
    """
    found = read_object(
        request.body,
        media_type_of(request.headers),
        expected,
        request.place.resource,
        validation=options.validation,
        warnings=request.warnings,
    )
    return to_core(found) if is_view(request.place.resource) else found


def read_delete_options(request: Request, expected: Expected) -> Object:
    """The DeleteOptions in the body, whatever version they say they have.

    Raises:
        Refused: 400, 415.
    """
    media_type = media_type_of(request.headers)
    if media_type not in (JSON, YAML):
        return read_object(
            request.body,
            media_type,
            expected,
            request.place.resource,
            validation="Ignore",
            warnings=request.warnings,
        )
    try:
        raw = decode_yaml(request.body) if media_type == YAML else decode_json(request.body)
    except ValueError as why:
        raise bad_request(f"couldn't get version/kind; json parse error: {why}") from why
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        problem = f"json: cannot unmarshal {json_kind(raw)} into Go value of type {TYPE_META}"
        raise bad_request(f"couldn't get version/kind; json parse error: {problem}")
    kind, version = raw.get("kind") or expected.kind, raw.get("apiVersion") or "meta.k8s.io/v1"
    if kind != expected.kind:
        raise bad_request(
            f"no kind {quoted(str(kind))} is registered for version {quoted(str(version))} in "
            'scheme "pkg/runtime/scheme.go:111"'
        )
    # Clients send it with the version of the resource's group, of "v1", or with none.
    named = {key: value for key, value in raw.items() if key != "apiVersion"}
    problem, _ = find_faults(expected.type_name, named)
    if problem:
        raise bad_request(problem)
    return typed(named, expected, "Ignore", request.warnings)


def decoded_patch(request: Request, media_type: str) -> Any:
    """Returns the patch in the body.

    Raises:
        Refused: 400.
    """
    try:
        return decode_json(request.body)
    except ValueError as why:
        lead = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{lead}{why}") from why


def check_name(request: Request, found: Object) -> None:
    """The object must be the one that the URL names.

    Raises:
        Refused: 400.
    """
    metadata = found.get("metadata") or {}
    given, name = metadata.get("name", ""), request.place.name
    if not given:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if given != name:
        raise bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def answered(request: Request, status: int, body: bytes) -> Answer:
    """Returns an answer in JSON, with the warnings of the request."""
    return status, {"content-type": JSON, **warning_header(request.warnings)}, body


def warning_header(warnings: list[str]) -> dict[str, str]:
    """Returns the header that tells a client what it was warned about, if anything."""
    if not warnings:
        return {}
    shown = (warning.replace("\\", "\\\\").replace('"', '\\"') for warning in warnings)
    return {"warning": ", ".join(f'299 - "{warning}"' for warning in shown)}
