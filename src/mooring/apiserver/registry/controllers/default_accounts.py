"""Creates the service account ``default`` of every namespace.

Upstream this is a controller; here it runs after the request that created the namespace or deleted
the account.

Source: pkg/controller/serviceaccount/serviceaccounts_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target, derived_uid
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry

NAME = "default"
_NAMESPACES = resource_named("", "namespaces")
_ACCOUNTS = resource_named("", "serviceaccounts")
_MANAGER = "kube-controller-manager"


class DefaultAccounts:
    """Keeps one service account in each namespace."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = Changes(registry.store, _NAMESPACES)
        self._accounts = Changes(registry.store, _ACCOUNTS)

    def run(self) -> None:
        """Creates the accounts that are missing since the last change."""
        names = [change.key for change in self._namespaces.take() if change.new is not None]
        for change in self._accounts.take():
            namespace, _, name = change.key.rpartition("/")
            if change.new is None and name == NAME:
                names.append(namespace)
        for namespace in dict.fromkeys(names):
            self._create(namespace)

    def _create(self, namespace: str) -> None:
        target = Target(_ACCOUNTS, namespace, NAME)
        stored = self._registry.collection(_NAMESPACES).get(namespace)
        if stored is None or self._registry.collection(_ACCOUNTS).get(target.key) is not None:
            return
        if (stored.object().get("status") or {}).get("phase") == "Terminating":
            return
        account = reader_of(struct_of(_ACCOUNTS)).read({"metadata": {"name": NAME}})
        account["kind"], account["apiVersion"] = _ACCOUNTS.kind, _ACCOUNTS.api_version
        uid = derived_uid(self._registry, target)
        self._registry.create(target, account, manager=_MANAGER, uid=uid)
