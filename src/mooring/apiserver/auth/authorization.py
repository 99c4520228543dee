"""Authorization: the attributes of a request, and the rules that allow it.

``rbac`` finds the rules of a client in the stored roles and bindings.

Source: k8s.io/kubernetes pkg/apis/rbac/v1/evaluation_helpers.go;
k8s.io/apiserver pkg/endpoints/request/requestinfo.go, handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mooring.apiserver.errors import ApiStatusError, quoted
from mooring.apiserver.resources import segments_of, without_special_verb
from mooring.objects.selector_text import parse_field_selector
from mooring.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mooring.apiserver.auth.authentication import UserInfo

_METHOD_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
#: In a rule: all verbs, groups or resources.
ALL = "*"


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
    special_verb, plain = without_special_verb(path)
    parts = segments_of(plain)
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
    verb = special_verb or _METHOD_VERBS.get(method.upper(), "")
    if verb == "get" and not name:
        verb = "watch" if _is_watch(query) else "list"
        name = _selected_name(query)
    elif verb == "delete" and not name:
        verb = "deletecollection"
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    return Attributes(verb, path, group, rest[0], subresource, namespace, name)


def _is_watch(query: Sequence[tuple[str, str]]) -> bool:
    values = [value.lower() for key, value in query if key == "watch"]
    return bool(values) and values[0] not in ("false", "0")


def _selected_name(query: Sequence[tuple[str, str]]) -> str:
    """Returns the object name in a field selector, for a list or watch of one object.

    It is parsed as the list itself does, so that what is authorized is what is read: the first
    parameter counts.
    """
    text = next((value for key, value in query if key == "fieldSelector"), "")
    if "metadata.name" not in text:
        return ""
    try:
        return parse_field_selector(text).exact("metadata.name") or ""
    except SelectorError:
        return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role.

    Attributes:
        verbs: "*" = all.
        groups: API groups; "*" = all.
        resources: Plural names, with subresource: "pods", "pods/status", "*/status", "*".
        names: Names of objects; empty = all.
        paths: Non-resource paths; a "*" at the end matches any suffix.
    """

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> Rule:
        """Returns the rule that an object contains."""
        return cls(
            frozenset(rule.get("verbs") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()),
            frozenset(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def allows(self, attributes: Attributes) -> bool:
        """Returns True if this rule allows the request."""
        if attributes.verb not in self.verbs and ALL not in self.verbs:
            return False
        if not attributes.resource:
            return any(path_matches(pattern, attributes.path) for pattern in self.paths)
        return (
            (attributes.group in self.groups or ALL in self.groups)
            and self._has_resource(attributes.resource, attributes.subresource)
            and (not self.names or attributes.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def covers(self, part: Rule) -> bool:
        """Returns True if it allows everything that another rule allows.

        Source: k8s.io/component-helpers auth/rbac/validation/policy_comparator.go (ruleCovers).
        """
        return (
            (ALL in self.verbs or part.verbs <= self.verbs)
            and (ALL in self.groups or part.groups <= self.groups)
            and all(self._has_resource(*_split(name)) for name in part.resources)
            and (not self.names or (bool(part.names) and part.names <= self.names))
            and all(any(path_matches(own, path) for own in self.paths) for path in part.paths)
        )


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


def path_matches(pattern: str, path: str) -> bool:
    """Returns True if a path is the one of a rule, or starts as the rule says."""
    if pattern.endswith("*"):
        return path.startswith(pattern.rstrip("*"))
    return path == pattern


def forbidden(identity: UserInfo, attributes: Attributes, why: str = "") -> ApiStatusError:
    """Returns error 403 with kube-apiserver's message; ``why``: the authorizer's reason."""
    reason = _sanitized(_forbidden_reason(identity, attributes))
    reason += f": {why}" if why else ""
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


def _forbidden_reason(identity: UserInfo, attributes: Attributes) -> str:
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
