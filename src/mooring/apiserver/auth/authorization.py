"""What a client may do: a small table of rules, in RBAC's words.

The table holds what kube-apiserver's own bootstrap roles give to these users and groups; there
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
_NAMESPACE_PARTS = ("status", "finalize")


class Attributes(NamedTuple):
    """What somebody wants to do.

    Attributes:
        verb: "get", "list", "watch", "create" ...; for other paths the method in lower case.
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
    """What a request wants, whether or not anything is served there.

    Example:
        >>> found = attributes_of("GET", "/api/v1/namespaces/shop/pods", [("watch", "true")])
        >>> found.verb, found.resource, found.namespace
        ('watch', 'pods', 'shop')
    """
    parts = segments_of(path)
    plain = Attributes(method.lower(), path)
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return plain
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not rest:
        return plain
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    if namespace and len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
        rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = _METHOD_VERBS.get(method.upper(), "")
    if verb == "get" and not name:
        verb = "watch" if _is_watch(query) else "list"
        name = _selected_name(query)
    elif verb == "delete" and not name:
        verb = "deletecollection"
    part = rest[2] if len(rest) > 2 else ""
    return Attributes(verb, path, group, rest[0], part, namespace, name)


def _is_watch(query: Sequence[tuple[str, str]]) -> bool:
    values = [value.lower() for key, value in query if key == "watch"]
    return bool(values) and values[0] not in ("false", "0")


def _selected_name(query: Sequence[tuple[str, str]]) -> str:
    """The name that a field selector asks for: a watch of one object is about that object."""
    texts = [value for key, value in query if key == "fieldSelector"]
    for term in ",".join(texts).split(","):
        field, _, name = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return name
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Lets somebody do something; what no rule allows is forbidden.

    Attributes:
        verbs: "*" = all.
        groups: API groups.
        resources: Plural names, with subresource: "pods", "pods/status".
        names: Of objects; none = all.
        namespace: "" = all, and what has none.
        paths: Paths that are no resources; a "*" at the end stands for anything.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    namespace: str = ""
    paths: tuple[str, ...] = ()

    def allows(self, wanted: Attributes) -> bool:
        """Returns whether this rule alone allows it."""
        if wanted.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not wanted.resource:
            return any(_path_matches(pattern, wanted.path) for pattern in self.paths)
        part = f"/{wanted.subresource}" if wanted.subresource else ""
        return (
            wanted.group in self.groups
            and wanted.resource + part in self.resources
            and (not self.names or wanted.name in self.names)
            and (not self.namespace or wanted.namespace == self.namespace)
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
#: Rules by user. Both schedulers may the same, each with a lease of its own name.
USER_RULES: Mapping[str, tuple[Rule, ...]] = {
    "system:kube-scheduler": (
        *_SCHEDULER,
        Rule((*_READ, "update"), _LEASES, ("leases",), names=("kube-scheduler",)),
        Rule((*_READ, "update"), _LEASES, ("leases",), namespace="kube-system"),
    ),
    "mooring": (
        *_SCHEDULER,
        Rule(_CHANGE, _LEASES, ("leases",), names=("mooring",), namespace="kube-system"),
    ),
}


def is_allowed(identity: Identity, wanted: Attributes) -> bool:
    """Returns whether somebody may do something."""
    if MASTERS in identity.groups:
        return True
    return any(rule.allows(wanted) for rule in _rules_of(identity))


def rules_in(
    identity: Identity, namespace: str
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The rules about resources, and those about other paths, that somebody has in a namespace."""
    resources: list[dict[str, object]] = []
    paths: list[dict[str, object]] = []
    if MASTERS in identity.groups:
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for rule in _rules_of(identity):
        if rule.paths:
            paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)})
        elif rule.namespace in ("", namespace):
            found: dict[str, object] = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups)}
            found["resources"] = list(rule.resources)
            if rule.names:
                found["resourceNames"] = list(rule.names)
            resources.append(found)
    return resources, paths


def _rules_of(identity: Identity) -> Iterable[Rule]:
    yield from USER_RULES.get(identity.user, ())
    for group in identity.groups:
        yield from GROUP_RULES.get(group, ())


def check(identity: Identity, wanted: Attributes) -> None:
    """Nothing, if somebody may do something.

    Raises:
        ApiStatusError: 403, with kube-apiserver's message.
    """
    if not is_allowed(identity, wanted):
        raise forbidden(identity, wanted)


def forbidden(identity: Identity, wanted: Attributes) -> ApiStatusError:
    """403: this client may not do that."""
    said = _sanitized(_why_forbidden(identity, wanted))
    if not wanted.resource:
        return ApiStatusError(403, "Forbidden", f"forbidden: {said}", {})
    subject = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    if wanted.name:
        subject += f" {quoted(wanted.name)}"
    details = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    found = {key: value for key, value in details.items() if value}
    return ApiStatusError(403, "Forbidden", f"{subject} is forbidden: {said}", found)


def _why_forbidden(identity: Identity, wanted: Attributes) -> str:
    start = f"User {quoted(identity.user)} cannot {wanted.verb}"
    if not wanted.resource:
        return f"{start} path {quoted(wanted.path)}"
    part = f"/{wanted.subresource}" if wanted.subresource else ""
    where = f"in the namespace {quoted(wanted.namespace)}" if wanted.namespace else ""
    return (
        f"{start} resource {quoted(wanted.resource + part)} "
        f"in API group {quoted(wanted.group)} {where or 'at the cluster scope'}"
    )


def _sanitized(text: str) -> str:
    """Upstream keeps its errors from looking like HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
