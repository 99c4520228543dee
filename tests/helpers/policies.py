"""Policies for tests, and the plugins that a scheduler runs with a converted one."""

from __future__ import annotations

import json
from typing import Any

from mooring.config import (
    KubeSchedulerConfiguration,
    expand_multi_point,
    loads,
)
from mooring.config.legacy_policy import convert_policy
from mooring.config.plugin_defaults import POINTS
from mooring.objects.files.yaml_text import yaml_text

#: Filters that are newer than the Policy API, which a Policy cannot disable.
LATER_FILTERS = {"DynamicResources", "NodeDeclaredFeatures"}

#: All default filters.
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
    """Returns the text of a Policy in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "Policy", **fields})


def predicates(*names: str) -> list[dict[str, Any]]:
    """Returns predicates with these names."""
    return [{"name": name} for name in names]


def priorities(**weights: int) -> list[dict[str, Any]]:
    """Returns priorities with these weights by name."""
    return [{"name": name, "weight": weight} for name, weight in weights.items()]


def converted(text: str) -> KubeSchedulerConfiguration:
    """Returns the configuration converted from a Policy, written and read again."""
    return loads(yaml_text(convert_policy(text).document))


def running(text: str) -> dict[str, dict[str, int]]:
    """Returns point -> plugin -> weight of a scheduler with the converted configuration."""
    (profile,) = converted(text).profiles
    points = sorted({point for points in POINTS.values() for point in points})
    expanded = expand_multi_point(profile.plugins, points, lambda name, at: at in POINTS[name])
    return {point: dict(entries) for point, entries in expanded.items()}


def args(text: str, plugin: str) -> Any:
    """Returns the arguments of a plugin in the converted configuration, as written."""
    (profile,) = convert_policy(text).document.get("profiles", [{}])
    entries = profile.get("pluginConfig", [])
    return next((entry["args"] for entry in entries if entry["name"] == plugin), None)


def notes(text: str) -> list[str]:
    """Returns the notes of a conversion."""
    return list(convert_policy(text).notes)
