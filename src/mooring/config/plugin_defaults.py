"""The plugins that kube-scheduler has built in: where each can run, and which run by default.

Source: pkg/scheduler/framework/plugins/registry.go, pkg/scheduler/apis/config/v1/
default_plugins.go; where each can run was asked of kube-scheduler v1.36.3 itself.
"""

from __future__ import annotations

from typing import Final

#: What runs if nobody says otherwise: plugin -> weight in scoring (0: it does not score).
DEFAULT_PLUGINS: Final[dict[str, int]] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}

#: Plugins that may be named but do nothing while their feature gate is off, as it is by default.
GATED_PLUGINS: Final = frozenset(
    {"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
)

#: Plugin -> the extension points where a configuration may enable it.
POINTS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(points.split())
    for name, points in {
        "SchedulingGates": "pre_enqueue",
        "PrioritySort": "queue_sort",
        "NodeUnschedulable": "filter",
        "NodeName": "filter",
        "TaintToleration": "filter pre_score score",
        "NodeAffinity": "pre_filter filter pre_score score",
        "NodePorts": "pre_filter filter",
        "NodeResourcesFit": "pre_filter filter pre_score score placement_score",
        "VolumeRestrictions": "pre_filter filter",
        "NodeVolumeLimits": "pre_filter filter",
        "VolumeBinding": "pre_filter filter pre_score score reserve pre_bind",
        "VolumeZone": "pre_filter filter",
        "PodTopologySpread": "pre_filter filter pre_score score",
        "InterPodAffinity": "pre_filter filter pre_score score",
        "DynamicResources": "pre_enqueue pre_filter filter post_filter score reserve pre_bind",
        "DefaultPreemption": "pre_enqueue post_filter",
        "NodeResourcesBalancedAllocation": "pre_score score",
        "ImageLocality": "score",
        "DefaultBinder": "bind",
        "NodeDeclaredFeatures": "pre_filter filter",
        "GangScheduling": "pre_enqueue permit",
        "TopologyPlacementGenerator": "placement_generate",
        "PodGroupPodsCount": "placement_score",
    }.items()
}
