"""Empties and removes deleted namespaces: their pods first, then all else.

Upstream this is a controller; here it runs with the request that deletes the namespace, and after
each removal of an object of it. The conditions of the namespace say what it waits for; they are
written when its deletion begins, and when its pods are gone.

Source: pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go.
Differs: while pods remain, the conditions tell it; upstream's say then that nothing remains. No
failure of a deletion becomes a condition.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import resource_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

_PODS: Final = resource_named("", "pods")
_NAMESPACES: Final = resource_named("", "namespaces")

#: Type of a condition -> reason and message if nothing is wrong, in upstream's order.
_NOTHING_REMAINS: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


class DeletedNamespaces:
    """The namespaces that are being deleted.

    Args:
        registry: Stores them and their objects.
        delete: Deletes an object, and its dependents in the background.
        pause: Lets other writes come first, between two deletions.
    """

    def __init__(
        self, registry: Registry, delete: Callable[[Target], None], pause: Callable[[], None]
    ) -> None:
        self._registry = registry
        self._delete = delete
        self._pause = pause
        #: Those whose pods are gone, so that all other objects are deleted.
        self._without_pods: set[str] = set()

    def begin(self, name: str) -> None:
        """Deletes the pods of a namespace, and all else once no pod is left."""
        self._without_pods.discard(name)
        self._delete_all(_PODS, name)
        self.finish(name)
        if name not in self._without_pods:
            self._write_conditions(name)

    def finish(self, name: str) -> None:
        """Goes on with a deleted namespace after a removal; removes it if it is empty."""
        present = self._registry.collection(_NAMESPACES).get(name)
        if present is None or b'"Terminating"' not in present.tail:
            self._without_pods.discard(name)
            return
        if "deletionTimestamp" not in present.object()["metadata"]:
            return
        if name not in self._without_pods and not self._registry.collection(_PODS).count(name):
            self._without_pods.add(name)
            for resource in self._resources():
                self._delete_all(resource, name)
            self._write_conditions(name)
        if not any(
            self._registry.collection(resource).count(name) for resource in self._resources()
        ):
            self._remove(name)

    def _resources(self) -> Iterator[Resource]:
        return (r for r in self._registry.store.resources() if r.namespaced)

    def _delete_all(self, resource: Resource, namespace: str) -> None:
        collection = self._registry.collection(resource)
        for stored in list(collection.in_order(namespace)):
            self._pause()
            # It may have been deleted with its owner.
            if collection.get(stored.key) is not None:
                self._delete(Target(resource, namespace, stored.name))

    def _remove(self, name: str) -> None:
        collection = self._registry.collection(_NAMESPACES)
        present = collection.get(name)
        if present is None:
            return
        obj = present.object()
        finalizers = obj["spec"].get("finalizers", ())
        remaining = [finalizer for finalizer in finalizers if finalizer != "kubernetes"]
        if remaining or obj["metadata"].get("finalizers"):
            obj["spec"] = {**obj["spec"], "finalizers": remaining} if remaining else {}
            collection.replace(name, obj)
        else:
            self._without_pods.discard(name)
            collection.remove(name)

    def _write_conditions(self, name: str) -> None:
        """Writes what remains in a namespace, unless nothing does and it will be removed."""
        remaining = {
            resource: list(self._registry.collection(resource).in_order(name))
            for resource in self._resources()
            if self._registry.collection(resource).count(name)
        }
        collection = self._registry.collection(_NAMESPACES)
        present = collection.get(name)
        if present is None or not remaining:
            return
        obj = present.object()
        before = {old["type"]: old for old in obj["status"].get("conditions") or ()}
        obj["status"]["conditions"] = [
            self._with_time(condition, before.get(condition["type"]))
            for condition in _conditions(remaining)
        ]
        collection.replace(name, obj)

    def _with_time(self, condition: Object, before: Object | None) -> Object:
        is_same = before is not None and before["status"] == condition["status"]
        time = before["lastTransitionTime"] if before and is_same else self._registry.now()
        return {**condition, "lastTransitionTime": time}


def _conditions(remaining: dict[Resource, list[Stored]]) -> Iterator[dict[str, Any]]:
    counts = sorted(
        f"{resource.name}.{resource.group} has {len(objects)} resource instances"
        for resource, objects in remaining.items()
    )
    finalizers = Counter(
        finalizer
        for objects in remaining.values()
        for stored in objects
        if b'"finalizers"' in stored.tail
        for finalizer in stored.object()["metadata"].get("finalizers") or ()
    )
    texts = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
    wrong = {
        "NamespaceContentRemaining": (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(counts)}",
        )
    }
    if texts:
        wrong["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(texts)}",
        )
    for type_name, nothing in _NOTHING_REMAINS.items():
        reason, message = wrong.get(type_name, nothing)
        status = "True" if type_name in wrong else "False"
        yield {"type": type_name, "status": status, "reason": reason, "message": message}
