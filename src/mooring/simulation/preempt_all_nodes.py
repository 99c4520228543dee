"""A configuration whose preemption tries every node, as kube-scheduler did for its recordings."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.config import KubeSchedulerConfiguration, Profile
from mooring.config.types import DefaultPreemptionArgs, PluginConfig

PLUGIN = "DefaultPreemption"


def preempting_everywhere(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the same configuration, with all nodes as candidates of DefaultPreemption."""
    return replace(config, profiles=tuple(map(_complete, config.profiles)))


def _complete(profile: Profile) -> Profile:
    args = profile.args(PLUGIN)
    if not isinstance(args, DefaultPreemptionArgs):
        args = DefaultPreemptionArgs()
    others = [each for each in profile.plugin_config if each.name != PLUGIN]
    complete = PluginConfig(name=PLUGIN, args=replace(args, min_candidate_nodes_percentage=100))
    return replace(profile, plugin_config=(*others, complete))
