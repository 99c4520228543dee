"""A configuration whose preemption tries every node, as in recordings of kube-scheduler."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.config import KubeSchedulerConfiguration, Profile
from mooring.config.types import DefaultPreemptionArgs, PluginConfig

PLUGIN = "DefaultPreemption"


def with_all_candidate_nodes(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration with all nodes as candidates of DefaultPreemption."""
    return replace(config, profiles=tuple(map(_with_all_candidates, config.profiles)))


def _with_all_candidates(profile: Profile) -> Profile:
    args = profile.args(PLUGIN)
    if not isinstance(args, DefaultPreemptionArgs):
        args = DefaultPreemptionArgs()
    others = [
        plugin_config for plugin_config in profile.plugin_config if plugin_config.name != PLUGIN
    ]
    complete = PluginConfig(name=PLUGIN, args=replace(args, min_candidate_nodes_percentage=100))
    return replace(profile, plugin_config=(*others, complete))
