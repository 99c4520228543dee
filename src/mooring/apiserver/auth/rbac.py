"""``Authorizer``: decides by the stored roles and bindings, as kube-apiserver's RBAC authorizer.

::

    identity, namespace
      ├── ClusterRoleBindings with a subject that is the client ──> ClusterRole
      └── RoleBindings of the namespace with such a subject ──> Role or ClusterRole ──> rules

The rules of a client are collected once, and again after a change of a role or binding.
``system:masters`` may do everything without a role.

Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation.
Differs: bindings are read in the order of their names; upstream's order is random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mooring.apiserver.auth.authentication import MASTERS, SERVICE_ACCOUNT_PREFIX, UserInfo
from mooring.apiserver.auth.authorization import Attributes, Rule, forbidden
from mooring.apiserver.errors import quoted
from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.stored_object import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.types import Object

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = resource_named(GROUP, "roles"), resource_named(GROUP, "clusterroles")
ROLE_BINDINGS = resource_named(GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS = resource_named(GROUP, "clusterrolebindings")
_RESOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
_ROLES_BY_KIND: Mapping[str, Resource] = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}
#: Clients times namespaces whose rules are kept.
_CACHE_SIZE = 4096


class Decision(NamedTuple):
    """The answer to a request; ``reason`` is RBAC's text, "" = none."""

    is_allowed: bool
    reason: str = ""


class Grant(NamedTuple):
    """One rule that a client has.

    Attributes:
        rule: For decisions.
        written: As in the role.
        source: The binding, role and subject, as text.
    """

    rule: Rule
    written: Mapping[str, Any]
    source: str


class Grants(NamedTuple):
    """All rules of a client in a namespace.

    Attributes:
        grants: The rules, those for the whole cluster first.
        problems: One text for each binding whose role does not exist.
    """

    grants: tuple[Grant, ...]
    problems: tuple[str, ...]


class _Bindings(NamedTuple):
    """The bindings at one state of the store, and what was computed from them."""

    state: tuple[object, ...]
    of_cluster: list[Object]
    by_namespace: dict[str, list[Object]]
    grants: dict[tuple[UserInfo, str], Grants]

    def of(self, namespace: str) -> Iterator[tuple[Object, str]]:
        """Yields the bindings that count in a namespace, with the one that they are in."""
        yield from ((binding, "") for binding in self.of_cluster)
        if namespace:
            yield from ((binding, namespace) for binding in self.by_namespace.get(namespace, ()))


class RoleMissing(LookupError):
    """A binding refers to a role that does not exist."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(f"{resource.singular}.{resource.group} {quoted(name)} not found")
        self.resource = resource
        self.name = name


class Authorizer:
    """Authorizes the clients of one server."""

    def __init__(self, store: Store) -> None:
        """Reads the roles and bindings of ``store``."""
        self._store = store
        self._read = _Bindings((), [], {}, {})

    def is_allowed(self, identity: UserInfo, attributes: Attributes) -> bool:
        """Returns True if a rule of the client allows the request."""
        return self.decide(identity, attributes).is_allowed

    def decide(self, identity: UserInfo, attributes: Attributes) -> Decision:
        """Returns whether a rule of the client allows the request, and which one."""
        if MASTERS in identity.groups:
            return Decision(is_allowed=True)
        grants = self.grants(identity, attributes.namespace)
        for grant in grants.grants:
            if grant.rule.allows(attributes):
                return Decision(is_allowed=True, reason=f"RBAC: allowed by {grant.source}")
        if not grants.problems:
            return Decision(is_allowed=False)
        return Decision(is_allowed=False, reason=f"RBAC: {joined(grants.problems)}")

    def check(self, identity: UserInfo, attributes: Attributes) -> None:
        """Checks that a rule of the client allows the request.

        Raises:
            ApiStatusError: 403, with kube-apiserver's message.
        """
        decision = self.decide(identity, attributes)
        if not decision.is_allowed:
            raise forbidden(identity, attributes, decision.reason)

    def grants(self, identity: UserInfo, namespace: str) -> Grants:
        """Returns the client's rules in a namespace ("" = those for the whole cluster)."""
        bindings = self._bindings()
        key = (identity, namespace)
        grants = bindings.grants.get(key)
        if grants is None:
            if len(bindings.grants) >= _CACHE_SIZE:
                bindings.grants.clear()
            grants = bindings.grants[key] = self._collected(bindings, identity, namespace)
        return grants

    def rules_of_role(self, role_ref: Mapping[str, Any], namespace: str) -> list[dict[str, Any]]:
        """Returns the rules of the role that a binding of a namespace refers to.

        Raises:
            RoleMissing: It does not exist.
        """
        resource, name = _ROLES_BY_KIND[role_ref["kind"]], role_ref["name"]
        in_namespace = namespace if resource is ROLES else ""
        stored = self._store.collection(resource).get(key_of(in_namespace, name))
        if stored is None:
            raise RoleMissing(resource, name)
        return stored.object().get("rules") or []

    def _bindings(self) -> _Bindings:
        """Returns the bindings; reads them again if a role or binding has changed.

        A thread may call it beside the event loop, so what was read is never changed.
        """
        collections = [self._store.collection(resource) for resource in _RESOURCES]
        state = tuple((collection, collection.history.end) for collection in collections)
        bindings = self._read
        if state == bindings.state:
            return bindings
        by_namespace: dict[str, list[Object]] = {}
        for stored in collections[2].in_order():
            by_namespace.setdefault(stored.namespace, []).append(stored.object())
        of_cluster = [stored.object() for stored in collections[3].in_order()]
        self._read = bindings = _Bindings(state, of_cluster, by_namespace, {})
        return bindings

    def _collected(self, bindings: _Bindings, identity: UserInfo, namespace: str) -> Grants:
        grants: list[Grant] = []
        problems: list[str] = []
        for binding, scope in bindings.of(namespace):
            subjects = binding.get("subjects") or ()
            subject = next((s for s in subjects if _is_subject(identity, s, scope)), None)
            if subject is None:
                continue
            try:
                rules = self.rules_of_role(binding["roleRef"], scope)
            except RoleMissing as error:
                problems.append(str(error))
                continue
            source = _source(binding, subject, scope)
            grants += [Grant(Rule.of(rule), rule, source) for rule in rules]
        return Grants(tuple(grants), tuple(problems))


def rules_in(
    grants: Iterable[Grant],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the rules as a SelfSubjectRulesReview lists them: of resources, of other paths."""
    resources, paths = [], []
    for grant in grants:
        rule = grant.written
        if rule.get("resources"):
            names = ("verbs", "apiGroups", "resources", "resourceNames")
            resources.append({name: rule[name] for name in names if rule.get(name)})
        if rule.get("nonResourceURLs"):
            paths.append({name: rule[name] for name in ("verbs", "nonResourceURLs")})
    return resources, paths


def joined(problems: Iterable[str]) -> str:
    """Returns problems as the text of one error, as Go's aggregates: each of them once."""
    texts = tuple(dict.fromkeys(problems))
    text = ", ".join(texts)
    return f"[{text}]" if len(texts) > 1 else text


def _is_subject(identity: UserInfo, subject: Mapping[str, Any], namespace: str) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "User":
        return bool(identity.user == name)
    if kind == "Group":
        return name in identity.groups
    home = subject.get("namespace") or namespace
    return bool(home) and identity.user == f"{SERVICE_ACCOUNT_PREFIX}{home}:{name}"


def _source(binding: Object, subject: Mapping[str, Any], namespace: str) -> str:
    """Returns the text that names the reason of a decision."""
    name, role = binding["metadata"]["name"], binding["roleRef"]
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name += f"/{namespace}" if namespace else ""
    subject_name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        subject_name += f"/{subject.get('namespace') or namespace}"
    return (
        f"{kind} {quoted(name)} of {role['kind']} {quoted(role['name'])} "
        f"to {subject['kind']} {quoted(subject_name)}"
    )
