"""Warnings about labels of nodes that have been replaced.

Source: pkg/api/node/util.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from mooring.apiserver import names

_DEPRECATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
        "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
        "failure-domain.beta.kubernetes.io/region": (
            'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
        ),
        "failure-domain.beta.kubernetes.io/zone": (
            'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
        ),
        "beta.kubernetes.io/instance-type": (
            'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
        ),
        "app.kubernetes.io/created-by": "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods": (
            "deprecated since v1.22; use Taints and Tolerations instead"
        ),
        "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
    }
)


def deprecation_of(label: str) -> str:
    """Returns what to say about a deprecated label; "" for all others."""
    return _DEPRECATED.get(label, "")


def key_warning(field: str, label: str) -> Iterator[str]:
    """Yields the warning of a field that names a deprecated label."""
    if problem := deprecation_of(label):
        yield f"{field}: {label} is {problem}"


def term_warnings(term: Mapping[str, Any], field: str, *, checks_values: bool) -> Iterator[str]:
    """Yields the warnings of a term of a node selector; the values of required ones are valid."""
    for number, expression in enumerate(term.get("matchExpressions") or ()):
        inner = f"{field}.matchExpressions[{number}]"
        yield from key_warning(f"{inner}.key", expression.get("key", ""))
        if not checks_values:
            continue
        for position, value in enumerate(expression.get("values") or ()):
            for problem in names.label_value(value):
                yield f"{inner}.values[{position}]: {value} is invalid, {problem}"
