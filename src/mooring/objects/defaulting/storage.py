"""The admission of a new PersistentVolumeClaim.

Source: plugin/pkg/admission/storage/storageclass/setdefault, pkg/registry/core/
persistentvolumeclaim/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.objects.types import Object
from mooring.objects.volume_claims import BETA_CLASS

DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)

#: (API group, kind) of what a claim could be filled with by the old field.
_OLD_SOURCES: Final = frozenset(
    {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
)


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
    return "storageClassName" in claim["spec"] or BETA_CLASS in annotations


def prepare_claim_spec(claim: Object, old: Object | None = None) -> None:
    """Completes the spec of a claim: one data source has two fields.

    A source of another namespace needs a feature gate that is off by default, and the old field
    is ignored if it names anything but a claim or a snapshot. What ``old``, the claim before a
    change, has stays allowed.
    """
    spec, before = claim["spec"], old["spec"] if old is not None else {}
    if (spec.get("dataSourceRef") or {}).get("namespace") and "dataSourceRef" not in before:
        del spec["dataSourceRef"]
    has_source = "dataSource" in before or "dataSourceRef" in before
    if "dataSource" in spec and "dataSourceRef" not in spec:
        source = spec["dataSource"]
        if has_source or (source.get("apiGroup") or "", source.get("kind")) in _OLD_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif "dataSourceRef" in spec and "dataSource" not in spec:
        reference = spec["dataSourceRef"]
        names = ("apiGroup", "kind", "name")
        spec["dataSource"] = {name: reference[name] for name in names if name in reference}
