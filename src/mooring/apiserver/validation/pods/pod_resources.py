"""Validation of the resources of a whole pod, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validatePodResources, validatePodResourceName,
validatePodResourceConsistency).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported
from mooring.apiserver.validation.resources import validate_requirements, validate_resource_name
from mooring.objects.pod import Pod, PodSpec
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_limits, pod_requests

Object = Mapping[str, Any]

_HUGE_PAGES = "hugepages-"
_SUPPORTED = ("cpu", "hugepages-", "memory")


def validate_pod_resources(spec: Object, field: str, claims: frozenset[str]) -> Errors:
    """Validates ``spec.resources``.

    Args:
        spec: The spec of a pod, or of a template.
        field: The path of the spec.
        claims: The names of the pod's claims.
    """
    resources: Object | None = spec.get("resources")
    if resources is None:
        return
    inner = f"{field}.resources"
    if spec.get("os", {}).get("name") == "windows":
        yield forbidden_field(inner, "may not be set for a windows pod")
        return
    if "claims" in resources:
        problem = "claims may not be set for Resources at pod-level"
        yield forbidden_field(f"{inner}.claims", problem)
    yield from validate_requirements(resources, inner, claims, validate_name=_validate_name)
    yield from _validate_consistency(spec, resources, inner)


def _validate_name(name: str, field: str) -> Errors:
    problems = list(validate_resource_name(name, field))
    if not problems and name not in ("cpu", "memory") and not name.startswith(_HUGE_PAGES):
        problems.append(not_supported(field, name, _SUPPORTED))
    return problems


def _validate_consistency(spec: Object, resources: Object, field: str) -> Errors:
    """Checks that the containers together stay within what the pod has."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    containers = {name: spec.get(name) or () for name in ("containers", "initContainers")}
    pod = Pod(spec=msgspec.convert(containers, PodSpec))
    yield from _validate_total(pod_requests(pod), requests, f"{field}.requests", "requests")
    huge = {name: text for name, text in limits.items() if name.startswith(_HUGE_PAGES)}
    yield from _validate_total(pod_limits(pod), huge, f"{field}.limits", "limits")
    for number, container in enumerate(spec.get("containers") or ()):
        for name, text in (container["resources"].get("limits") or {}).items():
            limit = limits.get(name)
            if limit is not None and Quantity.from_wire(text) > Quantity.from_wire(limit):
                problem = f"must be less than or equal to pod limits of {limit}"
                # The path of upstream.
                yield invalid(f"{field}.containers[{number}][{name}].limits", text, problem)


def _validate_total(totals: Mapping[str, Quantity], own: Object, field: str, what: str) -> Errors:
    for name, total in totals.items():
        text = own.get(name)
        if text is not None and total > Quantity.from_wire(text):
            problem = f"must be greater than or equal to aggregate container {what} of {total}"
            yield invalid(f"{field}[{name}]", text, problem)
