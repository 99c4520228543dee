"""Validates a configuration as kube-scheduler does; reports all errors at once.

The texts are upstream's. Arguments of plugins have their own page: ``validation_args``.

Source: pkg/scheduler/apis/config/validation/validation.go, component-base config/validation.
Differs: what upstream finds only when it starts to work is found here (arguments of
NodeResourcesFit, removed plugins under multiPoint, a renewDeadline too short for a retry).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mooring.config.field_errors import FieldError
from mooring.config.plugin_defaults import POINTS
from mooring.config.plugin_sets import camel, names_enabled, not_implemented, registered_twice
from mooring.config.types import (
    API_VERSION,
    EXTENSION_POINTS,
    ClientConnection,
    DynamicResourcesArgs,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    Plugins,
    Profile,
    VolumeBindingArgs,
)
from mooring.config.validation.plugin_args import SHAPE_PROBLEM, check_args, check_shape
from mooring.objects.files.documents import Path
from mooring.objects.names import label_key_problem
from mooring.objects.requests import is_extended_resource_name

#: Plugins that v1beta3 still had.
REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")

_DURATIONS = (
    ("leaseDuration", "lease_duration_s"),
    ("renewDeadline", "renew_deadline_s"),
    ("retryPeriod", "retry_period_s"),
)
_TLS_DATA = (("certData", "cert_data"), ("keyData", "key_data"), ("caData", "ca_data"))
#: client-go renews only if the deadline leaves room for a retry that comes this much later.
_JITTER_FACTOR = 1.2
#: Upstream's texts about time limits of DynamicResources.
FILTER_TIMEOUT_PROBLEM = "DRASchedulingFilterTimeout feature gate is disabled"
BINDING_TIMEOUT_PROBLEM = (
    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
)
#: kube-scheduler finds this only when it starts to elect.
RETRY_PROBLEM = f"must be greater than retryPeriod times {_JITTER_FACTOR}"


def check(
    config: KubeSchedulerConfiguration,
    *,
    written: KubeSchedulerConfiguration,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> list[FieldError]:
    """Returns the errors of a configuration with defaults.

    Args:
        config: The complete configuration.
        written: As the file has it: merging moves plugins, and paths are those of the file.
        gates: The feature gates whose value is not the default.
    """
    errors = [
        *_client_connection(config.client_connection),
        *_leader_election(config.leader_election),
    ]
    if config.parallelism <= 0:
        problem = "should be an integer value greater than zero"
        errors.append(FieldError(("parallelism",), problem, config.parallelism))
    names: set[str] = set()
    # A file without profiles has the default one.
    as_written = written.profiles or config.profiles
    for i, profile in enumerate(config.profiles):
        errors.extend(_profile(profile, as_written[i], ("profiles", i)))
        name = profile.scheduler_name or ""
        if name in names:
            errors.append(FieldError(("profiles", i, "schedulerName"), "Duplicate value", name))
        names.add(name)
    for i, profile in enumerate(written.profiles):
        errors.extend(_in_tree_plugins(profile.plugins, ("profiles", i, "plugins")))
    errors.extend(_common_queue_sort(config.profiles))
    errors.extend(_percentage(config.percentage_of_nodes_to_score, ()))
    errors.extend(_backoff(config))
    errors.extend(_extenders(config.extenders))
    errors.extend(_ignored_resources(config))
    if gates.get("StorageCapacityScoring"):
        errors = [error for error in errors if error.problem != SHAPE_PROBLEM]
        errors.extend(_storage_shapes(config.profiles))
    errors.extend(_device_timeouts(config.profiles, gates))
    return errors


def _device_timeouts(
    profiles: tuple[Profile, ...], gates: Mapping[str, bool]
) -> Iterator[FieldError]:
    """Yields time limits of devices whose feature gates are off."""
    has_filter_timeout = gates.get("DRASchedulerFilterTimeout", True)
    has_conditions = gates.get("DRADeviceBindingConditions", True)
    has_status = gates.get("DRAResourceClaimDeviceStatus", True)
    for i, profile in enumerate(profiles):
        for j, entry in enumerate(profile.plugin_config):
            if not isinstance(entry.args, DynamicResourcesArgs):
                continue
            path = ("profiles", i, "pluginConfig", j, "args")
            if entry.args.filter_timeout_s is not None and not has_filter_timeout:
                yield FieldError((*path, "filterTimeout"), FILTER_TIMEOUT_PROBLEM)
            if entry.args.binding_timeout_s is not None and not (has_conditions and has_status):
                yield FieldError((*path, "bindingTimeout"), BINDING_TIMEOUT_PROBLEM)


def _storage_shapes(profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    for i, profile in enumerate(profiles):
        for j, entry in enumerate(profile.plugin_config):
            if isinstance(entry.args, VolumeBindingArgs):
                path = ("profiles", i, "pluginConfig", j, "args", "shape")
                yield from check_shape(entry.args.shape or (), path)


def _client_connection(client: ClientConnection) -> Iterator[FieldError]:
    if client.burst < 0:
        yield FieldError(("clientConnection", "burst"), "must be non-negative", client.burst)


def _leader_election(election: LeaderElection) -> Iterator[FieldError]:
    """Yields the errors of leader election; none if ``leaderElect`` is off, as upstream."""
    if not election.leader_elect:
        return
    at = "leaderElection"
    for name, attribute in _DURATIONS:
        if getattr(election, attribute) <= 0:
            yield FieldError((at, name), "must be greater than zero", getattr(election, attribute))
    if election.lease_duration_s <= election.renew_deadline_s:
        problem = "LeaseDuration must be greater than RenewDeadline"
        yield FieldError((at, "leaseDuration"), problem, election.lease_duration_s)
    if election.renew_deadline_s <= election.retry_period_s * _JITTER_FACTOR:
        yield FieldError((at, "renewDeadline"), RETRY_PROBLEM, election.renew_deadline_s)
    for name, attribute in (
        ("resourceName", "resource_name"),
        ("resourceNamespace", "resource_namespace"),
    ):
        if not getattr(election, attribute):
            yield FieldError((at, name), "is required")
    if election.resource_lock != "leases":
        problem = 'resourceLock value must be "leases"'
        yield FieldError((at, "resourceLock"), problem, election.resource_lock)


def _percentage(percentage: int | None, path: Path) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield FieldError(
            (*path, "percentageOfNodesToScore"), "not in valid range [0-100]", percentage
        )


def _backoff(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield FieldError(("podInitialBackoffSeconds",), "must be greater than 0", initial)
    if longest < initial:
        problem = "must be greater than or equal to PodInitialBackoffSeconds"
        yield FieldError(("podMaxBackoffSeconds",), problem, longest)


def _profile(profile: Profile, written: Profile, path: Path) -> Iterator[FieldError]:
    if not profile.scheduler_name:
        yield FieldError((*path, "schedulerName"), "is required")
    yield from _percentage(profile.percentage_of_nodes_to_score, path)
    yield from _removed_plugins(written.plugins, (*path, "plugins"))
    enabled = names_enabled(profile.plugins)
    names: set[str] = set()
    for i, entry in enumerate(profile.plugin_config):
        here = (*path, "pluginConfig", i)
        if entry.name in names:
            yield FieldError(here, "Duplicate value", entry.name)
        names.add(entry.name)
        if entry.name in REMOVED_PLUGINS:
            yield FieldError(here, _removed_text(), entry.name)
        elif entry.name != "NodeResourcesFit" or entry.name in enabled:
            yield from check_args(entry.args, (*here, "args"))


def _removed_plugins(plugins: Plugins, path: Path) -> Iterator[FieldError]:
    for point in Plugins.__struct_fields__:
        for i, entry in enumerate(plugins.at(point).enabled):
            if entry.name in REMOVED_PLUGINS:
                yield FieldError((*path, camel(point), "enabled", i), _removed_text(), entry.name)


def _in_tree_plugins(plugins: Plugins, path: Path) -> Iterator[FieldError]:
    """Plugins at points where they have nothing to do, and those that are enabled twice.

    Plugins that are not in-tree are checked when they are loaded.
    """
    for point in (*EXTENSION_POINTS, "placement_generate", "placement_score"):
        names: set[str] = set()
        for i, entry in enumerate(plugins.at(point).enabled):
            here = (*path, camel(point), "enabled", i)
            if point not in POINTS.get(entry.name, (point,)):
                yield FieldError(here, not_implemented(entry.name, point))
            elif entry.name in names and point != "queue_sort":
                yield FieldError(here, registered_twice(entry.name, point))
            names.add(entry.name)


def _ignored_resources(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    """Yields an error if extenders manage resources that no NodeResourcesFit ignores."""
    expected = any(
        resource.ignored_by_scheduler
        for extender in config.extenders
        for resource in extender.managed_resources
    )
    for i, profile in enumerate(config.profiles):
        if expected and profile.args("NodeResourcesFit") is None:
            problem = "can't find NodeResourcesFitArgs in plugin config: an extender's resource"
            yield FieldError(("profiles", i, "plugins"), problem + " is ignoredByScheduler")


def _removed_text() -> str:
    return (
        f'was invalid in version "{API_VERSION.rpartition("/")[2]}" '
        f'(KubeSchedulerConfiguration is version "{API_VERSION}")'
    )


def _common_queue_sort(profiles: tuple[Profile, ...]) -> Iterator[FieldError]:
    """Yields an error if the profiles do not sort their common queue alike."""
    first = profiles[0]
    enabled = first.plugins.queue_sort.enabled
    if len(enabled) > 1:
        path = ("profiles", 0, "plugins", "queueSort", "Enabled")  # upstream writes it so
        yield FieldError(path, "only one queue sort plugin can be enabled", len(enabled))
    name = enabled[0].name if enabled else None
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first.plugins.queue_sort:
            yield FieldError(
                ("profiles", i, "plugins", "queueSort"), "must be the same for all profiles"
            )
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != first.args(entry.name):
                problem = "queueSort must be the same for all profiles"
                yield FieldError(("profiles", i, "pluginConfig", "args"), problem)  # as upstream


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[FieldError]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = ("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            problem = "must have a positive weight applied to it"
            yield FieldError((*path, "weight"), problem, extender.weight)
        yield from _extender_trust(extender, path)
        for j, resource in enumerate(extender.managed_resources):
            here = (*path, "managedResources", j, "name")
            problem = label_key_problem(resource.name)
            if not problem and not is_extended_resource_name(resource.name):
                problem = "is an invalid extended resource name"
            if problem:
                yield FieldError(here, problem, resource.name)
            if resource.name in managed:
                yield FieldError(here, "duplicate extender managed resource name", resource.name)
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        plugins = f"found {binders} extenders implementing bind"
        yield FieldError(("extenders",), "only one extender can implement bind", plugins)


def _extender_trust(extender: Extender, path: Path) -> Iterator[FieldError]:
    tls = extender.tls_config
    for name, attribute in _TLS_DATA if tls else ():
        try:
            b64decode(getattr(tls, attribute), validate=True)
        except ValueError:
            yield FieldError((*path, "tlsConfig", name), "is not base64")
    if tls and tls.insecure and (tls.ca_file or tls.ca_data):
        problem = "specifying a root certificates file with the insecure flag is not allowed"
        yield FieldError((*path, "tlsConfig", "insecure"), problem)
