"""Questions about clients: TokenReview, SubjectAccessReview, SelfSubjectAccessReview.

They are answered for the server's own tokens and rules and then forgotten. mooring and
kube-scheduler ask them about whoever reads their own endpoints.

Source: k8s.io/kubernetes pkg/registry/authentication/tokenreview/storage.go,
pkg/registry/authorization/subjectaccessreview/rest.go, pkg/apis/authorization/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.auth.authentication import Identity, Tokens
from mooring.apiserver.auth.authorization import Attributes, is_allowed, rules_in
from mooring.apiserver.endpoints.body import json_kind
from mooring.apiserver.errors import (
    FieldFault,
    Refused,
    bad_request,
    invalid,
    invalid_object,
    not_found,
)
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.type_errors import find_faults
from mooring.objects.schema.types import structs

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource

#: What tokens are for, unless a review says something else.
AUDIENCE = "https://kubernetes.default.svc"


def review(
    resource: Resource, body: dict[str, Any], who: Identity, tokens: Tokens, *, now: str
) -> dict[str, Any]:
    """Returns the review that a client sent, with its ``status`` filled in.

    Args:
        resource: Of the review.
        body: As read from the request; not changed.
        who: The client that asks; SelfSubjectAccessReview is about it.
        tokens: Those of this server.
        now: The present time.

    Raises:
        Refused: 400 or 422, the question cannot be understood.
    """
    spec = _checked_spec(resource, body)
    if resource.name == "selfsubjectreviews":
        return {**_named(resource), "metadata": {"creationTimestamp": now}, "status": _self(who)}
    answers = {
        "tokenreviews": lambda: _token(spec, tokens),
        "subjectaccessreviews": lambda: _access(resource, body, spec, _subject(spec)),
        "selfsubjectaccessreviews": lambda: _access(resource, body, spec, who),
        "selfsubjectrulesreviews": lambda: _rules(spec, who),
    }
    if resource.name not in answers:
        raise not_found(resource, "")
    status = answers[resource.name]()
    given = body.get("metadata") or {}
    metadata = {name: value for name, value in given.items() if value is not None}
    return {**_named(resource), "metadata": metadata, "spec": spec, "status": status}


def _named(resource: Resource) -> dict[str, Any]:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _checked_spec(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the question, if every field of it is of its type.

    Raises:
        Refused: 400.
    """
    type_name = struct_of(resource)
    problem, _ = find_faults(type_name, body) if type_name in structs() else ("", [])
    metadata = body.get("metadata")
    if not problem and metadata is not None and not isinstance(metadata, dict):
        where = f"Go struct field {resource.kind}.metadata of type v1.ObjectMeta"
        problem = f"json: cannot unmarshal {json_kind(metadata)} into {where}"
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        problem = f"json: cannot unmarshal {json_kind(spec)} into Go struct field .spec"
    if problem:
        lead = f'{resource.kind} in version "{resource.version}" cannot be handled as a'
        raise bad_request(f"{lead} {resource.kind}: {problem}")
    return spec


def _self(who: Identity) -> dict[str, Any]:
    """Who asks, as the server sees it."""
    found: dict[str, Any] = {"username": who.user}
    if who.uid:
        found["uid"] = who.uid
    return {"userInfo": {**found, "groups": list(who.groups)}}


def _rules(spec: dict[str, Any], who: Identity) -> dict[str, Any]:
    """Returns all that somebody may do in a namespace.

    Raises:
        Refused: 400.
    """
    namespace = spec.get("namespace") or ""
    if not namespace or not isinstance(namespace, str):
        raise bad_request("no namespace on request")
    resources, paths = rules_in(who, namespace)
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _token(spec: dict[str, Any], tokens: Tokens) -> dict[str, Any]:
    token = spec.get("token") or ""
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    found = tokens.identity_of(token)
    wanted = spec.get("audiences") or [AUDIENCE]
    if found is None or AUDIENCE not in wanted:
        return {"user": {}, "error": "invalid bearer token"}
    user: dict[str, Any] = {"username": found.user, "groups": list(found.groups)}
    if found.uid:
        user["uid"] = found.uid
    return {"authenticated": True, "user": user, "audiences": [AUDIENCE]}


def _subject(spec: dict[str, Any]) -> Identity:
    return Identity(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")


def _access(
    resource: Resource, body: dict[str, Any], spec: dict[str, Any], who: Identity
) -> dict[str, Any]:
    faults = _faults(resource, body, spec)
    if faults:
        raise _invalid(resource, faults)
    return {"allowed": is_allowed(who, _attributes(spec))}


def _faults(resource: Resource, body: dict[str, Any], spec: dict[str, Any]) -> list[FieldFault]:
    found = []
    about_resource, about_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about_resource is not None and about_path is not None:
        problem = "cannot be specified in combination with resourceAttributes"
        found.append(invalid("spec.nonResourceAttributes", about_path, problem))
    if about_resource is None and about_path is None:
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(invalid("spec.resourceAttributes", None, problem))
    has_subject = resource.name == "selfsubjectaccessreviews" or spec.get("user")
    if not has_subject and not spec.get("groups"):
        found.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    metadata = {
        key: value
        for key, value in (body.get("metadata") or {}).items()
        if value and key != "managedFields"
    }
    if metadata:
        found.append(invalid("metadata", metadata, "must be empty"))
    return found


def _invalid(resource: Resource, faults: list[FieldFault]) -> Refused:
    # Upstream forgets to say which kind.
    return invalid_object("", "", faults, group=resource.group)


def _attributes(spec: dict[str, Any]) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb") or "", path.get("path") or "")
    given = spec["resourceAttributes"]
    return Attributes(
        given.get("verb") or "",
        "",
        given.get("group") or "",
        given.get("resource") or "",
        given.get("subresource") or "",
        given.get("namespace") or "",
        given.get("name") or "",
    )
