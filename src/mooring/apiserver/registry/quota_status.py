"""Keeps the status of ResourceQuotas: what their namespace uses.

Upstream this is a controller; here it runs after the request that changed an object, so the next
request finds the right usage.

Source: pkg/controller/resourcequota/resource_quota_controller.go (syncResourceQuota).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.admission.quota_usage import Amounts, can_count, matches, usage_of
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import RESOURCES, resource_named
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

_QUOTAS = resource_named("", "resourcequotas")
_ZERO = Quantity.of_value(0)
_MANAGER = "kube-controller-manager"
#: Events are views of other objects.
_COUNTED = tuple(
    resource
    for resource in RESOURCES
    if resource.namespaced and resource.is_stored and resource.group != "events.k8s.io"
)


class _Counted(NamedTuple):
    """The amounts that one version of an object adds.

    Attributes:
        version: The resourceVersion.
        usage: The amounts.
        is_in_scope: By the scopes of a quota, as text.
    """

    version: int
    usage: Amounts
    is_in_scope: dict[str, bool]


class QuotaStatus:
    """Writes the status of quotas."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changes = {
            resource.qualified: Changes(registry.store, resource) for resource in _COUNTED
        }
        #: By resource and key; kept only while there are quotas.
        self._counted: dict[tuple[Resource, str], _Counted] = {}

    def run(self) -> None:
        """Computes the usage of the namespaces that have quotas and have changed."""
        quotas = self._registry.collection(_QUOTAS)
        if not len(quotas):
            self._counted.clear()
            return
        namespaces: dict[str, None] = {}
        resources = list(self._resources())
        removed = self._changes.keys() - {resource.qualified for resource in resources}
        if removed:  # with the objects of a definition that was deleted
            self._counted.clear()
            for name in removed:
                del self._changes[name]
            namespaces = dict.fromkeys(stored.namespace for stored in quotas.in_order())
        for resource in resources:
            for change in self._changes_of(resource).take():
                namespaces[change.key.rpartition("/")[0]] = None
                if change.new is None:
                    self._counted.pop((resource, change.key), None)
        for namespace in namespaces:
            for stored in tuple(quotas.in_order(namespace)):
                self._write(stored.object())

    def _resources(self) -> Iterator[Resource]:
        """Yields what quotas count: the resources that definitions have added as well."""
        yield from _COUNTED
        custom = {item.qualified: item for item in self._registry.store.custom.values()}
        yield from (resource for resource in custom.values() if resource.namespaced)

    def _changes_of(self, resource: Resource) -> Changes:
        changes = self._changes.get(resource.qualified)
        if changes is None:
            changes = self._changes[resource.qualified] = Changes(self._registry.store, resource)
        return changes

    def _write(self, quota: Object) -> None:
        namespace, name = quota["metadata"]["namespace"], quota["metadata"]["name"]
        hard = quota["spec"].get("hard") or {}
        used = dict.fromkeys(hard, "0")
        used |= {key: str(amount) for key, amount in self._used(quota, hard).items()}
        status = {"hard": hard, "used": used} if hard else {}
        if (quota.get("status") or {}) == status:
            return
        manager = FieldManager(_MANAGER, _QUOTAS, "status", self._registry.now())
        self._registry.update(
            Target(_QUOTAS, namespace, name),
            lambda present: {**(present or {}), "status": status},
            writer=manager,
            subresource="status",
        )

    def _used(self, quota: Object, hard: Mapping[str, str]) -> Amounts:
        """Returns what is used of the names that any object counts for."""
        total: Amounts = {}
        spec = quota["spec"]
        scopes = str((spec.get("scopes"), spec.get("scopeSelector")))
        for resource in self._resources():
            if not can_count(resource, hard):
                continue
            collection = self._registry.collection(resource)
            for stored in collection.in_order(quota["metadata"]["namespace"]):
                counted = self._count(resource, stored)
                if scopes not in counted.is_in_scope:
                    is_in_scope = matches(quota, resource, stored.object())
                    counted.is_in_scope[scopes] = is_in_scope
                if counted.is_in_scope[scopes]:
                    _add(total, counted.usage, hard)
        return total

    def _count(self, resource: Resource, stored: Stored) -> _Counted:
        key = (resource, stored.key)
        counted = self._counted.get(key)
        if counted is None or counted.version != stored.version:
            usage = usage_of(resource, stored.object())
            counted = self._counted[key] = _Counted(stored.version, usage, {})
        return counted


def _add(total: Amounts, usage: Amounts, hard: Container[str]) -> None:
    for name, amount in usage.items():
        if name in hard:
            present = total.get(name, _ZERO)
            form = amount.format if present.is_zero else present.format
            total[name] = Quantity(present.nanos + amount.nanos, form)
