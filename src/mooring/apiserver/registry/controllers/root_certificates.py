"""Publishes the certificate of the server's authority in every namespace.

Containers verify the API server with the ConfigMap ``kube-root-ca.crt``, which their volumes name.
Upstream this is a controller; here it runs after the request that created the namespace, or
changed or deleted the ConfigMap. A server without TLS has no authority, and publishes nothing.

Source: pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target, derived_uid
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

NAME = "kube-root-ca.crt"
_NAMESPACES = resource_named("", "namespaces")
_CONFIG_MAPS = resource_named("", "configmaps")
_MANAGER = "kube-controller-manager"
_KEY = "ca.crt"
_DESCRIPTION = "kubernetes.io/description"
_TEXT = "The certificate of the authority that has signed the certificate of the API server."


class RootCertificates:
    """Keeps one ConfigMap in each namespace, once there is an authority."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = Changes(registry.store, _NAMESPACES)
        self._config_maps = Changes(registry.store, _CONFIG_MAPS)
        self._authority = ""

    def publish(self, authority: str) -> None:
        """Writes the certificate, PEM, to all namespaces, present and future ones."""
        self._authority = authority
        for stored in self._registry.collection(_NAMESPACES).in_order():
            self._sync(stored.object()["metadata"]["name"])

    def run(self) -> None:
        """Writes the ConfigMaps that are missing or wrong since the last change."""
        if not self._authority:
            return
        names = [change.key for change in self._namespaces.take() if change.new is not None]
        for change in self._config_maps.take():
            namespace, _, name = change.key.rpartition("/")
            if name == NAME:
                names.append(namespace)
        for namespace in dict.fromkeys(names):
            self._sync(namespace)

    def _sync(self, namespace: str) -> None:
        owner = self._registry.collection(_NAMESPACES).get(namespace)
        if owner is None or (owner.object().get("status") or {}).get("phase") == "Terminating":
            return
        target = Target(_CONFIG_MAPS, namespace, NAME)
        stored = self._registry.collection(_CONFIG_MAPS).get(target.key)
        if stored is None:
            metadata = {"name": NAME, "annotations": {_DESCRIPTION: _TEXT}}
            content = {"metadata": metadata, "data": {_KEY: self._authority}}
            obj = reader_of(struct_of(_CONFIG_MAPS)).read(content)
            obj["kind"], obj["apiVersion"] = _CONFIG_MAPS.kind, _CONFIG_MAPS.api_version
            uid = derived_uid(self._registry, target)
            self._registry.create(target, obj, manager=_MANAGER, uid=uid)
        elif stored.object().get("data") != {_KEY: self._authority}:
            writer = FieldManager(_MANAGER, _CONFIG_MAPS, "", self._registry.now())
            self._registry.update(target, self._corrected, writer=writer)

    def _corrected(self, obj: Object | None) -> Object:
        assert obj is not None
        return {**obj, "data": {_KEY: self._authority}}
