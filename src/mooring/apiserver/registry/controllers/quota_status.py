"""Keeps the status of ResourceQuotas: what their namespace uses.

Upstream this is a controller; here it runs after the request that changed an object, so the next
request finds the right usage. The objects of a namespace are added up once for a quota; after that
each change adds its difference.

Source: pkg/controller/resourcequota/resource_quota_controller.go (syncResourceQuota).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.admission.quota_usage import Amounts, can_count, matches, usage_of
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import RESOURCES, resource_named
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.history import StoreEvent
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


@dataclass(slots=True)
class _Total:
    """Amounts of all objects that a quota counts.

    Attributes:
        spec: The quota's.
        amounts: Their sums, by the names that any object counts for.
        written: The version of the quota whose status has these amounts; 0 = none.
    """

    spec: Object
    amounts: Amounts = field(default_factory=dict)
    written: int = 0

    @property
    def hard(self) -> Mapping[str, str]:
        """The limits."""
        return self.spec.get("hard") or {}

    @property
    def scopes(self) -> str:
        """The scopes, as text."""
        return str((self.spec.get("scopes"), self.spec.get("scopeSelector")))

    def add(self, usage: Amounts, sign: int = 1) -> None:
        """Adds the amounts of an object, or takes them away."""
        hard = self.hard
        for name, amount in usage.items():
            if name in hard:
                present = self.amounts.get(name, _ZERO)
                form = amount.format if present.is_zero else present.format
                self.amounts[name] = Quantity(present.nanos + sign * amount.nanos, form)
                self.written = 0


class QuotaStatus:
    """Writes the status of quotas."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changes = {
            resource.qualified: Changes(registry.store, resource) for resource in _COUNTED
        }
        #: By resource and key; present only while there are quotas.
        self._counted: dict[tuple[Resource, str], _Counted] = {}
        #: By namespace and by the quota's key.
        self._totals: dict[str, dict[str, _Total]] = {}

    def run(self) -> None:
        """Computes the usage of the namespaces that have quotas and have changed."""
        quotas = self._registry.collection(_QUOTAS)
        if not len(quotas):
            self._forget()
            return
        namespaces: dict[str, None] = {}
        resources = list(self._resources())
        removed = self._changes.keys() - {resource.qualified for resource in resources}
        if removed:  # with the objects of a definition that was deleted
            self._forget()
            for name in removed:
                del self._changes[name]
            namespaces = dict.fromkeys(stored.namespace for stored in quotas.in_order())
        for resource in resources:
            changes = self._changes_of(resource)
            events = changes.take()
            if changes.had_gap:
                self._forget()
            for change in events:
                namespaces[change.key.rpartition("/")[0]] = None
                self._apply(resource, change)
        for namespace in namespaces:
            for stored in tuple(quotas.in_order(namespace)):
                self._write(stored)

    def _forget(self) -> None:
        self._counted.clear()
        self._totals.clear()

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

    def _apply(self, resource: Resource, change: StoreEvent) -> None:
        """Changes the totals of a namespace by the difference of an object."""
        namespace = change.key.rpartition("/")[0]
        totals = self._totals.get(namespace, {})
        if resource is _QUOTAS and change.new is None:
            totals.pop(change.key, None)
            if not totals:
                self._totals.pop(namespace, None)
        before = self._counted.pop((resource, change.key), None)
        for key, total in tuple(totals.items()):
            if not can_count(resource, total.hard):
                continue
            if before is not None and total.scopes not in before.is_in_scope:
                del totals[key]  # another quota has counted a later version: it is added up anew
                continue
            if before is not None and before.is_in_scope[total.scopes]:
                total.add(before.usage, -1)
            if change.new is not None:
                self._add(total, resource, change.new)

    def _write(self, stored: Stored) -> None:
        totals = self._totals.setdefault(stored.namespace, {})
        total = totals.get(stored.key)
        if total is not None and total.written == stored.version:
            return
        quota = stored.object()
        if total is None or total.spec != quota["spec"]:
            total = totals[stored.key] = self._total_of(quota)
        used = dict.fromkeys(total.hard, "0")
        used |= {key: str(amount) for key, amount in total.amounts.items()}
        status = {"hard": total.hard, "used": used} if used else {}
        if (quota.get("status") or {}) != status:
            manager = FieldManager(_MANAGER, _QUOTAS, "status", self._registry.now())
            self._registry.update(
                Target(_QUOTAS, stored.namespace, stored.name),
                lambda present: {**(present or {}), "status": status},
                writer=manager,
                subresource="status",
            )
        written = self._registry.collection(_QUOTAS).get(stored.key)
        total.written = written.version if written is not None else 0

    def _total_of(self, quota: Object) -> _Total:
        """Returns what is used of the names that any object counts for."""
        total = _Total(quota["spec"])
        for resource in self._resources():
            if not can_count(resource, total.hard):
                continue
            collection = self._registry.collection(resource)
            for stored in collection.in_order(quota["metadata"]["namespace"]):
                self._add(total, resource, stored)
        return total

    def _add(self, total: _Total, resource: Resource, stored: Stored) -> None:
        counted, scopes = self._count(resource, stored), total.scopes
        if scopes not in counted.is_in_scope:
            is_in_scope = matches({"spec": total.spec}, resource, stored.object())
            counted.is_in_scope[scopes] = is_in_scope
        if counted.is_in_scope[scopes]:
            total.add(counted.usage)

    def _count(self, resource: Resource, stored: Stored) -> _Counted:
        key = (resource, stored.key)
        counted = self._counted.get(key)
        if counted is None or counted.version != stored.version:
            usage = usage_of(resource, stored.object())
            counted = self._counted[key] = _Counted(stored.version, usage, {})
        return counted
