"""Defaults of a configuration beyond those of single fields.

Source: pkg/scheduler/apis/config/v1/defaults.go, and component-base's defaults of leader election.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.plugin_sets import default_plugins, merge, names_enabled
from mooring.config.types import (
    CPU_AND_MEMORY,
    DEFAULT_SCHEDULER_NAME,
    ClientConnection,
    DynamicResourcesArgs,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PluginConfig,
    PodTopologySpreadArgs,
    Profile,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

Struct = TypeVar("Struct", bound=msgspec.Struct)

#: Here an empty text or a zero stands for the default, as in Go, where absence looks the same.
_ZERO_MEANS_DEFAULT: dict[type[msgspec.Struct], tuple[str, ...]] = {
    ClientConnection: ("content_type", "qps", "burst"),
    LeaderElection: (
        "lease_duration_s",
        "renew_deadline_s",
        "retry_period_s",
        "resource_lock",
        "resource_name",
        "resource_namespace",
    ),
    Extender: ("http_timeout_s",),
    PodTopologySpreadArgs: ("defaulting_type",),
    NodeResourcesBalancedAllocationArgs: ("resources",),
}


_NO_GATES: Final[Mapping[str, bool]] = MappingProxyType({})


def with_defaults(
    written: KubeSchedulerConfiguration, *, gates: Mapping[str, bool] = _NO_GATES
) -> KubeSchedulerConfiguration:
    """Returns the configuration with everything filled in that it left out.

    ``gates`` are the feature gates whose value is not the default.
    """
    profiles = written.profiles or (Profile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = written.enable_contention_profiling
    return replace(
        written,
        leader_election=_filled(written.leader_election),
        client_connection=_filled(written.client_connection),
        profiles=tuple(_profile(profile, gates) for profile in profiles),
        extenders=tuple(_filled(extender) for extender in written.extenders),
        enable_contention_profiling=written.enable_profiling if contention is None else contention,
    )


def with_ignored_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Returns the configuration with NodeResourcesFit ignoring resources of extenders.

    As upstream has it, the file's own ``ignoredResources`` are replaced then, not added to.

    Source: pkg/scheduler/scheduler.go (buildExtenders).
    """
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    return replace(
        config, profiles=tuple(_ignoring(profile, ignored) for profile in config.profiles)
    )


def _ignoring(profile: Profile, ignored: tuple[str, ...]) -> Profile:
    entries = tuple(
        replace(entry, args=replace(entry.args, ignored_resources=ignored))
        if isinstance(entry.args, NodeResourcesFitArgs)
        else entry
        for entry in profile.plugin_config
    )
    return replace(profile, plugin_config=entries)


def _profile(profile: Profile, gates: Mapping[str, bool]) -> Profile:
    plugins = merge(default_plugins(gates), profile.plugins)
    configured = tuple(_plugin_config(entry, gates) for entry in profile.plugin_config)
    names = {entry.name for entry in configured}
    added = tuple(
        PluginConfig(name=name, args=_default_args(name, gates))
        for name in sorted(names_enabled(plugins))
        if name in ARGS_TYPES and name not in names
    )
    return replace(profile, plugins=plugins, plugin_config=configured + added)


#: The default time limits of DynamicResources.
FILTER_TIMEOUT_S: Final = 10.0
BINDING_TIMEOUT_S: Final = 600.0

#: How VolumeBinding scores the utilization of storage if the file does not say.
_STORAGE_SHAPE: Final = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def _default_args(name: str, gates: Mapping[str, bool]) -> PluginArgs:
    args = ARGS_TYPES[name]()
    if isinstance(args, VolumeBindingArgs) and gates.get("StorageCapacityScoring"):
        return replace(args, shape=_STORAGE_SHAPE)
    if isinstance(args, DynamicResourcesArgs):
        return _device_timeouts(args, gates)
    return args


def _device_timeouts(args: DynamicResourcesArgs, gates: Mapping[str, bool]) -> DynamicResourcesArgs:
    """Returns the arguments with the time limits whose feature gates are on."""
    if args.filter_timeout_s is None and gates.get("DRASchedulerFilterTimeout", True):
        args = replace(args, filter_timeout_s=FILTER_TIMEOUT_S)
    has_conditions = gates.get("DRADeviceBindingConditions", True) and gates.get(
        "DRAResourceClaimDeviceStatus", True
    )
    if args.binding_timeout_s is None and has_conditions:
        args = replace(args, binding_timeout_s=BINDING_TIMEOUT_S)
    return args


def _plugin_config(entry: PluginConfig, gates: Mapping[str, bool]) -> PluginConfig:
    if entry.name not in ARGS_TYPES:
        return entry
    args = _filled(entry.args)
    if isinstance(args, VolumeBindingArgs) and not args.shape:
        shape = _STORAGE_SHAPE if gates.get("StorageCapacityScoring") else args.shape
        return replace(entry, args=replace(args, shape=shape))
    if isinstance(args, NodeResourcesFitArgs):
        strategy = args.scoring_strategy
        resources = tuple(map(_weighted, strategy.resources or CPU_AND_MEMORY))
        args = replace(args, scoring_strategy=replace(strategy, resources=resources))
    elif isinstance(args, DynamicResourcesArgs):
        args = _device_timeouts(args, gates)
    elif isinstance(args, NodeResourcesBalancedAllocationArgs):
        args = replace(args, resources=tuple(map(_weighted, args.resources)))
    return replace(entry, args=args)


def _weighted(resource: ResourceSpec) -> ResourceSpec:
    return resource if resource.weight else replace(resource, weight=1)


def _filled(written: Struct) -> Struct:
    """Returns a struct with zeros replaced where they stand for the default."""
    fields = _ZERO_MEANS_DEFAULT.get(type(written), ())
    empty = [name for name in fields if not getattr(written, name)]
    if not empty:
        return written
    default = type(written)()
    return replace(written, **{name: getattr(default, name) for name in empty})
