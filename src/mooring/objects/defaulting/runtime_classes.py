"""The RuntimeClass admission plugin: a pod gets the overhead and the nodes of its class.

Source: plugin/pkg/admission/runtimeclass/admission.go, pkg/util/tolerations/tolerations.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.objects.types import Object

_Toleration = Mapping[str, Any]


class RuntimeClassRefused(ValueError):
    """A pod contradicts its runtime class; the text is the API server's."""


def apply_runtime_class(pod: Object, runtime_class: Object) -> None:
    """Changes the spec of a new pod as its class says; both have defaults.

    Raises:
        RuntimeClassRefused: they contradict each other.
    """
    spec = pod["spec"]
    if (overhead := runtime_class.get("overhead")) is not None:
        amounts = overhead.get("podFixed") or {}
        if spec.get("overhead") and spec["overhead"] != amounts:
            problem = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise RuntimeClassRefused(problem)
        if amounts:
            spec["overhead"] = dict(amounts)
    if (scheduling := runtime_class.get("scheduling")) is not None:
        _select_nodes(spec, scheduling.get("nodeSelector") or {})
        tolerations = [*spec.get("tolerations", ()), *scheduling.get("tolerations", ())]
        spec["tolerations"] = merged_tolerations(tolerations)


def _select_nodes(spec: Object, selector: Mapping[str, str]) -> None:
    own: dict[str, str] = spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if own.get(key, value) != value:
            raise RuntimeClassRefused(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
    if own or selector:
        spec["nodeSelector"] = {**own, **selector}


def merged_tolerations(tolerations: Iterable[_Toleration]) -> list[_Toleration]:
    """Returns the tolerations without those that another one includes; of equal ones the first."""
    every = list(tolerations)
    merged: list[_Toleration] = []
    for position, toleration in enumerate(every):
        later = (other for other in every[position + 1 :] if other != toleration)
        if not any(_includes(other, toleration) for other in (*merged, *later)):
            merged.append(toleration)
    return merged


def _includes(wide: _Toleration, narrow: _Toleration) -> bool:
    """Returns whether one toleration tolerates all that another one does."""
    if wide == narrow:
        return True
    operator, effect = wide.get("operator", ""), wide.get("effect", "")
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if effect and narrow.get("effect", "") != effect:
        return False
    seconds, narrow_seconds = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    is_limited = effect == "NoExecute" and seconds is not None
    if is_limited and (narrow_seconds is None or narrow_seconds > seconds):
        return False
    if operator in ("Equal", ""):
        has_value = narrow.get("value", "") == wide.get("value", "")
        return narrow.get("operator") == "Equal" and has_value
    return bool(operator == "Exists")
