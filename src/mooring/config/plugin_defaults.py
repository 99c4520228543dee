"""The default plugins: one entry each, with module, extension points, weight and arguments.

This table and the plugin's own module are all that a default plugin needs; configuration, profiles,
recordings and documentation tests read it.

Source: pkg/scheduler/framework/plugins/registry.go, pkg/scheduler/apis/config/v1/
default_plugins.go; the extension points were recorded from kube-scheduler v1.36.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)


class InTreePlugin(NamedTuple):
    """A default plugin.

    Attributes:
        module: Below ``mooring.plugins``; it has a class with the plugin's name.
        points: The extension points where a configuration may enable it, separated by spaces.
        weight: Of its score; 0 = it does not score.
        args: The struct of its arguments; None = it has none.
    """

    module: str
    points: str
    weight: int = 0
    args: type[PluginArgs] | None = None


#: The default plugins, in the order in which they run.
IN_TREE_PLUGINS: Final[dict[str, InTreePlugin]] = {
    "SchedulingGates": InTreePlugin("scheduling_gates", "pre_enqueue"),
    "PrioritySort": InTreePlugin("priority_sort", "queue_sort"),
    "NodeUnschedulable": InTreePlugin("node_unschedulable", "filter"),
    "NodeName": InTreePlugin("node_name", "filter"),
    "TaintToleration": InTreePlugin("taint_toleration", "filter pre_score score", weight=3),
    "NodeAffinity": InTreePlugin(
        "node_affinity", "pre_filter filter pre_score score", weight=2, args=NodeAffinityArgs
    ),
    "NodePorts": InTreePlugin("node_ports", "pre_filter filter"),
    "NodeResourcesFit": InTreePlugin(
        "node_resources.fit",
        "pre_filter filter pre_score score placement_score",
        weight=1,
        args=NodeResourcesFitArgs,
    ),
    "VolumeRestrictions": InTreePlugin("volume_restrictions", "pre_filter filter"),
    "NodeVolumeLimits": InTreePlugin("node_volume_limits", "pre_filter filter"),
    "VolumeBinding": InTreePlugin(
        "volume_binding",
        "pre_filter filter pre_score score reserve pre_bind",
        args=VolumeBindingArgs,
    ),
    "VolumeZone": InTreePlugin("volume_zone", "pre_filter filter"),
    "PodTopologySpread": InTreePlugin(
        "pod_topology_spread",
        "pre_filter filter pre_score score",
        weight=2,
        args=PodTopologySpreadArgs,
    ),
    "InterPodAffinity": InTreePlugin(
        "inter_pod_affinity",
        "pre_filter filter pre_score score",
        weight=2,
        args=InterPodAffinityArgs,
    ),
    "DynamicResources": InTreePlugin(
        "dynamic_resources",
        "pre_enqueue pre_filter filter post_filter score reserve pre_bind",
        weight=2,
        args=DynamicResourcesArgs,
    ),
    "DefaultPreemption": InTreePlugin(
        "default_preemption", "pre_enqueue post_filter", args=DefaultPreemptionArgs
    ),
    "NodeResourcesBalancedAllocation": InTreePlugin(
        "node_resources.balanced_allocation",
        "pre_score score",
        weight=1,
        args=NodeResourcesBalancedAllocationArgs,
    ),
    "ImageLocality": InTreePlugin("image_locality", "score", weight=1),
    "DefaultBinder": InTreePlugin("default_binder", "bind"),
    "NodeDeclaredFeatures": InTreePlugin("node_declared_features", "pre_filter filter"),
}

#: Plugin -> weight of its score (0: it does not score), in the order of the default profile.
DEFAULT_PLUGINS: Final[dict[str, int]] = {
    name: plugin.weight for name, plugin in IN_TREE_PLUGINS.items()
}

#: Plugin -> the struct of its arguments; other plugins get them as they are written.
ARGS_TYPES: Final[dict[str, type[PluginArgs]]] = {
    name: plugin.args for name, plugin in sorted(IN_TREE_PLUGINS.items()) if plugin.args is not None
}

#: Default plugin -> the feature gate that takes it out of the default profile when it is off.
PLUGIN_GATES: Final = {
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
    "DynamicResources": "DynamicResourceAllocation",
}

#: Plugins that may be named but do nothing while their feature gate is off, as by default.
_GATED_POINTS: Final = {
    "GangScheduling": "pre_enqueue permit",
    "TopologyPlacementGenerator": "placement_generate",
    "PodGroupPodsCount": "placement_score",
}
GATED_PLUGINS: Final = frozenset(_GATED_POINTS)

#: Plugin -> the extension points where a configuration may enable it.
POINTS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(points.split())
    for name, points in {
        **{name: plugin.points for name, plugin in IN_TREE_PLUGINS.items()},
        **_GATED_POINTS,
    }.items()
}

#: The filter plugins of the default profile, in order.
DEFAULT_FILTER_ORDER: Final = tuple(name for name in IN_TREE_PLUGINS if "filter" in POINTS[name])
