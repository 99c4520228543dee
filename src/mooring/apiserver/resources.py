"""Which resources the embedded API server serves, and how a URL path names them.

One frozen table: discovery, OpenAPI, the Table printer and the stores all read it. What stands
here is what kube-apiserver v1.36.3 says of the same resources; what is missing here is not
served (404).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.objects.schema import types as schema_types

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Collections are asked for again and again by the same path.
_PATHS_KEPT = 4096

#: What can be done with objects that are simply stored, in discovery's order.
STORED = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
#: What can be done with a part of an object that has its own URL.
PART = ("get", "patch", "update")
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part or an action of an object, with a URL of its own.

    Attributes:
        name: The last segment of the URL, such as "status".
        kind: The kind of the bodies sent and answered; "" = that of the resource itself.
        group: The API group of ``kind``; "" when it is that of the resource.
        version: The version of ``group``; "" when it is that of the resource.
        verbs: What can be done, in discovery's words.
    """

    name: str
    kind: str = ""
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = PART


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: a collection of objects of one kind.

    Attributes:
        group: The API group, "" for the core group.
        version: The version of the group.
        name: The plural name in URLs, such as "pods".
        singular: As people may type it, such as "pod".
        kind: As in ``kind:``.
        namespaced: Whether objects live in a namespace.
        short_names: kubectl's abbreviations.
        categories: Groups that kubectl can ask for at once, such as "all".
        verbs: What can be done, in discovery's words.
        subresources: In discovery's order.
        api_version: As in ``apiVersion:``: "v1", "apps/v1".
    """

    group: str
    version: str
    name: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STORED
    subresources: tuple[Subresource, ...] = ()
    api_version: str = field(init=False, repr=False, compare=False)
    _parts: Mapping[str, Subresource] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = MappingProxyType({part.name: part for part in self.subresources})
        object.__setattr__(self, "_parts", parts)
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)

    @property
    def list_kind(self) -> str:
        """The kind of a list of them, such as "PodList"."""
        return f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """The name as messages say it: "pods", "deployments.apps"."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def root(self) -> str:
        """The URL path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def is_stored(self) -> bool:
        """Whether objects are kept; reviews are answered and forgotten."""
        return "get" in self.verbs

    def subresource(self, name: str) -> Subresource | None:
        """Returns the subresource with this name, or None."""
        return self._parts.get(name)


class ResourcePath(NamedTuple):
    """What a URL path names.

    Attributes:
        resource: The resource.
        namespace: "" for resources without namespace, and for a collection over all namespaces.
        name: The object's name, "" for the collection.
        subresource: Its name as in the URL, "" for the object itself; may be one not served.
    """

    resource: Resource
    namespace: str
    name: str
    subresource: str


_STATUS = (Subresource("status"),)
_SCALED = (Subresource("scale", "Scale", "autoscaling", "v1"), Subresource("status"))
_POD_PARTS = (
    Subresource("binding", "Binding", verbs=CREATE_ONLY),
    Subresource("ephemeralcontainers"),
    Subresource("eviction", "Eviction", "policy", "v1", CREATE_ONLY),
    Subresource("resize"),
    Subresource("status"),
)
_NAMESPACE_PARTS = (Subresource("finalize", verbs=("update",)), Subresource("status"))
_CSR_PARTS = (Subresource("approval"), Subresource("status"))
_NAMESPACE_VERBS = tuple(verb for verb in STORED if verb != "deletecollection")
_ALL = ("all",)


def _of(
    group: str,
    name: str,
    kind: str,
    namespaced: bool,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = STORED,
    parts: tuple[Subresource, ...] = (),
) -> Resource:
    singular = kind.lower()
    return Resource(group, "v1", name, singular, kind, namespaced, short, categories, verbs, parts)


#: Core group first, then the groups in the order in which kube-apiserver's discovery has them.
RESOURCES: tuple[Resource, ...] = (
    _of("", "bindings", "Binding", True, verbs=CREATE_ONLY),
    _of("", "configmaps", "ConfigMap", True, short=("cm",)),
    _of("", "endpoints", "Endpoints", True, short=("ep",)),
    _of("", "events", "Event", True, short=("ev",)),
    _of(
        "",
        "namespaces",
        "Namespace",
        False,
        short=("ns",),
        verbs=_NAMESPACE_VERBS,
        parts=_NAMESPACE_PARTS,
    ),
    _of("", "nodes", "Node", False, short=("no",), parts=_STATUS),
    _of("", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), parts=_STATUS),
    _of("", "persistentvolumes", "PersistentVolume", False, short=("pv",), parts=_STATUS),
    _of("", "pods", "Pod", True, short=("po",), categories=_ALL, parts=_POD_PARTS),
    _of(
        "",
        "replicationcontrollers",
        "ReplicationController",
        True,
        short=("rc",),
        categories=_ALL,
        parts=_SCALED,
    ),
    _of("", "secrets", "Secret", True),
    _of("", "serviceaccounts", "ServiceAccount", True, short=("sa",)),
    _of("", "services", "Service", True, short=("svc",), categories=_ALL, parts=_STATUS),
    _of("apps", "daemonsets", "DaemonSet", True, ("ds",), _ALL, parts=_STATUS),
    _of("apps", "deployments", "Deployment", True, ("deploy",), _ALL, parts=_SCALED),
    _of("apps", "replicasets", "ReplicaSet", True, ("rs",), _ALL, parts=_SCALED),
    _of("apps", "statefulsets", "StatefulSet", True, ("sts",), _ALL, parts=_SCALED),
    _of("events.k8s.io", "events", "Event", True, ("ev",)),
    _of(
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
        False,
        verbs=CREATE_ONLY,
    ),
    _of("authentication.k8s.io", "tokenreviews", "TokenReview", False, verbs=CREATE_ONLY),
    _of(
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        False,
        verbs=CREATE_ONLY,
    ),
    _of(
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        False,
        verbs=CREATE_ONLY,
    ),
    _of(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        False,
        verbs=CREATE_ONLY,
    ),
    _of("batch", "jobs", "Job", True, (), _ALL, parts=_STATUS),
    _of(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        False,
        ("csr",),
        parts=_CSR_PARTS,
    ),
    _of("policy", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), parts=_STATUS),
    _of("storage.k8s.io", "csidrivers", "CSIDriver", False),
    _of("storage.k8s.io", "csinodes", "CSINode", False),
    _of("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity", True),
    _of("storage.k8s.io", "storageclasses", "StorageClass", False, ("sc",)),
    _of("storage.k8s.io", "volumeattachments", "VolumeAttachment", False, parts=_STATUS),
    _of("scheduling.k8s.io", "priorityclasses", "PriorityClass", False, ("pc",)),
    _of("coordination.k8s.io", "leases", "Lease", True),
    _of("discovery.k8s.io", "endpointslices", "EndpointSlice", True),
    _of("resource.k8s.io", "deviceclasses", "DeviceClass", False),
    _of("resource.k8s.io", "resourceclaims", "ResourceClaim", True, parts=_STATUS),
    _of("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    _of("resource.k8s.io", "resourceslices", "ResourceSlice", False),
)

#: (group, version, plural name) -> Resource.
BY_PATH: Mapping[tuple[str, str, str], Resource] = MappingProxyType(
    {(resource.group, resource.version, resource.name): resource for resource in RESOURCES}
)

NAMESPACES = BY_PATH["", "v1", "namespaces"]
BINDINGS = BY_PATH["", "v1", "bindings"]


def resource_named(group: str, name: str) -> Resource:
    """Returns the resource with this group ("" = core) and plural name.

    Raises:
        KeyError: it is not served.
    """
    return BY_PATH[group, "v1", name]


@lru_cache(maxsize=_PATHS_KEPT)
def resource_at(path: str) -> ResourcePath | None:
    """What a URL path (decoded, without query) names, or None where nothing is served.

    A subresource is not checked: the caller answers for those that the resource has not got.

    Example:
        >>> found = resource_at("/api/v1/namespaces/shop/pods/web-0/binding")
        >>> found.resource.kind, found.namespace, found.name, found.subresource
        ('Pod', 'shop', 'web-0', 'binding')
        >>> resource_at("/api/v1/namespaces/shop/status").resource.kind
        'Namespace'

    Source: staging k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
    """
    parts = segments_of(path)
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    # The core group has a path of its own; as an empty group it would have two.
    if "" in parts:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_part(rest[2]):
        namespace, rest = rest[1], rest[2:]
    found = BY_PATH.get((group, version, rest[0]))
    if found is None or len(rest) > 3:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if not _namespace_fits(found, namespace, name):
        return None
    return ResourcePath(found, namespace, name, subresource)


def segments_of(path: str) -> list[str]:
    """The segments of a path, the empty ones too: who allows and who answers must see the same."""
    return path.removeprefix("/").removesuffix("/").split("/")


def _is_namespace_part(segment: str) -> bool:
    return NAMESPACES.subresource(segment) is not None


def _namespace_fits(resource: Resource, namespace: str, name: str) -> bool:
    """A namespaced object needs its namespace; what has none must not be given one."""
    if not resource.namespaced:
        return not namespace
    return bool(namespace) or not name


@cache
def struct_of(resource: Resource) -> str:
    """Returns the name of the struct that a resource's objects have."""
    return schema_types.struct_of(resource.group, resource.kind)


def struct_of_subresource(resource: Resource, part: Subresource) -> str:
    """Returns the name of the struct of the bodies that a subresource takes."""
    if not part.kind:
        return struct_of(resource)
    return schema_types.struct_of(part.group or resource.group, part.kind)
