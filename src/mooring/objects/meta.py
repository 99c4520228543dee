"""What every Kubernetes object shares: metadata, references, and the parts that several kinds use.

All structs of this package follow one pattern. An attribute is the JSON name in snake_case, every
field has the default that Go's zero value stands for, lists are tuples, and what Go holds behind a
pointer is ``X | None``. Structs are frozen: ``msgspec.structs.replace`` makes a changed copy.
Fields that no scheduler reads are not here; decoding ignores them.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: What ``Quantity.from_wire`` can read, so that a bad quantity is found when its object is decoded
#: and not in the middle of a decision. Upstream refuses "Pi", "Ei" and e-9 without any digit.
_QUANTITY = (
    r"\A\s*+(?=\S)[+-]?(?:"
    r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,18})"
    r"|\.?(?:[numkMGTPE]|[KMGT]i)?)\s*+\Z"
)

#: A quantity as it stands on the wire: JSON allows a bare number where a string is usual. For
#: fields of kinds that are few; those of a ``ResourceList`` are checked by ``quantity_check``.
RawQuantity: TypeAlias = Annotated[str, msgspec.Meta(pattern=_QUANTITY)] | int | float

#: Anything that JSON can say; handed through as it came.
AnyJson: TypeAlias = Any

#: Resource name -> quantity, as in ``requests``, ``limits``, ``capacity`` and ``allocatable``.
#: Without the pattern, which takes the decoder as long as all the rest of a pod.
ResourceList: TypeAlias = dict[str, str | int | float]


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """The base of every struct that is read from or written to an API server.

    ``gc=False`` is safe because these are trees: nothing in them points back at its owner.
    """


class OwnerReference(Wire, frozen=True, kw_only=True):
    """The object that owns another one; ``controller`` marks the one that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """Who an object is. Times are RFC 3339 text in UTC, exactly as the API server wrote them."""

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
    """Anything with an API version, a kind and metadata: what all kinds of this package are."""

    @property
    def api_version(self) -> str:
        """As in ``apiVersion:``."""
        ...

    @property
    def kind(self) -> str:
        """As in ``kind:``."""
        ...

    @property
    def metadata(self) -> ObjectMeta:
        """Who it is."""
        ...


def key(obj: KubernetesObject) -> str:
    """The name that is unique within a kind: ``namespace/name``, or ``name`` without a namespace.

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


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on a label: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A set of labels, described: all conditions must hold. ``selectors`` applies it."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on a node: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Conditions that must all hold; a term without any selects no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ObjectReference(Wire, frozen=True, kw_only=True):
    """A pointer to an object of any kind."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class Condition(Wire, frozen=True, kw_only=True):
    """One observation about an object; ``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Namespace(Wire, frozen=True, kw_only=True):
    """A namespace: its labels are what a namespace selector looks at."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    kind: str = msgspec.field(default_factory=lambda: "Namespace")
    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(Wire, frozen=True, kw_only=True):
    """A named priority for pods."""

    api_version: str = msgspec.field(default_factory=lambda: "scheduling.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "PriorityClass")
    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """Who holds a lease, and until when; times are RFC 3339 text with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Wire, frozen=True, kw_only=True):
    """A lock in the API server, as leader election uses it."""

    api_version: str = msgspec.field(default_factory=lambda: "coordination.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "Lease")
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class EventSeries(Wire, frozen=True, kw_only=True):
    """How often an event has happened again, and when it last did."""

    count: Int32 = 0
    last_observed_time: str | None = None


class Event(Wire, frozen=True, kw_only=True):
    """Something that happened to ``regarding``: what ``kubectl describe`` shows at its end."""

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


class ResourceClaimUse(Wire, frozen=True, kw_only=True):
    """A container's use of one of its pod's ``resourceClaims``, or of one request in it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """What a container, a pod or a volume claim asks for, and what it may use at most."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()
