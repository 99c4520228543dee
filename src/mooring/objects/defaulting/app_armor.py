"""AppArmor profiles of containers: annotations that were used before there was a field.

Source: pkg/registry/core/pod/strategy.go (applyAppArmorVersionSkew).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.objects.types import Object

#: Followed by the name of a container, it is the key of its annotation.
APP_ARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
_PROFILE_LENGTH_MAX: Final = 4095


def profile_of_annotation(text: str) -> Object | None:
    """Returns the field that an annotation stands for; None = it has no valid value."""
    if text == "unconfined":
        return {"type": "Unconfined"}
    if text == "runtime/default":
        return {"type": "RuntimeDefault"}
    name = text.removeprefix(_LOCALHOST)
    is_valid = name != text and name.strip() == name and 0 < len(name) <= _PROFILE_LENGTH_MAX
    return {"type": "Localhost", "localhostProfile": name} if is_valid else None


def annotated_profiles(pod: Object) -> Iterator[tuple[str, Object, Object | None]]:
    """Yields what the annotations of a pod change, and what they cannot.

    Yields:
        The key of an annotation, its container, and the profile that the container gets from it;
        None = the annotation has no valid value.
    """
    annotations, spec = pod["metadata"].get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            key = f"{APP_ARMOR_PREFIX}{container.get('name', '')}"
            context = container.get("securityContext") or {}
            if key not in annotations or "appArmorProfile" in context:
                continue
            profile = profile_of_annotation(annotations[key])
            if profile is None or profile != of_pod:
                yield key, container, profile


def set_annotated_profiles(pod: Object) -> None:
    """Sets the fields that the annotations of a new pod stand for."""
    for _, container, profile in list(annotated_profiles(pod)):
        if profile is not None:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
