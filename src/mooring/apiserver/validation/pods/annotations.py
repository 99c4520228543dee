"""Validation of the annotations that have a meaning for pods, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodSpecificAnnotations,
ValidatePodSpecificAnnotationUpdates).
Differs: the annotations that were replaced by fields (tolerations, seccomp and AppArmor profiles)
are not validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver.errors import Errors, forbidden_field, invalid

Object = Mapping[str, Any]

#: Set on the copy of a static pod, which a kubelet runs without the API server.
MIRROR: Final = "kubernetes.io/config.mirror"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INT32_MAX: Final = 2**31 - 1


def has_pod_annotations(metadata: Object) -> bool:
    """Returns whether an object has annotations that are validated here."""
    annotations = metadata.get("annotations") or {}
    return MIRROR in annotations or _DELETION_COST in annotations


def validate_pod_annotations(metadata: Object, spec: Object, field: str) -> Errors:
    """Validates the annotations of a pod or of its template.

    Args:
        metadata: Of the pod.
        spec: Of the pod.
        field: The path of the annotations.
    """
    annotations = metadata.get("annotations") or {}
    if MIRROR in annotations and not spec.get("nodeName"):
        problem = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{field}[{MIRROR}]", annotations[MIRROR], problem)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def validate_pod_annotation_changes(new: Object, old: Object, field: str) -> Errors:
    """Validates that no pod becomes, or ceases to be, the copy of a static pod.

    Args:
        new: The changed metadata.
        old: The metadata before.
        field: The path of the annotations.
    """
    after = (new.get("annotations") or {}).get(MIRROR)
    before = (old.get("annotations") or {}).get(MIRROR)
    if before is not None and after != before:
        problem = "may not remove or update mirror pod annotation"
        yield forbidden_field(f"{field}[{MIRROR}]", problem)
    if before is None and after is not None:
        yield forbidden_field(f"{field}[{MIRROR}]", "may not add mirror pod annotation")


def _is_cost(text: str) -> bool:
    """Returns whether a text is an int32 without a plus sign; only negative ones may begin by 0."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (text[0] == "0" and text != "0"):
        return False
    significant = digits.lstrip("0")
    limit = _INT32_MAX + text.startswith("-")
    return len(significant) <= len(str(limit)) and int(significant or "0") <= limit
