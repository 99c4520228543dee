"""Authorization: a table of RBAC rules for users and groups.

The table has the rules of kube-apiserver's bootstrap roles for these users and groups; there
are no Role objects. ``system:masters`` may do everything.

Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go;
k8s.io/apiserver pkg/endpoints/request/requestinfo.go, handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.auth.authentication import AUTHENTICATED, MASTERS, UNAUTHENTICATED, Identity
from mooring.apiserver.errors import ApiStatusError, quoted
from mooring.apiserver.resources import segments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_METHOD_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Attributes(NamedTuple):
    """The attributes of a request that authorization evaluates.

    Attributes:
        verb: "get", "list", "watch", "create" ...; for non-resource paths the method, lower case.
        path: The URL path; "" in reviews of resources.
        group: The API group; "" = core.
        resource: The plural name; "" if the path names no resource.
        subresource: Such as "status"; "" = none.
        namespace: "" = none, or all.
        name: "" = none, or all.
    """

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def attributes_of(method: str, path: str, query: Sequence[tuple[str, str]]) -> Attributes:
    """Returns the attributes of a request, whether or not its path is served.

    Example:
        >>> attributes = attributes_of("GET", "/api/v1/namespaces/shop/pods", [("watch", "true")])
        >>> attributes.verb, attributes.resource, attributes.namespace
        ('watch', 'pods', 'shop')
    """
    parts = segments_of(path)
    non_resource = Attributes(method.lower(), path)
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return non_resource
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not rest:
        return non_resource
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    if namespace and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = _METHOD_VERBS.get(method.upper(), "")
    if verb == "get" and not name:
        verb = "watch" if _is_watch(query) else "list"
        name = _selected_name(query)
    elif verb == "delete" and not name:
        verb = "deletecollection"
    subresource = rest[2] if len(rest) > 2 else ""
    return Attributes(verb, path, group, rest[0], subresource, namespace, name)


def _is_watch(query: Sequence[tuple[str, str]]) -> bool:
    values = [value.lower() for key, value in query if key == "watch"]
    return bool(values) and values[0] not in ("false", "0")


def _selected_name(query: Sequence[tuple[str, str]]) -> str:
    """Returns the object name in a field selector, for a list or watch of one object."""
    texts = [value for key, value in query if key == "fieldSelector"]
    for term in ",".join(texts).split(","):
        field, _, name = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return name
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule; requests that no rule allows are forbidden.

    Attributes:
        verbs: "*" = all.
        groups: API groups.
        resources: Plural names, with subresource: "pods", "pods/status".
        names: Names of objects; empty = all.
        namespace: "" = all, and resources without namespaces.
        paths: Non-resource paths; a "*" at the end matches any suffix.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    namespace: str = ""
    paths: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        """Returns True if this rule allows the request."""
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not attributes.resource:
            return any(_path_matches(pattern, attributes.path) for pattern in self.paths)
        suffix = f"/{attributes.subresource}" if attributes.subresource else ""
        return (
            attributes.group in self.groups
            and attributes.resource + suffix in self.resources
            and (not self.names or attributes.name in self.names)
            and (not self.namespace or attributes.namespace == self.namespace)
        )


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


_READ = ("get", "list", "watch")
_CHANGE = (*_READ, "patch", "update")
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = (*_PUBLIC, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_STORAGE = ("csinodes", "csidrivers", "csistoragecapacities", "volumeattachments", "storageclasses")

_SCHEDULER = (
    Rule(("create", "patch", "update"), ("", "events.k8s.io"), ("events",)),
    Rule(("create",), ("coordination.k8s.io",), ("leases",)),
    Rule((*_READ, "delete"), ("",), ("pods",)),
    Rule(("create",), ("",), ("bindings", "pods/binding")),
    Rule(("patch", "update"), ("",), ("pods/status",)),
    Rule(("update",), ("",), ("pods/finalizers",)),
    Rule(_READ, ("",), ("nodes", "namespaces", "replicationcontrollers", "services")),
    Rule(_READ, ("apps",), ("replicasets", "statefulsets")),
    Rule(_READ, ("policy",), ("poddisruptionbudgets",)),
    Rule(_CHANGE, ("",), ("persistentvolumeclaims", "persistentvolumes")),
    Rule(_READ, ("storage.k8s.io",), _STORAGE),
    Rule(_READ, ("resource.k8s.io",), ("deviceclasses", "resourceslices")),
    Rule((*_CHANGE, "create", "delete"), ("resource.k8s.io",), ("resourceclaims",)),
    Rule(_CHANGE, ("resource.k8s.io",), ("resourceclaims/status",)),
    Rule(("patch", "update"), ("resource.k8s.io",), ("resourceclaims/binding",)),
    Rule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    Rule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
    Rule(
        _READ,
        ("",),
        ("configmaps",),
        names=("extension-apiserver-authentication",),
        namespace="kube-system",
    ),
)
_LEASES = ("coordination.k8s.io",)

#: Rules by group.
GROUP_RULES: Mapping[str, tuple[Rule, ...]] = {
    UNAUTHENTICATED: (Rule(("get",), paths=_PUBLIC),),
    AUTHENTICATED: (
        Rule(("get",), paths=_DISCOVERY),
        Rule(
            ("create",),
            ("authorization.k8s.io",),
            ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ),
        Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
    ),
}
#: Rules by user. Both schedulers have the same ones.
USER_RULES: Mapping[str, tuple[Rule, ...]] = {
    "system:kube-scheduler": (
        *_SCHEDULER,
        Rule((*_READ, "update"), _LEASES, ("leases",), names=("kube-scheduler",)),
        Rule((*_READ, "update"), _LEASES, ("leases",), namespace="kube-system"),
    ),
    "mooring": (
        *_SCHEDULER,
        Rule(
            _CHANGE,
            _LEASES,
            ("leases",),
            names=("mooring", "kube-scheduler"),
            namespace="kube-system",
        ),
    ),
}


def is_allowed(identity: Identity, attributes: Attributes) -> bool:
    """Returns True if a rule of the identity allows the request."""
    if MASTERS in identity.groups:
        return True
    return any(rule.allows(attributes) for rule in _rules_of(identity))


def rules_in(
    identity: Identity, namespace: str
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Returns an identity's rules in a namespace: those for resources, those for other paths."""
    resources: list[dict[str, object]] = []
    paths: list[dict[str, object]] = []
    if MASTERS in identity.groups:
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for rule in _rules_of(identity):
        if rule.paths:
            paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)})
        elif rule.namespace in ("", namespace):
            resource_rule: dict[str, object] = {
                "verbs": list(rule.verbs),
                "apiGroups": list(rule.groups),
            }
            resource_rule["resources"] = list(rule.resources)
            if rule.names:
                resource_rule["resourceNames"] = list(rule.names)
            resources.append(resource_rule)
    return resources, paths


def _rules_of(identity: Identity) -> Iterable[Rule]:
    yield from USER_RULES.get(identity.user, ())
    for group in identity.groups:
        yield from GROUP_RULES.get(group, ())


def check(identity: Identity, attributes: Attributes) -> None:
    """Checks that a rule of the identity allows the request.

    Raises:
        ApiStatusError: 403, with kube-apiserver's message.
    """
    if not is_allowed(identity, attributes):
        raise forbidden(identity, attributes)


def forbidden(identity: Identity, attributes: Attributes) -> ApiStatusError:
    """Returns error 403 with kube-apiserver's message."""
    reason = _sanitized(_forbidden_reason(identity, attributes))
    if not attributes.resource:
        return ApiStatusError(403, "Forbidden", f"forbidden: {reason}", {})
    subject = (
        f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    )
    if attributes.name:
        subject += f" {quoted(attributes.name)}"
    details = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    details = {key: value for key, value in details.items() if value}
    return ApiStatusError(403, "Forbidden", f"{subject} is forbidden: {reason}", details)


def _forbidden_reason(identity: Identity, attributes: Attributes) -> str:
    start = f"User {quoted(identity.user)} cannot {attributes.verb}"
    if not attributes.resource:
        return f"{start} path {quoted(attributes.path)}"
    suffix = f"/{attributes.subresource}" if attributes.subresource else ""
    scope = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else ""
    return (
        f"{start} resource {quoted(attributes.resource + suffix)} "
        f"in API group {quoted(attributes.group)} {scope or 'at the cluster scope'}"
    )


def _sanitized(text: str) -> str:
    """Escapes HTML characters, as upstream."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
