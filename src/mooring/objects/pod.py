"""The Pod kind, with all fields that a scheduler reads."""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from mooring.objects.meta import (
    ApiStruct,
    Int32,
    Int64,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    ResourceList,
    ResourceRequirements,
)
from mooring.objects.storage import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    CSIVolume,
    GCEPersistentDisk,
    PersistentVolumeClaimTemplate,
    PortworxVolume,
    VsphereVolume,
)

#: Schedules the pods that name no scheduler.
DEFAULT_SCHEDULER_NAME = "default-scheduler"

#: The phases of a pod that will not run any more.
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})

#: The annotation of the API server's copy of a static pod, which no scheduler decides.
MIRROR = "kubernetes.io/config.mirror"


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A port of a container; with ``host_port`` it takes that port of the node too."""

    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = field(default="", name="hostIP")


class ContainerRestartRule(ApiStruct, frozen=True, kw_only=True):
    """A rule for the exit of a container."""

    action: str = ""


class Container(ApiStruct, frozen=True, kw_only=True):
    """A container; an init container with ``restart_policy`` "Always" is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PersistentVolumeClaimVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume that refers to a claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class EphemeralVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume whose claim is created for the pod and deleted with it."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume with the content of an image."""

    reference: str = ""
    pull_policy: str = ""


class Volume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a pod; kinds that no scheduler reads (configMap ...) have only a name."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    image: ImageVolume | None = None


class PreferredSchedulingTerm(ApiStruct, frozen=True, kw_only=True):
    """Preferred nodes, with a weight (1 to 100)."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The node affinity of a pod: required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A term of pod (anti-)affinity; pods are near with the same value of ``topology_key``."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A preferred term of pod (anti-)affinity, with a weight (1 to 100)."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True, kw_only=True):
    """Pod affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(ApiStruct, frozen=True, kw_only=True):
    """Pod anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """The affinity of a pod: to nodes, and to other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """A toleration of taints; an empty field matches all values."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True, kw_only=True):
    """Constraint on the spread of the selected pods over the values of ``topology_key``."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """A reason why a pod must not be scheduled yet."""

    name: str = ""


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim for devices: one that exists, or one to be made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(ApiStruct, frozen=True, kw_only=True):
    """The group of pods that are placed together or not at all."""

    pod_group_name: str | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a pod."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    termination_grace_period_seconds: Int64 | None = None
    node_selector: dict[str, str] = field(default_factory=dict)
    node_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = field(default_factory=dict)
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(ApiStruct, frozen=True, kw_only=True):
    """One observation about a pod; ``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a container: ``allocated_resources`` granted, ``resources`` in force."""

    name: str = ""
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The claim that was made for an entry of ``spec.resourceClaims``; no name = none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct, frozen=True, kw_only=True):
    """The request of a claim that stands for a container's extended resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The claim that was made for the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a pod."""

    observed_generation: Int64 = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class Pod(ApiStruct, frozen=True, kw_only=True):
    """One or more containers that are placed together: the thing that gets scheduled."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Pod")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def unbound(pod: Pod) -> Pod:
    """Returns a pod as it was before it was bound."""
    status = replace(pod.status, phase="Pending", nominated_node_name="", start_time=None)
    return replace(pod, spec=replace(pod.spec, node_name=""), status=status)
