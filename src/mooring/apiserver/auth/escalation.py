"""Escalation: a client may grant only permissions that it has.

A client that writes a role needs all of its permissions, or the verb ``escalate``; one that writes
a binding needs those of the role, or the verb ``bind``.

Source: k8s.io/kubernetes pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/*/policybased,
pkg/registry/rbac/validation/{rule,policy_compact}.go.
Differs: rules with more than ``PARTS_MAX`` single permissions are refused, unless the client has a
rule that covers all of them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from mooring.apiserver.auth.authentication import MASTERS
from mooring.apiserver.auth.authorization import Attributes, Rule
from mooring.apiserver.auth.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
    RoleMissing,
    joined,
)
from mooring.apiserver.errors import forbidden, not_found, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mooring.apiserver.auth.authentication import UserInfo
    from mooring.apiserver.auth.rbac import Authorizer
    from mooring.apiserver.registry.registry import Target
    from mooring.apiserver.types import Object

_EVERYTHING = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
#: Single permissions of a role that are compared with those of its author: four short lists have
#: millions of combinations. The largest role of kube-apiserver has some thousands.
PARTS_MAX = 10_000
#: Fields that the garbage collector changes, and those that no client sets.
_COLLECTED = ("ownerReferences", "finalizers", "selfLink", "managedFields")
#: The fields of a rule and their names in messages, in the order of the messages.
_TITLES = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


def check_escalation(
    authorizer: Authorizer, identity: UserInfo, target: Target, new: Object, old: Object | None
) -> None:
    """Checks that a client may write this role or binding.

    Args:
        authorizer: Knows the client's permissions.
        identity: The client.
        target: The resource and namespace; the name is "" for a create.
        new: The object that would be stored.
        old: The stored one; None = it is new.

    Raises:
        ApiStatusError: 403; 404, the role of a binding does not exist.
    """
    resource = target.resource
    if resource.group != GROUP or MASTERS in identity.groups:
        return
    if old is not None and _without_collected(new) == _without_collected(old):
        return
    if resource in (ROLES, CLUSTER_ROLES):
        _check_role(authorizer, identity, target, new, old)
    elif resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
        _check_binding(authorizer, identity, target, new)


def _check_role(
    authorizer: Authorizer, identity: UserInfo, target: Target, new: Object, old: Object | None
) -> None:
    resource = target.resource
    attributes = Attributes("escalate", "", GROUP, resource.name, "", target.namespace, target.name)
    if authorizer.is_allowed(identity, attributes):
        return
    name = new["metadata"].get("name", "")
    problem = _problem(authorizer, identity, target.namespace, new.get("rules") or [])
    if problem:
        raise forbidden(resource, name, problem)
    aggregates = any((obj or {}).get("aggregationRule") for obj in (new, old))
    if aggregates and _problem(authorizer, identity, "", [*_EVERYTHING]):
        reason = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(resource, name, reason)


def _check_binding(authorizer: Authorizer, identity: UserInfo, target: Target, new: Object) -> None:
    role = new.get("roleRef") or {}
    resource = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}.get(role.get("kind", ""))
    if resource is None:
        return  # the validation refuses it
    attributes = Attributes(
        "bind", "", role.get("apiGroup", ""), resource.name, "", target.namespace, role["name"]
    )
    if authorizer.is_allowed(identity, attributes):
        return
    try:
        rules = authorizer.rules_of_role(role, target.namespace)
    except RoleMissing as error:
        # Upstream names the resource of the request.
        raise not_found(target.resource, error.name) from None
    problem = _problem(authorizer, identity, target.namespace, rules)
    if problem:
        raise forbidden(target.resource, new["metadata"].get("name", ""), problem)


def _without_collected(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}


def _problem(
    authorizer: Authorizer, identity: UserInfo, namespace: str, rules: list[dict[str, Any]]
) -> str:
    """Returns the message that lists the rules which a client lacks; "" = none."""
    grants = authorizer.grants(identity, namespace)
    own = [grant.rule for grant in grants.grants]
    left = [rule for rule in rules if not _is_covered(Rule.of(rule), own)]
    count = sum(map(_part_count, left))
    if count > PARTS_MAX:
        return (
            f"the rules grant {count} single permissions, of which at most {PARTS_MAX} can be "
            "compared with those of the client: use fewer values, or several roles"
        )
    parts = [part for rule in left for part in _parts(rule)]
    missing = [part for part in parts if not _is_covered(Rule.of(part), own)]
    if not missing:
        return ""
    groups = "[" + " ".join(map(quoted, identity.groups)) + "]"
    lines = sorted({_compact_text(rule) for rule in _compacted(missing)})
    message = f"user {quoted(identity.user)} (groups={groups}) is attempting to grant RBAC "
    message += "permissions not currently held:\n" + "\n".join(lines)
    if grants.problems:
        message += f"; resolution errors: [{joined(grants.problems)}]"
    return message


def _is_covered(rule: Rule, own: list[Rule]) -> bool:
    return any(other.covers(rule) for other in own)


def _part_count(rule: Mapping[str, Any]) -> int:
    """Returns the length of ``_parts``: the product of the lengths of a rule's lists."""
    verbs, paths = len(rule.get("verbs") or ()), len(rule.get("nonResourceURLs") or ())
    names = len(rule.get("resourceNames") or ()) or 1
    groups, resources = len(rule.get("apiGroups") or ()), len(rule.get("resources") or ())
    return verbs * (groups * resources * names + paths)


def _parts(rule: Mapping[str, Any]) -> Iterator[dict[str, list[str]]]:
    """Returns rules with at most one verb, group, resource, name or path each."""
    names: list[list[str]] = [[name] for name in rule.get("resourceNames") or ()] or [[]]
    verbs = rule.get("verbs") or ()
    for group, resource, verb, name in itertools.product(
        rule.get("apiGroups") or (), rule.get("resources") or (), verbs, names
    ):
        part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        yield {**part, "resourceNames": name} if name else part
    for path, verb in itertools.product(rule.get("nonResourceURLs") or (), verbs):
        yield {"nonResourceURLs": [path], "verbs": [verb]}


def _compacted(parts: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """Returns the rules with the verbs of one resource together."""
    by_resource: dict[object, dict[str, list[str]]] = {}
    for number, part in enumerate(parts):
        is_path = "nonResourceURLs" in part
        key = (part.get("apiGroups"), part.get("resources"), part.get("resourceNames"))
        merged = by_resource.setdefault(number if is_path else str(key), {**part, "verbs": []})
        merged["verbs"].extend(part["verbs"])
    return list(by_resource.values())


def _compact_text(rule: Mapping[str, list[str]]) -> str:
    fields = (
        f"{title}:[{' '.join(map(quoted, rule[name]))}]"
        for name, title in _TITLES.items()
        if rule.get(name)
    )
    return "{" + ", ".join(fields) + "}"
