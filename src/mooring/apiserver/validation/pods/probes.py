"""Validation of a container's probes and hooks, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateProbe, validateLifecycle, validateHandler).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, required
from mooring.apiserver.validation.rules import field_errors, not_negative, one_of

Object = Mapping[str, Any]

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
#: A hook or probe may have one action; of several, the first in this order is validated.
_HOOK_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_SCHEMES = ("HTTP", "HTTPS")
_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_hooks_and_probes(container: Object, field: str, grace_s: int | None) -> Errors:
    """Validates hooks and probes of a container; ``grace_s``: the grace period of its pod."""
    lifecycle = container.get("lifecycle", {})
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            child_field = f"{field}.lifecycle.{name}"
            yield from _validate_action(lifecycle[name], child_field, _HOOK_ACTIONS, grace_s)
    for name in PROBES:
        if name in container:
            yield from _validate_probe(container[name], f"{field}.{name}", name)


def _validate_probe(probe: Object, field: str, kind: str) -> Errors:
    yield from _validate_action(probe, field, _PROBE_ACTIONS, None)
    yield from not_negative(probe, field, *_COUNTS)
    child_field = f"{field}.terminationGracePeriodSeconds"
    grace_s = probe.get("terminationGracePeriodSeconds")
    if grace_s is not None and grace_s <= 0:
        yield invalid(child_field, grace_s, "must be greater than 0")
    if kind == "readinessProbe":
        if grace_s is not None:
            yield invalid(child_field, grace_s, "must not be set for readinessProbes")
    elif probe["successThreshold"] != 1:
        yield invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def _validate_action(
    handler: Object, field: str, kinds: tuple[str, ...], grace_s: int | None
) -> Errors:
    specified = [kind for kind in kinds if kind in handler]
    if not specified:
        yield required(field, "must specify a handler type")
        return
    yield from _validate_handler(specified[0], handler[specified[0]], field, grace_s)
    for kind in specified[1:]:
        yield forbidden_field(f"{field}.{kind}", "may not specify more than 1 handler type")


def _validate_handler(kind: str, action: Object, field: str, grace_s: int | None) -> Errors:
    child_field = f"{field}.{kind}"
    if kind == "exec":
        if not action.get("command"):
            yield required(f"{child_field}.command")
    elif kind == "sleep":
        if grace_s is not None and not 0 <= action["seconds"] <= grace_s:
            problem = "must be non-negative and less than terminationGracePeriodSeconds "
            problem += f"({grace_s})"
            yield invalid(child_field, action["seconds"], problem)
    else:
        if kind == "httpGet" and not action.get("path"):
            yield required(f"{child_field}.path")
        yield from _validate_port(action["port"], f"{child_field}.port")
        if kind == "httpGet":
            yield from _validate_http(action, child_field)


def _validate_http(action: Object, field: str) -> Errors:
    yield from one_of(f"{field}.scheme", action.get("scheme", ""), _SCHEMES)
    for header in action.get("httpHeaders", ()):
        name = header["name"]
        yield from field_errors(f"{field}.httpHeaders", name, names.header_name)


def _validate_port(port: int | str, field: str) -> Errors:
    if isinstance(port, int):
        return field_errors(field, port, names.port_number)
    return field_errors(field, port, names.port_name)
