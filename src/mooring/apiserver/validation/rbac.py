"""Validation of roles and bindings, with kube-apiserver's messages.

Source: pkg/apis/rbac/validation/validation.go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, not_supported, required
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import field_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.types import Object

_GROUP = "rbac.authorization.k8s.io"
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def validate_role(role: Object) -> Errors:
    """Validates a Role or a ClusterRole."""
    is_namespaced = role["kind"] == "Role"
    for number, rule in enumerate(role.get("rules") or ()):
        yield from _validate_rule(rule, f"rules[{number}]", is_namespaced=is_namespaced)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return
    field = "aggregationRule.clusterRoleSelectors"
    selectors = aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        problem = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(field, problem)
    for number, selector in enumerate(selectors):
        errors = [*validate_label_selector(selector, f"{field}[{number}]")]
        yield from errors
        if errors:
            yield invalid(f"{field}[{number}]", None, "invalid label selector.")


def _validate_rule(rule: Mapping[str, Any], field: str, *, is_namespaced: bool) -> Errors:
    if not rule.get("verbs"):
        yield required(f"{field}.verbs", "verbs must contain at least one value")
    paths = rule.get("nonResourceURLs")
    if paths:
        path_field = f"{field}.nonResourceURLs"
        if is_namespaced:
            problem = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(path_field, paths, problem)
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            problem = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(path_field, paths, problem)
        return
    for name, title in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(name):
            problem = f"resource rules must supply at least one {title}"
            yield required(f"{field}.{name}", problem)


def validate_binding(binding: Object) -> Errors:
    """Validates a RoleBinding or a ClusterRoleBinding."""
    is_namespaced = binding["kind"] == "RoleBinding"
    role = binding["roleRef"]
    if role["apiGroup"] != _GROUP:
        yield not_supported("roleRef.apiGroup", role["apiGroup"], [_GROUP])
    kinds = ["Role", "ClusterRole"] if is_namespaced else ["ClusterRole"]
    if role["kind"] not in kinds:
        yield not_supported("roleRef.kind", role["kind"], kinds)
    if not role["name"]:
        yield required("roleRef.name")
    yield from field_errors("roleRef.name", role["name"], names.path_segment)
    for number, subject in enumerate(binding.get("subjects") or ()):
        yield from _validate_subject(subject, f"subjects[{number}]", is_namespaced=is_namespaced)


def _validate_subject(subject: Mapping[str, Any], field: str, *, is_namespaced: bool) -> Errors:
    kind, name, group = subject["kind"], subject["name"], subject.get("apiGroup", "")
    if not name:
        yield required(f"{field}.name")
    unsupported = partial(not_supported, f"{field}.apiGroup", group)
    if kind == "ServiceAccount":
        if name:
            yield from field_errors(f"{field}.name", name, names.dns_subdomain)
        if group:
            yield unsupported([""])
        if not is_namespaced and not subject.get("namespace"):
            yield required(f"{field}.namespace")
    elif kind not in _SUBJECT_KINDS:
        yield not_supported(f"{field}.kind", kind, _SUBJECT_KINDS)
    elif group != _GROUP:
        yield unsupported([_GROUP])


def validate_binding_update(new: Object, old: Object) -> Errors:
    """Validates a change of a binding, which cannot refer to another role."""
    yield from validate_binding(new)
    role = new["roleRef"]
    if role != old["roleRef"]:
        names_of_type = ("apiGroup", "kind", "name")
        internal = {f"{name[0].upper()}{name[1:]}": role[name] for name in names_of_type}
        internal = {"APIGroup": internal.pop("ApiGroup"), **internal}
        yield invalid("roleRef", internal, "cannot change roleRef")
