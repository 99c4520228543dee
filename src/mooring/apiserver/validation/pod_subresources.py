"""Validation of added ephemeral containers, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodEphemeralContainersUpdate). Other
subresources of pods: ``status/pods.py``, ``pod_resize.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import Errors, forbidden_field, quoted
from mooring.apiserver.validation.pod import describe_difference, validate_pod_spec

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_ephemeral(new: Object, old: Object) -> Errors:
    """Validates a change of a pod's ephemeral containers, which can only be added."""
    yield from validate_pod_spec(new)
    containers = {c["name"]: c for c in new["spec"].get("ephemeralContainers", ())}
    field = "spec.ephemeralContainers"
    for before in old["spec"].get("ephemeralContainers", ()):
        name = before["name"]
        lead = f"existing ephemeral containers {quoted(name)} may not be"
        if name not in containers:
            yield forbidden_field(field, f"{lead} removed\n")
        elif containers[name] != before:
            changed = sorted({*containers[name], *before})
            changed = [key for key in changed if containers[name].get(key) != before.get(key)]
            difference = describe_difference(containers[name], before, changed)
            yield forbidden_field(field, f"{lead} changed\n{difference}")
