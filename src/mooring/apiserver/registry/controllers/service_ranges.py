"""The IPAddress of each Service's cluster IP, and the default ServiceCIDR.

Upstream an address is taken by creating its object; here the objects follow the requests that
change Services.

Source: pkg/registry/core/service/ipallocator/ipallocator.go (createIPAddress),
pkg/controlplane/controller/defaultservicecidr.
Differs: addresses come from the default range alone; an IPAddress that a client deletes is missing
until its Service changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target, derived_uid
from mooring.apiserver.registry.service_addresses import (
    ADDRESSES,
    HEADLESS,
    IP_ADDRESSES,
    SERVICES,
)
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

_RANGES = resource_named("networking.k8s.io", "servicecidrs")
_DEFAULT = "kubernetes"
_MANAGER = "kube-apiserver"
_LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}


class ServiceRanges:
    """Keeps one IPAddress for each cluster IP, and the ServiceCIDR that they are from."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._services = Changes(registry.store, SERVICES)
        #: Key of a Service -> its addresses.
        self._held: dict[str, list[str]] = {}

    def run(self) -> None:
        """Creates and removes what the last changes of Services require."""
        if self._registry.collection(_RANGES).get(_DEFAULT) is None:
            self._create_default()
        for change in self._services.take():
            before = self._held.pop(change.key, [])
            current: list[str] = []
            if change.new is not None:
                service = change.new.object()
                addresses = service["spec"].get("clusterIPs") or ()
                current = [text for text in addresses if text not in (HEADLESS, "")]
                for address in current:
                    self._create(address, service)
                self._held[change.key] = current
            for address in before:
                if address not in current:
                    self._remove(address, change.key)

    def _create(self, address: str, service: Object) -> None:
        target = Target(IP_ADDRESSES, "", address)
        if self._registry.collection(IP_ADDRESSES).get(address) is not None:
            return
        metadata = service["metadata"]
        parent = {
            "resource": "services",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
        }
        content = {"metadata": {"name": address, "labels": _LABELS}, "spec": {"parentRef": parent}}
        self._store(target, content)

    def _remove(self, address: str, service_key: str) -> None:
        collection = self._registry.collection(IP_ADDRESSES)
        stored = collection.get(address)
        if stored is None:
            return
        parent = stored.object()["spec"].get("parentRef") or {}
        if f"{parent.get('namespace', '')}/{parent.get('name', '')}" == service_key:
            self._deleter.on_removed("", collection.remove(address))

    def _create_default(self) -> None:
        target = Target(_RANGES, "", _DEFAULT)
        self._store(target, {"metadata": {"name": _DEFAULT}, "spec": {"cidrs": [str(ADDRESSES)]}})
        condition = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": self._registry.now(),
            "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }
        self._registry.update(
            target,
            lambda present: {**(present or {}), "status": {"conditions": [condition]}},
            writer=FieldManager(
                "kubernetes-service-cidr-controller", _RANGES, "status", self._registry.now()
            ),
            subresource="status",
        )

    def _store(self, target: Target, content: Object) -> None:
        resource = target.resource
        obj = reader_of(struct_of(resource)).read(content)
        obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
        uid = derived_uid(self._registry, target)
        self._registry.create(target, obj, manager=_MANAGER, uid=uid)
