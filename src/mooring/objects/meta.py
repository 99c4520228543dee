"""The parts that Kubernetes objects share: metadata, references, selectors and small kinds.

All structs of this package follow one pattern. An attribute is the JSON name in snake_case, the
default of every field is Go's zero value, lists are tuples, and Go pointers are ``X | None``.
Structs are frozen: ``msgspec.structs.replace`` makes a changed copy. Fields that no scheduler reads
are omitted; decoding ignores them.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: The texts that ``Quantity.from_wire`` accepts, so that an invalid quantity is detected when its
#: object is decoded. Upstream refuses "Pi", "Ei" and e-9 without any digit.
_QUANTITY = (
    r"\A *+(?=\S)[+-]?(?:"
    r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,18})"
    r"|\.?(?:[numkMGTPE]|[KMGT]i)?) *+\Z"
)

#: A quantity in JSON: a string, or a bare number. For fields of kinds with few objects; those of a
#: ``ResourceList`` are validated by ``quantity_check``.
RawQuantity: TypeAlias = Annotated[str, msgspec.Meta(pattern=_QUANTITY)] | int | float

#: Any JSON value, passed through unchanged.
AnyJson: TypeAlias = Any

#: Resource name -> quantity, as in ``requests``, ``limits``, ``capacity`` and ``allocatable``.
#: Without the pattern, which would double the time to decode a pod.
ResourceList: TypeAlias = dict[str, str | int | float]


class ApiStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True
):
    """The base of every struct that is read from or written to an API server.

    ``gc=False`` is safe because these are trees, without reference cycles.
    """


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """The object that owns another one; ``controller`` marks the one that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """Object metadata. Times are RFC 3339 text in UTC, unchanged from the API server."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class KubernetesObject(Protocol):
    """An object with API version, kind and metadata, as all kinds of this package."""

    @property
    def api_version(self) -> str:
        """The value of ``apiVersion``."""
        ...

    @property
    def kind(self) -> str:
        """The value of ``kind``."""
        ...

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


def key(obj: KubernetesObject) -> str:
    """Returns the key of an object within its kind: ``namespace/name``, or ``name``.

    Example:
        >>> from mooring.objects import ObjectMeta, Pod
        >>> key(Pod(metadata=ObjectMeta(name="web-0", namespace="shop")))
        'shop/web-0'
    """
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Returns the owner that manages the object, or None."""
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One condition on a label: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """A selector of labels: all conditions must hold. ``selectors`` compiles it."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One condition on a node: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Conditions that must all hold; a term without any selects no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    """A pointer to an object of any kind."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One observation about an object; ``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Namespace(ApiStruct, frozen=True, kw_only=True):
    """A namespace; namespace selectors match its labels."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    kind: str = msgspec.field(default_factory=lambda: "Namespace")
    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(ApiStruct, frozen=True, kw_only=True):
    """A named priority for pods."""

    api_version: str = msgspec.field(default_factory=lambda: "scheduling.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "PriorityClass")
    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class RuntimeClass(ApiStruct, frozen=True, kw_only=True):
    """The runtime of containers; it gives its pods an overhead, a node selector and tolerations."""

    api_version: str = msgspec.field(default_factory=lambda: "node.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "RuntimeClass")
    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: dict[str, Any] | None = None
    scheduling: dict[str, Any] | None = None


class LeaseSpec(ApiStruct, frozen=True, kw_only=True):
    """The holder and times of a lease; times are RFC 3339 text with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(ApiStruct, frozen=True, kw_only=True):
    """A lock in the API server, as leader election uses it."""

    api_version: str = msgspec.field(default_factory=lambda: "coordination.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "Lease")
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class LeaseCandidateSpec(ApiStruct, frozen=True, kw_only=True):
    """The lease that a process could hold, and its versions; times as in ``LeaseSpec``."""

    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(ApiStruct, frozen=True, kw_only=True):
    """A process that could lead, from which kube-apiserver chooses the holder of a lease."""

    api_version: str = msgspec.field(default_factory=lambda: "coordination.k8s.io/v1beta1")
    kind: str = msgspec.field(default_factory=lambda: "LeaseCandidate")
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseCandidateSpec = LeaseCandidateSpec()


class EventSeries(ApiStruct, frozen=True, kw_only=True):
    """The number of repetitions of an event, and the time of the last one."""

    count: Int32 = 0
    last_observed_time: str | None = None


class Event(ApiStruct, frozen=True, kw_only=True):
    """An event about ``regarding``, shown by ``kubectl describe``."""

    api_version: str = msgspec.field(default_factory=lambda: "events.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "Event")
    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class ResourceClaimUse(ApiStruct, frozen=True, kw_only=True):
    """A container's use of one of its pod's ``resourceClaims``, or of one request in it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """The requests and limits of a container, a pod or a volume claim."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()
