"""Profiles: one Framework for each schedulerName of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mooring.clock import Clock
from mooring.config import KubeSchedulerConfiguration, with_ignored_resources
from mooring.errors import ConfigError
from mooring.framework import Framework, check_plugin
from mooring.framework.interface import Handle
from mooring.framework.runtime.opportunistic_batch import (
    SIGNING_POINTS,
    OpportunisticBatch,
    can_batch,
)
from mooring.framework.runtime.registry import Registry, build, load_plugin
from mooring.framework.waiting_pods import WaitingPods
from mooring.plugins import in_tree

#: SchedulerName -> Framework.
Profiles = Mapping[str, Framework]


def load_profiles(
    config: KubeSchedulerConfiguration,
    handle: Handle,
    *,
    clock: Clock,
    waiting: WaitingPods,
    plugins: Sequence[str | Any] = (),
    cache_results: bool = True,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> dict[str, Framework]:
    """Returns the frameworks of a configuration.

    Args:
        config: With defaults filled in.
        handle: Passed to the plugins.
        clock: Measures the plugins' durations.
        waiting: The pods that wait in Permit, of all profiles.
        plugins: Further plugins for every profile: objects, or ``module:attribute``.
        cache_results: See ``Framework``.
        gates: The feature gates whose value is not the default.

    Raises:
        ConfigError: a plugin is unknown, cannot be loaded, or breaks the contract.
    """
    registry = Registry(in_tree(gates))
    extra = [
        load_plugin(plugin, handle) if isinstance(plugin, str) else check_plugin(plugin)
        for plugin in plugins
    ]
    frameworks = {}
    for i, profile in enumerate(with_ignored_resources(config).profiles):
        own = profile.percentage_of_nodes_to_score
        percentage = own if own is not None else config.percentage_of_nodes_to_score
        try:
            frameworks[profile.scheduler_name or ""] = build(
                profile,
                registry,
                handle,
                clock=clock,
                extra=extra,
                percentage_of_nodes_to_score=percentage,
                cache_results=cache_results,
                waiting=waiting,
            )
        except ConfigError as error:
            raise _in_profile(error, i) from error
    if gates.get("OpportunisticBatching", True):
        for framework in frameworks.values():
            _batch_pods(framework, clock)
    return frameworks


def _batch_pods(framework: Framework, clock: Clock) -> None:
    """Turns opportunistic batching on, if all plugins of the profile can sign pods."""
    framework.has_batching_gate = True
    named = {plugin.name: plugin for point in SIGNING_POINTS for plugin in framework.plugins(point)}
    plugins = list(named.values())
    if can_batch(plugins) and framework.tie_break is None:
        framework.batch = OpportunisticBatch(plugins, clock, framework.fragment)


def _in_profile(error: ConfigError, index: int) -> ConfigError:
    """Returns the error with the path of the profile, if it is about a plugin of the profile."""
    path = error.path or ""
    if path.startswith("plugins."):
        path = f"profiles[{index}].{path}"
    return ConfigError(
        error.problem, path=path or None, value=error.value, suggestion=error.suggestion
    )
