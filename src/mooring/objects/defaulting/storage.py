"""The admission of a new PersistentVolumeClaim.

Source: plugin/pkg/admission/storage/storageclass/setdefault, pkg/registry/core/
persistentvolumeclaim/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.objects.types import Object

DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
#: Names the class of a claim in the old way.
_CLAIM_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def is_default_class(storage_class: Object) -> bool:
    """Returns whether a storage class is marked as the default one."""
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def default_storage_class(classes: Iterable[Object]) -> str | None:
    """Returns the name of the default storage class: of several the newest, then by name."""
    marked = [
        storage_class["metadata"] for storage_class in classes if is_default_class(storage_class)
    ]
    by_name = sorted(marked, key=lambda metadata: str(metadata["name"]))
    newest = sorted(
        by_name, key=lambda metadata: metadata.get("creationTimestamp") or "", reverse=True
    )
    return newest[0]["name"] if newest else None


def has_class(claim: Object) -> bool:
    """Returns whether a claim says which class it wants; the empty name says "none"."""
    annotations = claim["metadata"].get("annotations") or {}
    return "storageClassName" in claim["spec"] or _CLAIM_CLASS_ANNOTATION in annotations


def prepare_claim_spec(claim: Object) -> None:
    """Completes the spec of a new claim: one data source has two fields."""
    spec = claim["spec"]
    if "dataSource" in spec and "dataSourceRef" not in spec:
        spec["dataSourceRef"] = dict(spec["dataSource"])
