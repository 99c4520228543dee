"""The admission plugin StorageObjectInUseProtection: finalizers of claims, volumes and classes.

``registry/storage_protection`` removes them when the object is not used any more.

Source: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mooring.apiserver.resources import Resource, resource_named
from mooring.objects.volume_claims import CLAIM_PROTECTION, VOLUME_PROTECTION

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

CLAIMS: Final = resource_named("", "persistentvolumeclaims")
VOLUMES: Final = resource_named("", "persistentvolumes")
CLASSES: Final = resource_named("storage.k8s.io", "volumeattributesclasses")
#: Resource -> the finalizer of its objects.
PROTECTIONS: Final[Mapping[Resource, str]] = MappingProxyType(
    {
        CLAIMS: CLAIM_PROTECTION,
        VOLUMES: VOLUME_PROTECTION,
        CLASSES: "kubernetes.io/vac-protection",
    }
)


def protect(resource: Resource, obj: Object) -> None:
    """Adds the finalizer to a new claim, volume or class of volume attributes."""
    finalizer = PROTECTIONS.get(resource)
    if finalizer is None:
        return
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]
