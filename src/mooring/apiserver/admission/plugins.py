"""The admission plugins, in their order.

NamespaceLifecycle, LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass,
PodTopologyLabels, DefaultStorageClass and StorageObjectInUseProtection change an object in place
before it is prepared and validated; RuntimeClass, LimitRanger and ResourceQuota validate it
afterwards.

Source: plugin/pkg/admission, k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle.
Differs: no service accounts and webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.admission.certificates import check_subject
from mooring.apiserver.admission.limit_ranges import claim_problems, pod_problems, set_defaults
from mooring.apiserver.admission.protection import protect
from mooring.apiserver.admission.quotas import quota_problem
from mooring.apiserver.errors import Errors, forbidden, forbidden_field, not_found, quoted
from mooring.apiserver.resources import CERTIFICATE_REQUESTS, Resource, resource_named
from mooring.objects.defaulting.pods import (
    add_default_tolerations,
    add_topology_labels,
    topology_labels,
)
from mooring.objects.defaulting.priority import PriorityClasses, PriorityRefused
from mooring.objects.defaulting.runtime_classes import RuntimeClassRefused, apply_runtime_class
from mooring.objects.defaulting.storage import default_storage_class, has_class

if TYPE_CHECKING:
    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.types import Object

#: Namespaces that cannot be deleted.
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")

_NAMESPACES = resource_named("", "namespaces")
_NODES = resource_named("", "nodes")
_PODS = resource_named("", "pods")
_CLAIMS = resource_named("", "persistentvolumeclaims")
_LIMIT_RANGES = resource_named("", "limitranges")
_QUOTAS = resource_named("", "resourcequotas")
_PRIORITY_CLASSES = resource_named("scheduling.k8s.io", "priorityclasses")
_RUNTIME_CLASSES = resource_named("node.k8s.io", "runtimeclasses")
_STORAGE_CLASSES = resource_named("storage.k8s.io", "storageclasses")


#: Label of namespaces whose claims may have admin access to devices.
ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_DEVICE_GROUP = "resource.k8s.io"


class Admission:
    """The admission plugins, with the stored objects that they read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._priorities = PriorityClasses(())
        self._priorities_of: tuple[object, int] = (None, -1)

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Checks that the namespace of a new object exists and is not being deleted.

        Raises:
            ApiStatusError: 404 or 403.
        """
        if not resource.namespaced:
            return
        stored = self._store.collection(_NAMESPACES).get(namespace)
        if stored is None:
            raise not_found(_NAMESPACES, namespace)
        # Most namespaces need not be decoded for this.
        if b'"Terminating"' not in stored.tail:
            return
        if stored.object().get("status", {}).get("phase") == "Terminating":
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            message = f"unable to create new content in namespace {namespace} "
            message += "because it is being terminated"
            raise forbidden(resource, name, message, causes=[cause])

    def check_update(self, resource: Resource, namespace: str) -> None:
        """Checks that the namespace of a changed object exists.

        Raises:
            ApiStatusError: 404.
        """
        if resource.namespaced and self._store.collection(_NAMESPACES).get(namespace) is None:
            raise not_found(_NAMESPACES, namespace)

    def admit_create(self, resource: Resource, obj: Object) -> None:
        """Runs the mutating plugins on a new object.

        Raises:
            ApiStatusError: 403.
        """
        protect(resource, obj)
        if resource is _PODS:
            set_defaults(obj, self._in_namespace(_LIMIT_RANGES, obj))
            self._set_priority(obj)
            add_default_tolerations(obj)
            self._apply_runtime_class(obj)
            if node := obj["spec"].get("nodeName"):
                add_topology_labels(obj, self.topology_labels(node))
        elif resource is _CLAIMS:
            self._set_storage_class(obj)
        elif resource is _PRIORITY_CLASSES:
            self._check_default_class(obj, is_new=True)

    def validate_create(self, resource: Resource, obj: Object) -> None:
        """Runs the validating plugins on a valid new object.

        Raises:
            ApiStatusError: 403.
        """
        if resource is _PODS:
            self._check_overhead(obj)
        elif resource is CERTIFICATE_REQUESTS:
            check_subject(obj)
        self._check_limits(resource, obj)
        self._check_quotas(resource, obj, None)

    def validate_update(
        self, resource: Resource, subresource: str, new: Object, old: Object
    ) -> None:
        """Runs the validating plugins on a valid changed object.

        Raises:
            ApiStatusError: 403.
        """
        is_resized = resource is _PODS and subresource == "resize"
        if not is_resized and (resource is not _CLAIMS or subresource):
            return
        if "deletionTimestamp" not in old["metadata"]:
            self._check_limits(resource, new)
        self._check_quotas(resource, new, old)

    def _runtime_class_of(self, pod: Object) -> Object | None:
        """Returns the runtime class of a pod; None if it names none.

        Raises:
            ApiStatusError: 403, there is none of this name.
        """
        name = pod["spec"].get("runtimeClassName")
        if name is None:
            return None
        stored = self._store.collection(_RUNTIME_CLASSES).get(name)
        if stored is None:
            text = f"pod rejected: RuntimeClass {quoted(name)} not found"
            raise forbidden(_PODS, _name_of(pod), text)
        return stored.object()

    def _apply_runtime_class(self, pod: Object) -> None:
        runtime_class = self._runtime_class_of(pod)
        if runtime_class is not None:
            try:
                apply_runtime_class(pod, runtime_class)
            except RuntimeClassRefused as why:
                raise forbidden(_PODS, _name_of(pod), str(why)) from None

    def _check_overhead(self, pod: Object) -> None:
        """Refuses an overhead that does not come from a runtime class."""
        if "overhead" not in pod["spec"]:
            return
        runtime_class = self._runtime_class_of(pod)
        if runtime_class is None or runtime_class.get("overhead") is None:
            text = (
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
            raise forbidden(_PODS, _name_of(pod), text)

    def _in_namespace(self, resource: Resource, obj: Object) -> list[Object]:
        """Returns the objects of a resource in the namespace of another object."""
        collection = self._store.collection(resource)
        namespace = obj["metadata"].get("namespace", "")
        if not namespace or not len(collection):
            return []
        return [stored.object() for stored in collection.in_order(namespace)]

    def _check_limits(self, resource: Resource, obj: Object) -> None:
        if resource not in (_PODS, _CLAIMS):
            return
        problems_of = pod_problems if resource is _PODS else claim_problems
        for limit_range in self._in_namespace(_LIMIT_RANGES, obj):
            problems = problems_of(obj, limit_range)
            if problems:
                text = ", ".join(dict.fromkeys(problems))
                text = f"[{text}]" if len({*problems}) > 1 else text
                raise forbidden(resource, _name_of(obj), text)

    def _check_quotas(self, resource: Resource, new: Object, old: Object | None) -> None:
        if not resource.namespaced:
            return
        quotas = self._in_namespace(_QUOTAS, new)
        problem = quota_problem(quotas, resource, new, old) if quotas else ""
        if problem:
            raise forbidden(resource, _name_of(new), problem)

    def admit_update(self, resource: Resource, new: Object, old: Object) -> None:
        """Runs the mutating plugins on a changed object.

        Raises:
            ApiStatusError: 403.
        """
        if resource is _PODS:
            for name in ("priority", "preemptionPolicy"):
                if name not in new["spec"] and name in old["spec"]:
                    new["spec"][name] = old["spec"][name]
            add_default_tolerations(new)
        elif resource is _PRIORITY_CLASSES:
            self._check_default_class(new, is_new=False)

    def admin_access_errors(self, resource: Resource, new: Object, old: Object | None) -> Errors:
        """Returns the error of admin access to devices outside the namespaces for it.

        Source: pkg/registry/resource/utils.go (AuthorizedForAdmin).
        """
        if resource.group != _DEVICE_GROUP or not resource.namespaced:
            return []
        field = _admin_request(resource, new) if old is None else _admin_result(new)
        if not field or (old is not None and _admin_result(old)):
            return []
        namespace = self._store.collection(_NAMESPACES).get(new["metadata"]["namespace"])
        if namespace is not None and namespace.labels.get(ADMIN_ACCESS) == "true":
            return []
        problem = (
            f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the "
            "containing namespace"
        )
        return [forbidden_field(field, problem)]

    def topology_labels(self, node: str) -> dict[str, str]:
        """Returns the topology labels that a pod gets from its node."""
        stored = self._store.collection(_NODES).get(node)
        return topology_labels(stored.labels) if stored is not None else {}

    def _classes(self) -> PriorityClasses:
        """Returns the priority classes; decoded again only after a change."""
        collection = self._store.collection(_PRIORITY_CLASSES)
        state = (collection, collection.history.end)
        if self._priorities_of != state:
            self._priorities = PriorityClasses(stored.object() for stored in collection.in_order())
            self._priorities_of = state
        return self._priorities

    def _set_priority(self, pod: Object) -> None:
        try:
            self._classes().apply(pod)
        except PriorityRefused as error:
            raise forbidden(_PODS, _name_of(pod), error.message) from None

    def _check_default_class(self, obj: Object, *, is_new: bool) -> None:
        current = self._classes().default
        if not obj.get("globalDefault") or current is None:
            return
        name = _name_of(obj)
        other = current["metadata"]["name"]
        if is_new or other != name:
            message = (
                f"PriorityClass {other} is already marked as default. Only one default can exist"
            )
            raise forbidden(_PRIORITY_CLASSES, name, message)

    def _set_storage_class(self, claim: Object) -> None:
        if has_class(claim):
            return
        collection = self._store.collection(_STORAGE_CLASSES)
        name = default_storage_class(stored.object() for stored in collection.in_order())
        if name is not None:
            claim["spec"]["storageClassName"] = name


def _name_of(obj: Object) -> str:
    """Returns the name that an error has: no name is generated before admission.

    Source: k8s.io/apiserver, pkg/admission/errors.go (extractResourceName).
    """
    metadata = obj["metadata"]
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def _admin_request(resource: Resource, obj: Object) -> str:
    """Returns the path of the first request for admin access; "" = there is none.

    That of a template is the path in a claim, as upstream.
    """
    spec = obj["spec"] if resource.kind == "ResourceClaim" else obj["spec"]["spec"]
    for number, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return f"spec.devices.requests[{number}].adminAccess"
    return ""


def _admin_result(obj: Object) -> str:
    """Returns the path of the first result with admin access; "" = there is none."""
    allocation = (obj.get("status") or {}).get("allocation") or {}
    for number, result in enumerate((allocation.get("devices") or {}).get("results") or ()):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{number}].adminAccess"
    return ""
