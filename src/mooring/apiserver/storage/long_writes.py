"""Runs writes when no other one runs, and those that take long in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from mooring.apiserver.resources import BINDINGS, DEFINITIONS, resource_named
from mooring.apiserver.storage.stored_object import key_of
from mooring.serial_executor import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.resources import Resource, ResourcePath
    from mooring.apiserver.storage.store import Store

T = TypeVar("T")

#: Objects from which on their deletion runs in a thread; each takes about 50 microseconds.
MANY_OBJECTS: Final = 100
_OPENAPI: Final = "/openapi/"
_QUOTAS: Final = resource_named("", "resourcequotas")
_PODS: Final = resource_named("", "pods")
#: Whose objects have expressions in CEL: each takes milliseconds to compile, and the compiler is
#: imported with the first, in a tenth of a second. Roles are compared with those of their author.
_COSTLY: Final = frozenset(
    [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ]
)
#: Of these, those whose validation may take seconds: it depends on the objects alone.
_VALIDATED_LONG: Final = frozenset(
    it for it in _COSTLY if it[0] in ("apiextensions.k8s.io", "admissionregistration.k8s.io")
)
#: Whose objects are deleted with all that belongs to them.
_WITH_CONTENT: Final = (resource_named("", "namespaces"), DEFINITIONS)


async def wait_and_run(
    store: Store, work: Callable[[], T], method: str, target: ResourcePath | str, body: bytes
) -> T:
    """Handles a read at once, and a write when no other one runs; a long one in a thread.

    Args:
        store: The objects.
        work: Handles the request.
        method: "POST", "DELETE" ...
        target: The resource, namespace and name of the request; or the path, if it has none.
        body: As sent.
    """
    if isinstance(target, str):
        if store.custom and target.startswith(_OPENAPI):
            # It is made anew for definitions, which may have megabytes of schemas.
            return await store.writes.read_in_thread(work)
        return work()
    if method == "GET":
        return work()
    if not target.resource.is_stored and target.resource is not BINDINGS:
        return work()  # a review, which changes nothing
    if store.writes.has_threads and _is_long(store, method, target, body):
        return await store.writes.run_in_thread(work)
    return await store.writes.run(work)


def is_validated_long(resource: Resource) -> bool:
    """Returns whether the validation of an object may take seconds, whatever its size is."""
    if resource.custom is not None:
        return resource.custom.is_costly
    return (resource.group, resource.name) in _VALIDATED_LONG


def _is_costly(method: str, target: ResourcePath) -> bool:
    """Returns whether the time of a write depends on more than its size."""
    resource = target.resource
    if resource.custom is not None:
        return resource.custom.is_costly and method != "DELETE"
    is_whole = method != "DELETE" and (not target.subresource or resource is DEFINITIONS)
    return is_whole and (resource.group, resource.name) in _COSTLY


def _is_long(store: Store, method: str, target: ResourcePath, body: bytes) -> bool:
    """Returns whether a write may take some ten milliseconds."""
    if len(body) > LARGE_BYTES:
        return True
    if not target.resource.is_stored:
        return False
    if _is_costly(method, target):
        return True
    if target.resource is _QUOTAS and method != "DELETE":
        # Whatever is new in it, the pods of the namespace are counted.
        return store.collection(_PODS).count(target.namespace) > MANY_OBJECTS
    collection = store.collection(target.resource)
    if not target.name:
        return method == "DELETE" and collection.count(target.namespace) > MANY_OBJECTS
    stored = collection.get(key_of(target.namespace, target.name))
    if stored is None:
        return False
    if len(stored.tail) > LARGE_BYTES:
        return True
    # Others go with an owner, and those that they own.
    return method == "DELETE" and (target.resource in _WITH_CONTENT or store.is_owner(stored.uid))
