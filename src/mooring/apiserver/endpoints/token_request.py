"""TokenRequests: the subresource ``serviceaccounts/token``, which issues a token.

Source: pkg/registry/core/serviceaccount/storage/token.go, pkg/apis/authentication/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.auth.account_tokens import BOUND, ISSUER
from mooring.apiserver.errors import (
    Errors,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    quoted,
)
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import Resource
from mooring.clock import rfc3339

if TYPE_CHECKING:
    from mooring.apiserver.auth.account_tokens import AccountTokens
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
#: What is written, for managedFields.
TOKEN_REQUESTS = Resource(_GROUP, "v1", "tokenrequests", "tokenrequest", _KIND, namespaced=True)
_SECONDS_MIN, _SECONDS_MAX = 600, 1 << 32


def request_token(
    registry: Registry, tokens: AccountTokens, target: Target, request: Object
) -> dict[str, Any]:
    """Returns a TokenRequest with its token.

    Args:
        registry: Has the service account.
        tokens: Issues the token.
        target: The service account.
        request: As sent by the client, with defaults.

    Raises:
        ApiStatusError: 400, 404, 409, 422.
    """
    metadata, spec = request["metadata"], request["spec"]
    for name, expected in (("name", target.name), ("namespace", target.namespace)):
        if metadata.get(name, expected) != expected:
            problem = f"must match the service account {name} if specified"
            error = invalid(f"metadata.{name}", metadata[name], problem)
            raise invalid_object(_KIND, target.name, [error], group=_GROUP)
    account = registry.get(target).object()
    uid = account["metadata"]["uid"]
    if metadata.get("uid", uid) != uid:
        problem = f"the UID in the token request ({metadata['uid']}) does not match the UID of the "
        raise conflict(_GROUP, _KIND, target.name, f"{problem}service account ({uid})")
    errors = list(_errors(spec["expirationSeconds"]))
    if errors:
        raise invalid_object(_KIND, "", errors, group=_GROUP)
    audiences = spec.get("audiences") or [ISSUER]
    expires_s = registry.clock.wall_s() + spec["expirationSeconds"]
    bound = _bound(registry, target, spec.get("boundObjectRef"))
    token = tokens.issue(account, audiences=audiences, expires_s=expires_s, bound=bound)
    names = {"name": target.name, "namespace": target.namespace, "uid": uid}
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {**metadata, **names, "creationTimestamp": registry.now()},
        "spec": {**spec, "audiences": audiences, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": rfc3339(expires_s)},
    }


def _errors(seconds: int) -> Errors:
    if seconds < _SECONDS_MIN:
        problem = "may not specify a duration less than 10 minutes"
        yield invalid("spec.expirationSeconds", seconds, problem)
    if seconds > _SECONDS_MAX:
        problem = "may not specify a duration larger than 2^32 seconds"
        yield invalid("spec.expirationSeconds", seconds, problem)


def _bound(
    registry: Registry, account: Target, reference: dict[str, str] | None
) -> dict[str, dict[str, str]]:
    """Returns the claims of the object to which a token is bound.

    Raises:
        ApiStatusError: 400, 404, 409.
    """
    if reference is None:
        return {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    group_version = reference.get("apiVersion", "")
    if "/" in group_version or kind not in BOUND:
        group, _, version = group_version.rpartition("/")
        text = f"cannot bind token to object of type {group}/{version}, Kind={kind}"
        raise bad_request(text)
    resource, claim = BOUND[kind]
    namespace = account.namespace if resource.namespaced else ""
    obj = registry.get(Target(resource, namespace, name)).object()
    if kind == "Pod" and obj["spec"].get("serviceAccountName", "") != account.name:
        text = f"cannot bind token for serviceaccount {quoted(account.name)} to pod running "
        raise bad_request(f"{text}with different serviceaccount name.")
    uid = obj["metadata"]["uid"]
    if reference.get("uid", uid) != uid:
        text = f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
        text += "in record. The object might have been deleted and then recreated"
        raise conflict("", kind, name, text)
    return {claim: {"name": name, "uid": uid}}
