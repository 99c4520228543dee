"""Policies for tests, and what a scheduler runs that is told the result of converting one."""

from __future__ import annotations

import json
from typing import Any

from mooring.config import (
    KubeSchedulerConfiguration,
    convert_policy,
    expand_multi_point,
    loads,
)
from mooring.config.plugin_defaults import POINTS
from mooring.objects.files.yaml_text import yaml_text

#: Filters that came after the Policy, and so run whatever it says.
LATER_FILTERS = {"DynamicResources", "NodeDeclaredFeatures"}

#: All that filters by default.
ALL_FILTERS = LATER_FILTERS | {
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}
MANDATORY = {"NodeUnschedulable", "TaintToleration"}


def policy(**fields: Any) -> str:
    """The text of a Policy in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "Policy", **fields})


def predicates(*names: str) -> list[dict[str, Any]]:
    """Predicates by their names."""
    return [{"name": name} for name in names]


def priorities(**weights: int) -> list[dict[str, Any]]:
    """Priorities by their names."""
    return [{"name": name, "weight": weight} for name, weight in weights.items()]


def converted(text: str) -> KubeSchedulerConfiguration:
    """The configuration that a Policy becomes, read again from what would be written."""
    return loads(yaml_text(convert_policy(text).document))


def running(text: str) -> dict[str, dict[str, int]]:
    """Point -> plugin -> weight, in a scheduler with the converted configuration."""
    (profile,) = converted(text).profiles
    points = sorted({point for points in POINTS.values() for point in points})
    expanded = expand_multi_point(profile.plugins, points, lambda name, at: at in POINTS[name])
    return {point: dict(entries) for point, entries in expanded.items()}


def args(text: str, plugin: str) -> Any:
    """The arguments of a plugin in the converted configuration, as written."""
    (profile,) = convert_policy(text).document.get("profiles", [{}])
    entries = profile.get("pluginConfig", [])
    return next((entry["args"] for entry in entries if entry["name"] == plugin), None)


def notes(text: str) -> list[str]:
    """What converting a Policy tells."""
    return list(convert_policy(text).notes)
