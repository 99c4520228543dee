"""KubeSchedulerConfiguration v1 as structs: what a file says, complete with its defaults.

An attribute is the file's name in snake_case. Durations are float seconds here and Go's text in
files. A field's default is what a file gets that leaves it out; ``defaults`` adds what depends on
other fields, or what a written zero stands for.

Source: k8s.io/kube-scheduler config/v1/types.go and types_pluginargs.go; defaults.go beside them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from mooring.objects.pod import DEFAULT_SCHEDULER_NAME as DEFAULT_SCHEDULER_NAME
from mooring.objects.pod import NodeAffinity, TopologySpreadConstraint

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: Marks a duration: text in a file, seconds here.
DURATION = "duration"
Seconds: TypeAlias = Annotated[float, msgspec.Meta(extra={DURATION: True})]


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of everything a configuration file may hold."""


# ---------------------------------------------------------------- plugins


class PluginEntry(Config, frozen=True, kw_only=True):
    """A plugin in a list; ``weight`` counts for scoring only, and 0 means 1."""

    name: str
    weight: Int32 = 0


class PluginSet(Config, frozen=True, kw_only=True):
    """Plugins enabled and disabled at one extension point; "*" in ``disabled`` = all defaults."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()

    def disables(self, name: str) -> bool:
        """Returns whether a plugin of this name, or every one, is switched off."""
        return any(entry.name in (name, "*") for entry in self.disabled)


class Plugins(Config, frozen=True, kw_only=True):
    """A plugin set for each extension point, and one for all of them (``multi_point``)."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Returns the set of one extension point, by its name in snake_case."""
        hash_value: PluginSet = getattr(self, point)
        return hash_value


#: Extension points in the order of a cycle, in snake_case.
EXTENSION_POINTS = tuple(
    name
    for name in Plugins.__struct_fields__
    if name not in ("multi_point", "placement_generate", "placement_score")
)


# ---------------------------------------------------------------- plugin arguments


class ResourceSpec(Config, frozen=True, kw_only=True):
    """A resource and how much it counts in a score."""

    name: str = ""
    weight: Int64 = 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Config, frozen=True, kw_only=True):
    """A point of a scoring curve: utilization in percent, score 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatio(Config, frozen=True, kw_only=True):
    """A scoring curve; between its points the score is interpolated."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Config, frozen=True, kw_only=True):
    """Scoring of NodeResourcesFit: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class DefaultPreemptionArgs(Config, frozen=True, kw_only=True):
    """Number of candidates of a dry run: the larger of a percentage and a number of nodes."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(Config, frozen=True, kw_only=True):
    """Time limits of device allocation; None without the feature gates that they belong to.

    Defaulting sets them to 10 s and 600 s.
    """

    filter_timeout_s: Seconds | None = msgspec.field(default=None, name="filterTimeout")
    binding_timeout_s: Seconds | None = msgspec.field(default=None, name="bindingTimeout")


class InterPodAffinityArgs(Config, frozen=True, kw_only=True):
    """Weight of other pods' required affinity in scores, and whether to ignore preferred terms."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Config, frozen=True, kw_only=True):
    """A node affinity that every pod of the profile gets besides its own."""

    added_affinity: NodeAffinity | None = None


class NodeResourcesFitArgs(Config, frozen=True, kw_only=True):
    """Resources that filtering leaves out, and how scoring goes."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(
        type="LeastAllocated", resources=CPU_AND_MEMORY
    )


class NodeResourcesBalancedAllocationArgs(Config, frozen=True, kw_only=True):
    """The resources whose use shall be balanced."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class PodTopologySpreadArgs(Config, frozen=True, kw_only=True):
    """Constraints for pods without their own: the system's, or those of the list."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(Config, frozen=True, kw_only=True):
    """Timeout of volume binding; ``shape`` needs a feature gate that is off."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


PluginArgs: TypeAlias = (
    DefaultPreemptionArgs
    | DynamicResourcesArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesFitArgs
    | NodeResourcesBalancedAllocationArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
)


class PluginConfig(Config, frozen=True, kw_only=True):
    """A plugin's arguments: a struct for ``plugin_defaults.ARGS_TYPES``, else as written."""

    name: str
    args: Any = None


# ---------------------------------------------------------------- the rest


class Profile(Config, frozen=True, kw_only=True):
    """A schedulerName with its plugins and their arguments."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, name: str) -> Any:
        """Returns the arguments of a plugin; None if it has none."""
        return next((entry.args for entry in self.plugin_config if entry.name == name), None)


class ExtenderManagedResource(Config, frozen=True, kw_only=True):
    """A resource that an extender takes care of."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Config, frozen=True, kw_only=True):
    """TLS of an extender: trusted CA and client certificate; ``*_data`` is PEM in base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class Extender(Config, frozen=True, kw_only=True):
    """An HTTP service that is asked besides the plugins."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout_s: Seconds = msgspec.field(default=5.0, name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class LeaderElection(Config, frozen=True, kw_only=True):
    """Leader election of several schedulers: lease and durations."""

    leader_elect: bool = True
    lease_duration_s: Seconds = msgspec.field(default=15.0, name="leaseDuration")
    renew_deadline_s: Seconds = msgspec.field(default=10.0, name="renewDeadline")
    retry_period_s: Seconds = msgspec.field(default=2.0, name="retryPeriod")
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Config, frozen=True, kw_only=True):
    """Connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class KubeSchedulerConfiguration(Config, frozen=True, kw_only=True):
    """A configuration file of the scheduler.

    ``percentage_of_nodes_to_score``: None = all nodes; 0 = kube-scheduler's adaptive number.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def profile(self, scheduler_name: str) -> Profile | None:
        """Returns the profile of a schedulerName; None = pods of another scheduler."""
        for profile in self.profiles:
            if profile.scheduler_name == scheduler_name:
                return profile
        return None
