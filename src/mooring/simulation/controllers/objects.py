"""The input and the output of the workload controllers.

A controller is a function: from a workload, and the objects around it, to a ``Result``. It changes
nothing itself; a driver applies the writes, to a table of objects or to an API server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import convert, field

from mooring.objects.kinds import Kind
from mooring.objects.meta import ApiStruct, LabelSelector, ObjectMeta
from mooring.objects.selectors import Selector, compile_label_selector, selector_of_labels

#: An object as JSON.
Json: TypeAlias = dict[str, Any]


class Workload(ApiStruct, frozen=True, kw_only=True):
    """A workload object; spec and status are JSON with their defaults."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key within its kind: "namespace/name"."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def replicas(self) -> int:
        """The number of replicas of the spec."""
        return int(self.spec.get("replicas", 1))

    @property
    def min_ready_s(self) -> int:
        """The time for which a pod must be ready to be available; seconds."""
        return int(self.spec.get("minReadySeconds", 0))

    @property
    def is_deleted(self) -> bool:
        """True if its deletion has begun."""
        return self.metadata.deletion_timestamp is not None


#: The kinds with a controller, by name.
WORKLOAD_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        name: Kind(name, Workload, group, "v1", f"{name.lower()}s", namespaced=True)
        for name, group in (
            ("Deployment", "apps"),
            ("ReplicaSet", "apps"),
            ("StatefulSet", "apps"),
            ("DaemonSet", "apps"),
            ("Job", "batch"),
            ("CronJob", "batch"),
            ("ReplicationController", ""),
        )
    }
)


class Create(NamedTuple):
    """Creates an object; one that exists already is left as it is."""

    manifest: Json


class Delete(NamedTuple):
    """Deletes exactly this object; ``propagation`` as in DeleteOptions, "" = the default."""

    kind: str
    namespace: str
    name: str
    uid: str
    propagation: str = ""


class Patch(NamedTuple):
    """Patches an object by JSON merge patch; ``subresource`` is "" or "status"."""

    kind: str
    namespace: str
    name: str
    patch: Json
    subresource: str = ""


class SetController(NamedTuple):
    """Adds an owner that controls the object, or takes away the owner with ``owner_uid``."""

    kind: str
    namespace: str
    name: str
    uid: str
    owner_uid: str
    owner: Json | None


Write: TypeAlias = Create | Delete | Patch | SetController


class Note(NamedTuple):
    """An event about the workload that belongs to no write; ``type`` is "Normal" or "Warning"."""

    type: str
    reason: str
    message: str


class Result(NamedTuple):
    """The output of a controller.

    Attributes:
        writes: In order.
        again_s: After so many seconds it must look at the workload again; None = only when
            something has changed.
        notes: Events to record, where there is an API server.
    """

    writes: list[Write]
    again_s: float | None = None
    notes: tuple[Note, ...] = ()


class Turn(NamedTuple):
    """The input of a controller besides the objects.

    Attributes:
        now_s: The wall clock.
        suffix: Returns the next random end of a name.
        failure: Why the last write of this workload failed; "" = it did not.
        has_deadlines: Whether Jobs have deadlines and times to live: False where pods are placed
            once, and run for ever.
    """

    now_s: float
    suffix: Callable[[], str]
    failure: str = ""
    has_deadlines: bool = True


def selector_of(workload: Workload) -> Selector:
    """Returns the compiled selector of a workload."""
    if workload.kind == "ReplicationController":
        return selector_of_labels(workload.spec.get("selector") or {})
    return compile_label_selector(convert(workload.spec.get("selector") or {}, LabelSelector))


def owner_reference(workload: Workload) -> Json:
    """Returns the reference of an object to the workload that controls it."""
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.metadata.name,
        "uid": workload.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def status_write(
    workload: Workload, status: Json, *, pointers: Collection[str] = ()
) -> list[Write]:
    """Returns the write that makes ``status`` the status, unless it is.

    Args:
        workload: Has the present status.
        status: The status; no value equals zero.
        pointers: Fields in which no value and zero differ.
    """
    old = workload.status
    names = [*status, *(name for name in old if name not in status)]

    def value(of: Json, name: str) -> Any:
        return of.get(name) if name in pointers else of.get(name) or None

    patch = {name: value(status, name) for name in names if value(status, name) != value(old, name)}
    if not patch:
        return []
    metadata = workload.metadata
    body = {"metadata": {"uid": metadata.uid}, "status": patch}
    return [Patch(workload.kind, metadata.namespace, metadata.name, body, "status")]
