"""What kube-apiserver's admission plugins do to requests, for those that every cluster runs.

NamespaceLifecycle, Priority, DefaultTolerationSeconds, PodTopologyLabels and DefaultStorageClass;
everything before an object is prepared and validated. Objects are changed in place.

Source: plugin/pkg/admission, k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle.
Differs: no limit ranges, quotas, service accounts and webhooks, and no finalizers on claims and
volumes, which no controller would take away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.errors import forbidden, not_found
from mooring.apiserver.resources import Resource, resource_named
from mooring.objects.defaulting.admission import NOT_READY_TOLERATION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.types import Object

#: Namespaces that cannot be deleted.
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLAIM_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

_NAMESPACES = resource_named("", "namespaces")
_NODES = resource_named("", "nodes")
_PODS = resource_named("", "pods")
_CLAIMS = resource_named("", "persistentvolumeclaims")
_PRIORITY_CLASSES = resource_named("scheduling.k8s.io", "priorityclasses")
_STORAGE_CLASSES = resource_named("storage.k8s.io", "storageclasses")
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Admission:
    """The plugins, with the objects that they look at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._priorities: dict[str, Object] = {}
        self._default_priority: Object | None = None
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
                labels = self.topology_labels(node)
                if labels:
                    obj["metadata"].setdefault("labels", {}).update(labels)
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
        labels = found.labels if found is not None else {}
        return {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}

    def _classes(self) -> dict[str, Object]:
        """Returns the priority classes by name; decoded anew only after something changed."""
        collection = self._store.collection(_PRIORITY_CLASSES)
        state = (collection, collection.history.end)
        if self._priorities_of != state:
            classes = {each.key: each.object() for each in collection.in_order()}
            marked = [each for each in classes.values() if each.get("globalDefault")]
            self._default_priority = min(marked, key=lambda each: int(each["value"]), default=None)
            self._priorities, self._priorities_of = classes, state
        return self._priorities

    def _default_class(self) -> Object | None:
        self._classes()
        return self._default_priority

    def _set_priority(self, pod: Object) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName", "")
        chosen = self._classes().get(name) if name else self._default_class()
        if name and chosen is None:
            message = f"no PriorityClass with name {name} was found"
            raise forbidden(_PODS, pod["metadata"].get("name", ""), message)
        priority, policy = 0, "PreemptLowerPriority"
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            priority, policy = chosen["value"], chosen.get("preemptionPolicy", policy)
        _agree(pod, "priority", priority, "integer value of priority")
        _agree(pod, "preemptionPolicy", policy, "string value of PreemptionPolicy")

    def _check_default_class(self, obj: Object, *, is_new: bool) -> None:
        current = self._default_class()
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
        annotations = claim["metadata"].get("annotations", {})
        if "storageClassName" in claim["spec"] or _CLAIM_CLASS_ANNOTATION in annotations:
            return
        marked = sorted(self._default_storage_classes(), key=lambda each: each[1])
        newest = sorted(marked, key=lambda each: each[0], reverse=True)
        if newest:
            claim["spec"]["storageClassName"] = newest[0][1]

    def _default_storage_classes(self) -> Iterator[tuple[str, str]]:
        """Creation time and name of each class that is marked as the default one."""
        for stored in self._store.collection(_STORAGE_CLASSES).in_order():
            metadata: dict[str, Any] = stored.object()["metadata"]
            annotations = metadata.get("annotations", {})
            if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS_ANNOTATIONS):
                yield metadata["creationTimestamp"], metadata["name"]


def _check_overhead(pod: Object) -> None:
    """The overhead of a pod is that of its RuntimeClass; there are none here.

    Source: plugin/pkg/admission/runtimeclass/admission.go.
    """
    spec = pod["spec"]
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        message = (
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
        raise forbidden(_PODS, pod["metadata"].get("name", ""), message)


def _agree(pod: Object, name: str, computed: Any, title: str) -> None:
    """Sets a field of the pod that its class decides; the pod may not say otherwise."""
    given = pod["spec"].get(name)
    if given is not None and given != computed:
        message = (
            f"the {title} ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {computed} from the given PriorityClass name"
        )
        raise forbidden(_PODS, pod["metadata"].get("name", ""), message)
    pod["spec"][name] = computed


def add_default_tolerations(pod: Object) -> None:
    """Lets the pod stay on a lost node for a while, unless it says how long itself."""
    tolerations = pod["spec"].get("tolerations", [])
    tolerated = {
        each.get("key", "") for each in tolerations if each.get("effect", "") in ("NoExecute", "")
    }
    missing = [taint for taint in _LOST_NODE_TAINTS if not tolerated & {taint, ""}]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": NOT_READY_TOLERATION_SECONDS,
            }
            for taint in missing
        ]
