"""Creates an empty EndpointSlice for every Service with a selector.

Upstream this is a controller; here it runs after the request that changed a service. The slices
stay empty without a client that fills them, such as the endpoint actor of ``mooring start``.

Source: staging k8s.io/endpointslice/utils.go (newEndpointSlice).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.registry.service_addresses import HEADLESS, SERVICES
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

_SLICES = resource_named("discovery.k8s.io", "endpointslices")
_MANAGER = "kube-controller-manager"
_SERVICE_NAME = "kubernetes.io/service-name"


class EndpointSlices:
    """Keeps one slice for each service with a selector."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._services = Changes(registry.store, SERVICES)

    def run(self) -> None:
        """Creates the slices that are missing since the last change."""
        services = self._registry.collection(SERVICES)
        for key in dict.fromkeys(change.key for change in self._services.take()):
            stored = services.get(key)
            if stored is not None:
                self._create(stored.object())

    def _create(self, service: Object) -> None:
        spec, metadata = service["spec"], service["metadata"]
        slices = self._registry.collection(_SLICES)
        if not spec.get("selector") or spec["type"] == "ExternalName":
            return
        if "deletionTimestamp" in metadata or slices.owned_by(metadata["uid"]):
            return
        labels = {
            **metadata.get("labels", {}),
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            _SERVICE_NAME: metadata["name"],
        }
        if spec.get("clusterIP") == HEADLESS:
            labels["service.kubernetes.io/headless"] = ""
        owner = {
            "apiVersion": "v1",
            "kind": "Service",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        slice_metadata = {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        }
        content = {"metadata": slice_metadata, "addressType": "IPv4", "endpoints": [], "ports": []}
        obj = reader_of(struct_of(_SLICES)).read(content)
        obj["kind"], obj["apiVersion"] = _SLICES.kind, _SLICES.api_version
        target = Target(_SLICES, metadata["namespace"], "")
        self._registry.create(target, obj, manager=_MANAGER)
