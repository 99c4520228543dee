"""What kube-apiserver's admission plugins do to requests, for those that every cluster runs.

NamespaceLifecycle, Priority, DefaultTolerationSeconds, PodTopologyLabels and DefaultStorageClass;
everything before an object is prepared and validated. Objects are changed in place.

Source: plugin/pkg/admission, k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle.
Differs: no limit ranges, quotas, service accounts and webhooks, and no finalizers on claims and
volumes, which no controller would take away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import forbidden, not_found
from mooring.apiserver.resources import Resource, resource_named
from mooring.objects.defaulting.pods import (
    add_default_tolerations,
    add_topology_labels,
    topology_labels,
)
from mooring.objects.defaulting.priority import PriorityClasses, PriorityRefused
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
_PRIORITY_CLASSES = resource_named("scheduling.k8s.io", "priorityclasses")
_STORAGE_CLASSES = resource_named("storage.k8s.io", "storageclasses")


class Admission:
    """The plugins, with the objects that they look at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._priorities = PriorityClasses(())
        self._priorities_of: tuple[object, int] = (None, -1)

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Refuses to create something in a namespace that is not there or is going away.

        Raises:
            ApiStatusError: 404 or 403.
        """
        if not resource.namespaced:
            return
        found = self._store.collection(_NAMESPACES).get(namespace)
        if found is None:
            raise not_found(_NAMESPACES, namespace)
        # Decoding is spared where the phase cannot be there.
        if b'"Terminating"' not in found.tail:
            return
        if found.object().get("status", {}).get("phase") == "Terminating":
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            message = f"unable to create new content in namespace {namespace} "
            message += "because it is being terminated"
            raise forbidden(resource, name, message, causes=[cause])

    def check_update(self, resource: Resource, namespace: str) -> None:
        """Refuses to change something in a namespace that is not there.

        Raises:
            ApiStatusError: 404.
        """
        if resource.namespaced and self._store.collection(_NAMESPACES).get(namespace) is None:
            raise not_found(_NAMESPACES, namespace)

    def admit_create(self, resource: Resource, obj: Object) -> None:
        """Changes a new object as the plugins do.

        Raises:
            ApiStatusError: 403.
        """
        if resource is _PODS:
            self._set_priority(obj)
            add_default_tolerations(obj)
            if node := obj["spec"].get("nodeName"):
                add_topology_labels(obj, self.topology_labels(node))
        elif resource is _CLAIMS:
            self._set_storage_class(obj)
        elif resource is _PRIORITY_CLASSES:
            self._check_default_class(obj, is_new=True)

    def validate_create(self, resource: Resource, obj: Object) -> None:
        """Refuses a new object that is fine in itself: the plugins that change nothing come last.

        Raises:
            ApiStatusError: 403.
        """
        if resource is _PODS:
            _check_overhead(obj)

    def admit_update(self, resource: Resource, new: Object, old: Object) -> None:
        """Changes an object that is to replace another one, as the plugins do.

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

    def topology_labels(self, node: str) -> dict[str, str]:
        """Returns the labels that a pod gets from the node that it is bound to."""
        found = self._store.collection(_NODES).get(node)
        return topology_labels(found.labels) if found is not None else {}

    def _classes(self) -> PriorityClasses:
        """Returns the priority classes; decoded anew only after something changed."""
        collection = self._store.collection(_PRIORITY_CLASSES)
        state = (collection, collection.history.end)
        if self._priorities_of != state:
            self._priorities = PriorityClasses(each.object() for each in collection.in_order())
            self._priorities_of = state
        return self._priorities

    def _set_priority(self, pod: Object) -> None:
        try:
            self._classes().apply(pod)
        except PriorityRefused as error:
            raise forbidden(_PODS, pod["metadata"].get("name", ""), error.message) from None

    def _check_default_class(self, obj: Object, *, is_new: bool) -> None:
        current = self._classes().default
        if not obj.get("globalDefault") or current is None:
            return
        name = obj["metadata"].get("name", "")
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
        name = default_storage_class(each.object() for each in collection.in_order())
        if name is not None:
            claim["spec"]["storageClassName"] = name


def _check_overhead(pod: Object) -> None:
    """The overhead of a pod is that of its RuntimeClass; there are none here.

    Source: plugin/pkg/admission/runtimeclass/admission.go.
    """
    spec = pod["spec"]
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        error = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(_PODS, pod["metadata"].get("name", ""), error)
