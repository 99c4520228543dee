"""Reviews of clients: TokenReview, SubjectAccessReview and those of one namespace or oneself.

They evaluate the server's own tokens and rules and are not stored. mooring and kube-scheduler
create them to authenticate and authorize the clients of their own endpoints.

Source: k8s.io/kubernetes pkg/registry/authentication/tokenreview/storage.go,
pkg/registry/authorization/{subjectaccessreview,localsubjectaccessreview}/rest.go,
pkg/apis/authorization/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.auth.authentication import API_AUDIENCE, Tokens, UserInfo
from mooring.apiserver.auth.authorization import Attributes
from mooring.apiserver.auth.rbac import joined, rules_in
from mooring.apiserver.errors import (
    ApiStatusError,
    Errors,
    FieldError,
    bad_request,
    invalid,
    invalid_object,
    not_found,
    quoted,
    required,
)
from mooring.apiserver.patch.managed_fields import FieldManager, track_create
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.type_errors import find_type_errors, json_kind
from mooring.objects.schema.types import structs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.auth.rbac import Authorizer
    from mooring.apiserver.resources import Resource
_INVALID = "invalid bearer token"


def review(
    resource: Resource,
    body: dict[str, Any],
    identity: UserInfo,
    *,
    tokens: Tokens,
    authorizer: Authorizer,
    writer: FieldManager,
) -> dict[str, Any]:
    """Returns the review that a client sent, with its ``status`` filled in.

    Args:
        resource: Of the review.
        body: From the request; not changed.
        identity: The client; the subject of SelfSubjectAccessReview.
        tokens: The tokens of this server.
        authorizer: The rules of this server.
        writer: The client as a manager of fields.

    Raises:
        ApiStatusError: 400 or 422, the review is invalid.
    """
    spec = _checked_spec(resource, body)
    if resource.name == "selfsubjectreviews":
        return {
            **_type_meta(resource),
            "metadata": {"creationTimestamp": writer.now},
            "status": _self(identity),
        }
    reviewers = {
        "tokenreviews": lambda: _token(spec, tokens),
        "localsubjectaccessreviews": lambda: _access(resource, body, authorizer, _subject(spec)),
        "subjectaccessreviews": lambda: _access(resource, body, authorizer, _subject(spec)),
        "selfsubjectaccessreviews": lambda: _access(resource, body, authorizer, identity),
        "selfsubjectrulesreviews": lambda: _rules(spec, authorizer, identity),
    }
    if resource.name not in reviewers:
        raise not_found(resource, "")
    status = reviewers[resource.name]()
    if resource.name == "selfsubjectrulesreviews":
        return {**_type_meta(resource), "metadata": {}, "spec": {}, "status": status}
    sent_metadata = body.get("metadata") or {}
    metadata = {name: value for name, value in sent_metadata.items() if value is not None}
    reviewed = {**_type_meta(resource), "metadata": metadata, "spec": spec}
    track_create(reviewed, writer)
    return {**reviewed, "status": status}


def _type_meta(resource: Resource) -> dict[str, Any]:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _checked_spec(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec of a review, if every field has its type.

    Raises:
        ApiStatusError: 400.
    """
    type_name = struct_of(resource)
    problem, _ = find_type_errors(type_name, body) if type_name in structs() else ("", [])
    metadata = body.get("metadata")
    if not problem and metadata is not None and not isinstance(metadata, dict):
        go_type = f"Go struct field {resource.kind}.metadata of type v1.ObjectMeta"
        problem = f"json: cannot unmarshal {json_kind(metadata)} into {go_type}"
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        problem = f"json: cannot unmarshal {json_kind(spec)} into Go struct field .spec"
    if problem:
        lead = f'{resource.kind} in version "{resource.version}" cannot be handled as a'
        raise bad_request(f"{lead} {resource.kind}: {problem}")
    return spec


def _self(identity: UserInfo) -> dict[str, Any]:
    """Returns the status of a SelfSubjectReview: the client's identity."""
    user_info: dict[str, Any] = {"username": identity.user}
    if identity.uid:
        user_info["uid"] = identity.uid
    return {"userInfo": {**user_info, "groups": list(identity.groups)}}


def _rules(spec: dict[str, Any], authorizer: Authorizer, identity: UserInfo) -> dict[str, Any]:
    """Returns all rules that apply to a client in a namespace.

    Raises:
        ApiStatusError: 400.
    """
    namespace = spec.get("namespace") or ""
    if not namespace or not isinstance(namespace, str):
        raise bad_request("no namespace on request")
    grants = authorizer.grants(identity, namespace)
    resources, paths = rules_in(grants.grants)
    status = {"resourceRules": resources, "nonResourceRules": paths}
    if grants.problems:
        return {**status, "incomplete": True, "evaluationError": joined(grants.problems)}
    return {**status, "incomplete": False}


def _token(spec: dict[str, Any], tokens: Tokens) -> dict[str, Any]:
    token = spec.get("token") or ""
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    credential = tokens.credential_of(token)
    demanded = spec.get("audiences") or [API_AUDIENCE]
    audiences = [name for name in demanded if credential and name in credential.audiences]
    if credential is None or (not audiences and credential.is_for_any):
        return {"user": {}, "error": _INVALID}
    if not audiences:
        own, others = _quoted_list(credential.audiences), _quoted_list(demanded)
        problem = f"token audiences {own} is invalid for the target audiences {others}"
        return {"user": {}, "error": f"[{_INVALID}, {problem}]"}
    identity = credential.identity
    user: dict[str, Any] = {"username": identity.user, "groups": list(identity.groups)}
    if identity.uid:
        user["uid"] = identity.uid
    return {"authenticated": True, "user": user, "audiences": audiences}


def _quoted_list(names: Sequence[str]) -> str:
    return f"[{' '.join(map(quoted, names))}]"


def _subject(spec: dict[str, Any]) -> UserInfo:
    return UserInfo(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")


def _access(
    resource: Resource, body: dict[str, Any], authorizer: Authorizer, identity: UserInfo
) -> dict[str, Any]:
    spec = body.get("spec") or {}
    errors = list(_validate_access(resource, body, spec))
    if errors:
        raise _invalid(resource, errors)
    decision = authorizer.decide(identity, _attributes(spec))
    status: dict[str, Any] = {"allowed": decision.is_allowed}
    return {**status, "reason": decision.reason} if decision.reason else status


def _validate_selector(selector: dict[str, Any], field: str) -> Errors:
    """Validates the selector of a request: either its text or its requirements."""
    raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or []
    if raw and requirements:
        problem = "may not specified at the same time as requirements"
        yield invalid(f"{field}.rawSelector", raw, problem)
    if not raw and not requirements:
        problem = f"when {field} is specified, requirements or rawSelector is required"
        yield required(f"{field}.requirements", problem)


def _validate_access(resource: Resource, body: dict[str, Any], spec: dict[str, Any]) -> Errors:
    about_resource, about_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about_resource is not None and about_path is not None:
        problem = "cannot be specified in combination with resourceAttributes"
        yield invalid("spec.nonResourceAttributes", _internal_form(about_path), problem)
    if about_resource is None and about_path is None:
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid("spec.resourceAttributes", None, problem)
    has_subject = resource.name == "selfsubjectaccessreviews" or spec.get("user")
    if not has_subject and not spec.get("groups"):
        yield invalid("spec.user", "", "at least one of user or group must be specified")
    for name in ("fieldSelector", "labelSelector"):
        selector = (about_resource or {}).get(name)
        if selector is not None:
            yield from _validate_selector(selector, f"spec.resourceAttributes.{name}")
    sent = body.get("metadata") or {}
    metadata = {key: value for key, value in sent.items() if value and key != "managedFields"}
    if not resource.namespaced:
        metadata.pop("namespace", None)
    if metadata.keys() - {"namespace"}:
        exception = " except for namespace" if resource.namespaced else ""
        yield invalid("metadata", metadata, f"must be empty{exception}")
    if not resource.namespaced:
        return
    namespace = (about_resource or {}).get("namespace") or ""
    if about_resource is not None and namespace != sent.get("namespace"):
        field = "spec.resourceAttributes.namespace"
        yield invalid(field, namespace, "must match metadata.namespace")
    if about_path is not None:
        problem = "disallowed on this kind of request"
        yield invalid("spec.nonResourceAttributes", _internal_form(about_path), problem)


def _internal_form(attributes: dict[str, Any]) -> dict[str, str]:
    """Returns the attributes as upstream's internal type is printed."""
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}


def _invalid(resource: Resource, errors: list[FieldError]) -> ApiStatusError:
    # Upstream omits the kind.
    return invalid_object("", "", errors, group=resource.group)


def _attributes(spec: dict[str, Any]) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb") or "", path.get("path") or "")
    attributes = spec["resourceAttributes"]
    return Attributes(
        attributes.get("verb") or "",
        "",
        attributes.get("group") or "",
        attributes.get("resource") or "",
        attributes.get("subresource") or "",
        attributes.get("namespace") or "",
        attributes.get("name") or "",
    )
