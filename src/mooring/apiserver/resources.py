"""The resources of the embedded API server, and the parsing of URL paths.

One frozen table: discovery, OpenAPI, the Table printer and the stores all read it. Its values are
those of kube-apiserver v1.36.3; resources that it lacks are not served (404).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mooring.objects.schema import types as schema_types
from mooring.objects.text_cache import text_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.apiserver.types import Object
    from mooring.objects.schema.types import CustomStruct

#: Clients request the same paths repeatedly.
_PATH_CACHE_SIZE = 4096
#: The longest path of a valid request has four names.
_CACHED_PATH_CHARS_MAX = 1024

#: Verbs of stored resources, in discovery's order.
STORED_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
#: Verbs of a subresource that is a part of its object.
SUBRESOURCE_VERBS = ("get", "patch", "update")
CREATE_ONLY = ("create",)
#: The verbs of what is computed when it is read.
READ_ONLY = ("get", "list")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part or an action of an object, with a URL of its own.

    Attributes:
        name: The last segment of the URL, such as "status".
        kind: The kind of request and response bodies; "" = that of the resource itself.
        group: The API group of ``kind``; "" when it is that of the resource.
        version: The version of ``group``; "" when it is that of the resource.
        verbs: The verbs of discovery.
    """

    name: str
    kind: str = ""
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = SUBRESOURCE_VERBS


@dataclass(frozen=True, slots=True, eq=False)
class CustomVersion:
    """One served version of a CustomResourceDefinition; compared by identity.

    Attributes:
        struct: That of its objects, for managedFields and server-side apply.
        schema: ``openAPIV3Schema``.
        served_structs: apiVersion -> the struct, of all served versions of the definition.
        columns: ``additionalPrinterColumns``.
        selectable: The fields of field selectors, such as "spec.color".
        scale: The paths of the scale subresource; None without it.
        replica_paths: apiVersion -> the steps to the field that a Scale changes, of all versions of
            the definition; None for a version without the subresource.
        has_status: True with the status subresource.
        has_rules: Whether rules in CEL are evaluated for its objects.
        is_costly: Whether the schema has rules, patterns or alternatives, whose evaluation can take
            much longer than that of types.
        list_kind: The kind of lists.
        converted: Returns a stored object as this version has it; it may change its argument. None
            if all objects were written by the schema of this version, the only one.
        warning: The deprecation warning; "" for none.
    """

    struct: CustomStruct
    schema: dict[str, Any]
    served_structs: Mapping[str, CustomStruct]
    columns: tuple[dict[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()
    scale: Mapping[str, str] | None = None
    replica_paths: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    has_status: bool = False
    has_rules: bool = False
    is_costly: bool = False
    list_kind: str = ""
    converted: Callable[[Object], Object] | None = None
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: a collection of objects of one kind.

    Attributes:
        group: The API group, "" for the core group.
        version: The version of the group.
        name: The plural name in URLs, such as "pods".
        singular: The singular name, such as "pod".
        kind: As in ``kind:``.
        namespaced: True if objects have a namespace.
        short_names: kubectl's abbreviations.
        categories: Groups of resources in kubectl, such as "all".
        verbs: The verbs of discovery.
        subresources: In discovery's order.
        custom: Its definition, for resources that a CustomResourceDefinition has added.
        deprecation: The deprecation warning of its kind; "" for none.
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
    verbs: tuple[str, ...] = STORED_VERBS
    subresources: tuple[Subresource, ...] = ()
    custom: CustomVersion | None = None
    deprecation: str = ""
    api_version: str = field(init=False, repr=False, compare=False)
    _subresources_by_name: Mapping[str, Subresource] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = MappingProxyType({sub.name: sub for sub in self.subresources})
        object.__setattr__(self, "_subresources_by_name", by_name)
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)

    @property
    def list_kind(self) -> str:
        """The kind of a list of its objects, such as "PodList"."""
        if self.custom is not None:
            return self.custom.list_kind
        return f"{self.kind}List"

    @property
    def warning(self) -> str:
        """The warning of each response; "" for none."""
        return self.deprecation if self.custom is None else self.custom.warning

    @property
    def qualified(self) -> str:
        """The name in messages: "pods", "deployments.apps"."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def root(self) -> str:
        """The URL path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def is_stored(self) -> bool:
        """True if objects are stored; reviews and the health of components are not."""
        return "watch" in self.verbs

    def subresource(self, name: str) -> Subresource | None:
        """Returns the subresource with this name, or None."""
        return self._subresources_by_name.get(name)


class ResourcePath(NamedTuple):
    """The parts of a URL path of a resource.

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
_POD_SUBRESOURCES = (
    Subresource("binding", "Binding", verbs=CREATE_ONLY),
    Subresource("ephemeralcontainers"),
    Subresource("eviction", "Eviction", "policy", "v1", CREATE_ONLY),
    Subresource("resize"),
    Subresource("status"),
)
_NAMESPACE_SUBRESOURCES = (Subresource("finalize", verbs=("update",)), Subresource("status"))
_CSR_SUBRESOURCES = (Subresource("approval"), Subresource("status"))
_ACCOUNT_SUBRESOURCES = (
    Subresource("token", "TokenRequest", "authentication.k8s.io", "v1", CREATE_ONLY),
)
_NAMESPACE_VERBS = tuple(verb for verb in STORED_VERBS if verb != "deletecollection")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _plural_of(singular: str) -> str:
    """Returns the name of a kind's resource.

    Source: k8s.io/apimachinery pkg/api/meta/restmapper.go (UnsafeGuessKindToResource).
    """
    if singular == "endpoints":
        return singular
    if singular.endswith("y"):
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith("s") else f"{singular}s"


def _of(
    group: str,
    kind: str,
    namespaced: bool,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    version: str = "v1",
    **more: Any,
) -> Resource:
    """Returns a resource whose names follow from its kind."""
    name, plural = kind.lower(), _plural_of(kind.lower())
    return Resource(group, version, plural, name, kind, namespaced, short, categories, **more)


_ENDPOINTS_DEPRECATED = (
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
)

_extension = partial(_of, "admissionregistration.k8s.io", namespaced=False, categories=_EXTENSIONS)
_ADMISSION = (
    _extension("MutatingAdmissionPolicy"),
    _extension("MutatingAdmissionPolicyBinding"),
    _extension("MutatingWebhookConfiguration"),
    _extension("ValidatingAdmissionPolicy", subresources=_STATUS),
    _extension("ValidatingAdmissionPolicyBinding"),
    _extension("ValidatingWebhookConfiguration"),
)

#: Core group first, then the groups in the order in which kube-apiserver's discovery has them.
RESOURCES: tuple[Resource, ...] = (
    _of("", "Binding", True, verbs=CREATE_ONLY),
    _of(
        "",
        "ComponentStatus",
        False,
        ("cs",),
        verbs=READ_ONLY,
        deprecation="v1 ComponentStatus is deprecated in v1.19+",
    ),
    _of("", "ConfigMap", True, ("cm",)),
    _of("", "Endpoints", True, ("ep",), deprecation=_ENDPOINTS_DEPRECATED),
    _of("", "Event", True, ("ev",)),
    _of("", "LimitRange", True, ("limits",)),
    _of(
        "",
        "Namespace",
        False,
        ("ns",),
        verbs=_NAMESPACE_VERBS,
        subresources=_NAMESPACE_SUBRESOURCES,
    ),
    _of("", "Node", False, ("no",), subresources=_STATUS),
    _of("", "PersistentVolumeClaim", True, ("pvc",), subresources=_STATUS),
    _of("", "PersistentVolume", False, ("pv",), subresources=_STATUS),
    _of("", "Pod", True, ("po",), categories=_ALL, subresources=_POD_SUBRESOURCES),
    _of("", "PodTemplate", True),
    _of("", "ReplicationController", True, ("rc",), categories=_ALL, subresources=_SCALED),
    _of("", "ResourceQuota", True, ("quota",), subresources=_STATUS),
    _of("", "Secret", True),
    _of("", "ServiceAccount", True, ("sa",), subresources=_ACCOUNT_SUBRESOURCES),
    _of("", "Service", True, ("svc",), categories=_ALL, subresources=_STATUS),
    _of("apps", "ControllerRevision", True),
    _of("apps", "DaemonSet", True, ("ds",), _ALL, subresources=_STATUS),
    _of("apps", "Deployment", True, ("deploy",), _ALL, subresources=_SCALED),
    _of("apps", "ReplicaSet", True, ("rs",), _ALL, subresources=_SCALED),
    _of("apps", "StatefulSet", True, ("sts",), _ALL, subresources=_SCALED),
    _of("events.k8s.io", "Event", True, ("ev",)),
    _of("authentication.k8s.io", "SelfSubjectReview", False, verbs=CREATE_ONLY),
    _of("authentication.k8s.io", "TokenReview", False, verbs=CREATE_ONLY),
    _of("authorization.k8s.io", "LocalSubjectAccessReview", True, verbs=CREATE_ONLY),
    _of("authorization.k8s.io", "SelfSubjectAccessReview", False, verbs=CREATE_ONLY),
    _of("authorization.k8s.io", "SelfSubjectRulesReview", False, verbs=CREATE_ONLY),
    _of("authorization.k8s.io", "SubjectAccessReview", False, verbs=CREATE_ONLY),
    _of(
        "autoscaling",
        "HorizontalPodAutoscaler",
        True,
        ("hpa",),
        _ALL,
        version="v2",
        subresources=_STATUS,
    ),
    _of("batch", "CronJob", True, ("cj",), _ALL, subresources=_STATUS),
    _of("batch", "Job", True, (), _ALL, subresources=_STATUS),
    _of(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        False,
        ("csr",),
        subresources=_CSR_SUBRESOURCES,
    ),
    _of("networking.k8s.io", "IngressClass", False),
    _of("networking.k8s.io", "Ingress", True, ("ing",), subresources=_STATUS),
    _of("networking.k8s.io", "IPAddress", False, ("ip",)),
    _of("networking.k8s.io", "NetworkPolicy", True, ("netpol",)),
    _of("networking.k8s.io", "ServiceCIDR", False, subresources=_STATUS),
    _of("policy", "PodDisruptionBudget", True, ("pdb",), subresources=_STATUS),
    _of("rbac.authorization.k8s.io", "ClusterRoleBinding", False),
    _of("rbac.authorization.k8s.io", "ClusterRole", False),
    _of("rbac.authorization.k8s.io", "RoleBinding", True),
    _of("rbac.authorization.k8s.io", "Role", True),
    _of("storage.k8s.io", "CSIDriver", False),
    _of("storage.k8s.io", "CSINode", False),
    _of("storage.k8s.io", "CSIStorageCapacity", True),
    _of("storage.k8s.io", "StorageClass", False, ("sc",)),
    _of("storage.k8s.io", "VolumeAttachment", False, subresources=_STATUS),
    _of("storage.k8s.io", "VolumeAttributesClass", False, ("vac",)),
    *_ADMISSION,
    _of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        False,
        ("crd", "crds"),
        _EXTENSIONS,
        subresources=_STATUS,
    ),
    _of("scheduling.k8s.io", "PriorityClass", False, ("pc",)),
    _of("coordination.k8s.io", "Lease", True),
    _of("node.k8s.io", "RuntimeClass", False),
    _of("discovery.k8s.io", "EndpointSlice", True),
    _of("resource.k8s.io", "DeviceClass", False),
    _of("resource.k8s.io", "ResourceClaim", True, subresources=_STATUS),
    _of("resource.k8s.io", "ResourceClaimTemplate", True),
    _of("resource.k8s.io", "ResourceSlice", False),
)

#: (group, version, plural name) -> Resource.
BY_PATH: Mapping[tuple[str, str, str], Resource] = MappingProxyType(
    {(resource.group, resource.version, resource.name): resource for resource in RESOURCES}
)

DEVICE_TAINT_RULES = _of(
    "resource.k8s.io", "DeviceTaintRule", False, version="v1beta2", subresources=_STATUS
)

#: Resources that are stored always, and served only with a feature gate, likewise.
GATED_BY_PATH: Mapping[tuple[str, str, str], Resource] = MappingProxyType(
    {
        (resource.group, resource.version, resource.name): resource
        for resource in (DEVICE_TAINT_RULES,)
    }
)

DEFINITIONS = BY_PATH["apiextensions.k8s.io", "v1", "customresourcedefinitions"]
NAMESPACES = BY_PATH["", "v1", "namespaces"]
BINDINGS = BY_PATH["", "v1", "bindings"]
CERTIFICATE_REQUESTS = BY_PATH["certificates.k8s.io", "v1", "certificatesigningrequests"]
COMPONENT_STATUSES = BY_PATH["", "v1", "componentstatuses"]


def resource_named(group: str, name: str) -> Resource:
    """Returns the resource with this group ("" = core) and plural name.

    Raises:
        KeyError: It is not served.
    """
    return BY_PATH[group, "v1", name]


@text_cache(_PATH_CACHE_SIZE, chars_max=_CACHED_PATH_CHARS_MAX)
def resource_at(path: str) -> ResourcePath | None:
    """Parses a URL path (decoded, without query); returns None if no resource is served there.

    The subresource is not validated; it may not exist.

    Example:
        >>> path = resource_at("/api/v1/namespaces/shop/pods/web-0/binding")
        >>> path.resource.kind, path.namespace, path.name, path.subresource
        ('Pod', 'shop', 'web-0', 'binding')
        >>> resource_at("/api/v1/namespaces/shop/status").resource.kind
        'Namespace'

    Source: staging k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
    """
    return _parse(path, BY_PATH)


def custom_resource_at(
    path: str, by_path: Mapping[tuple[str, str, str], Resource]
) -> ResourcePath | None:
    """Parses the path of a custom resource; returns None if ``by_path`` has none for it."""
    return _parse(path, by_path) if by_path and path.startswith("/apis/") else None


def _parse(path: str, by_path: Mapping[tuple[str, str, str], Resource]) -> ResourcePath | None:
    parts = segments_of(path)
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    # The core group has its own prefix /api; /apis with an empty group is not served.
    if "" in parts:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_subresource(rest[2]):
        namespace, rest = rest[1], rest[2:]
    resource = by_path.get((group, version, rest[0]))
    if resource is None or len(rest) > 3:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    if not _namespace_fits(resource, namespace, name):
        return None
    return ResourcePath(resource, namespace, name, subresource)


def segments_of(path: str) -> list[str]:
    """Returns all segments of a path, also empty ones; authorization and routing both use it."""
    return path.removeprefix("/").removesuffix("/").split("/")


#: First segments of paths of resources that are verbs, not names of resources.
_SPECIAL_VERBS = ("proxy", "watch")


def without_special_verb(path: str) -> tuple[str, str]:
    """Returns the verb that a deprecated path of a resource has, and the path without it.

    Example:
        >>> without_special_verb("/apis/apps/v1/watch/deployments")
        ('watch', '/apis/apps/v1/deployments')
        >>> without_special_verb("/api/v1/pods")
        ('', '/api/v1/pods')

    Source: staging k8s.io/apiserver/pkg/endpoints/request/requestinfo.go (specialVerbs).
    """
    parts = segments_of(path)
    at = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    if len(parts) <= at + 1 or parts[at] not in _SPECIAL_VERBS:
        return "", path
    return parts[at], "/" + "/".join((*parts[:at], *parts[at + 1 :]))


def _is_namespace_subresource(segment: str) -> bool:
    return NAMESPACES.subresource(segment) is not None


def _namespace_fits(resource: Resource, namespace: str, name: str) -> bool:
    """Returns True if the path has a namespace exactly where the resource needs one."""
    if not resource.namespaced:
        return not namespace
    return bool(namespace) or not name


def struct_of(resource: Resource) -> str:
    """Returns the name of the struct that a resource's objects have."""
    if resource.custom is not None:
        return resource.custom.struct.name
    return _struct_of_kind(resource.group, resource.kind)


@cache
def _struct_of_kind(group: str, kind: str) -> str:
    """Caches the name for the kinds of ``RESOURCES``."""
    return schema_types.struct_of(group, kind)


def struct_of_subresource(resource: Resource, subresource: Subresource) -> str:
    """Returns the name of the struct of a subresource's request bodies."""
    if not subresource.kind:
        return struct_of(resource)
    return schema_types.struct_of(subresource.group or resource.group, subresource.kind)
