"""Services, workload controllers and disruption budgets, as the scheduler reads them.

A scheduler reads them for two things: the default spreading of the pods that they select, and how
many pods may be disrupted.
"""

from __future__ import annotations

from msgspec import field

from mooring.objects.meta import ApiStruct, Condition, Int32, Int64, LabelSelector, ObjectMeta


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The pods of a service; no selector selects no pod."""

    selector: dict[str, str] = field(default_factory=dict)


class Service(ApiStruct, frozen=True, kw_only=True):
    """A stable address for a set of pods."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Service")
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """The number of replicas and the selector of their pods."""

    replicas: Int32 | None = None
    selector: dict[str, str] = field(default_factory=dict)


class ReplicationController(ApiStruct, frozen=True, kw_only=True):
    """The oldest way to keep a number of equal pods."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "ReplicationController")
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(ApiStruct, frozen=True, kw_only=True):
    """The number of replicas and the selector of their pods."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct, frozen=True, kw_only=True):
    """Keeps a number of equal pods; mostly owned by a Deployment."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "ReplicaSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(ApiStruct, frozen=True, kw_only=True):
    """The number of replicas and the selector of their pods."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    service_name: str = ""


class StatefulSet(ApiStruct, frozen=True, kw_only=True):
    """Keeps a number of pods with names and volumes of their own."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "StatefulSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """The number or percentage of selected pods that must stay available."""

    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """Number of allowed disruptions; ``disrupted_pods`` are being evicted (pod name -> time)."""

    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str | None] = field(default_factory=dict)
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    """A limit on the concurrent disruptions of a set of pods."""

    api_version: str = field(default_factory=lambda: "policy/v1")
    kind: str = field(default_factory=lambda: "PodDisruptionBudget")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
