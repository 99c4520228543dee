"""Aggregation: writes the rules of ClusterRoles that collect those of others.

Upstream this is a controller; here it runs after the request that changed a ClusterRole.

Source: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.apiserver.patch.apply import apply
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import resource_named
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import compile_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

_CLUSTER_ROLES = resource_named("rbac.authorization.k8s.io", "clusterroles")
_MANAGER = "clusterrole-aggregation-controller"
#: Aggregated roles collect one another; a circle of them does not end by itself.
_ROUNDS_MAX = 10


class RoleAggregation:
    """Keeps the rules of aggregated ClusterRoles."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._seen: tuple[object, int] = (None, -1)

    def run(self) -> None:
        """Writes the rules that changes of ClusterRoles have made obsolete."""
        collection = self._registry.collection(_CLUSTER_ROLES)
        for _ in range(_ROUNDS_MAX):
            state = (collection, collection.history.end)
            if state == self._seen:
                return
            self._seen = state
            self._write_rules([stored.object() for stored in collection.in_order()])

    def _write_rules(self, roles: list[Object]) -> None:
        for role in roles:
            aggregation = role.get("aggregationRule")
            if aggregation is None:
                continue
            rules = _collected(role, aggregation.get("clusterRoleSelectors") or (), roles)
            if rules != (role.get("rules") or []):
                self._write(role["metadata"]["name"], rules)

    def _write(self, name: str, rules: list[dict[str, Any]]) -> None:
        now = self._registry.now()
        manager = FieldManager(_MANAGER, _CLUSTER_ROLES, "", now)
        config = {
            "apiVersion": _CLUSTER_ROLES.api_version,
            "kind": _CLUSTER_ROLES.kind,
            "metadata": {"name": name},
            "rules": rules,
        }
        self._registry.update(
            Target(_CLUSTER_ROLES, "", name),
            lambda role: apply(role, config, manager, force=True),
            writer=manager,
            create_if_missing=True,
        )


def _collected(role: Object, selectors: Any, roles: list[Object]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for selector in selectors:
        compiled = compile_label_selector(convert(selector, LabelSelector))
        for other in roles:
            is_self = other["metadata"]["name"] == role["metadata"]["name"]
            if is_self or not compiled.matches(other["metadata"].get("labels") or {}):
                continue
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
