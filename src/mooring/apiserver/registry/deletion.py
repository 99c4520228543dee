"""Deleting: preconditions, grace periods, finalizers, dependents, namespaces.

This module does the work of kubelets and controllers, too: a bound pod is removed when its grace
period has expired (``tick``), dependents are deleted with their owner, and a deleted namespace is
emptied.

::

    DELETE ──> pending ──(grace period expired)──> no finalizers? ──> removed
                 ▲                                      │ no
                 └── shorter grace periods only         └──> waits for an update

Source: k8s.io/apiserver pkg/registry/rest/delete.go, pkg/registry/generic/registry/store.go,
pkg/registry/core/{pod,namespace}; the namespace controller, simplified.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mooring.apiserver.admission import PROTECTED_NAMESPACES
from mooring.apiserver.custom.definition import mark_terminating
from mooring.apiserver.errors import ApiStatusError, forbidden
from mooring.apiserver.registry.delete_options import (
    DeleteOptions,
    check_preconditions,
    finalizers_of,
    shorten_grace,
)
from mooring.apiserver.registry.garbage_collection import GarbageCollector
from mooring.apiserver.registry.namespaces import DeletedNamespaces
from mooring.apiserver.registry.registry import Registry, Target
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.resources import DEFINITIONS, Resource, resource_named
from mooring.apiserver.schema.times import seconds_of
from mooring.clock import rfc3339

if TYPE_CHECKING:
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

_PODS = resource_named("", "pods")
_NAMESPACES = resource_named("", "namespaces")


class Deleter:
    """Deletes objects of a registry, at once or when their grace period has expired."""

    def __init__(self, registry: Registry, *, is_instant: bool = False) -> None:
        """Deletes from ``registry``; ``is_instant`` = every grace period is 0."""
        self._registry = registry
        self.garbage = GarbageCollector(registry, self)
        self._namespaces = DeletedNamespaces(registry, self._delete_with_namespace, self.pause)
        self._is_instant = is_instant
        self._due: list[tuple[float, str, str]] = []
        #: What follows from a removal: that of dependents, of owners and of namespaces.
        self._work: deque[Callable[[], None]] = deque()
        self._is_processing = False

    def delete(self, target: Target, options: DeleteOptions) -> tuple[Stored | Object, bool]:
        """Deletes an object; returns its last state, and True if it has been removed.

        Raises:
            ApiStatusError: 403, 404, 409.
        """
        if target.resource is _NAMESPACES:
            return self._delete_namespace(target, options)
        present = self._registry.get(target)
        obj = present.object()
        check_preconditions(target, obj, options)
        metadata = obj["metadata"]
        if target.resource is DEFINITIONS and "deletionTimestamp" not in metadata:
            mark_terminating(obj, self._registry.now())
        orphans_by_default = strategy_of(target.resource).orphans_dependents
        finalizers = finalizers_of(metadata, options, orphans_by_default=orphans_by_default)
        if target.resource is _PODS:
            pending = self._begin_grace(obj, options)
            if pending is None:
                return present, False
        else:
            pending = False
        changed = finalizers != metadata.get("finalizers", [])
        if finalizers:
            metadata["finalizers"] = finalizers
        elif changed:
            metadata.pop("finalizers", None)
        if not pending and not finalizers:
            return self._remove(target, present, obj, options), True
        if not pending:
            self._mark_deleted(metadata)
        return self._store_terminating(target, obj, options), False

    def _remove(
        self, target: Target, present: Stored, obj: Object, options: DeleteOptions
    ) -> Stored | Object:
        if options.dry_run:
            # As upstream, which returns the object with its deletion timestamp.
            return obj if target.resource is _PODS else present
        collection = self._registry.collection(target.resource)
        if "deletionTimestamp" in obj["metadata"]:
            # As upstream: watchers get the deletion as a change before the removal.
            obj["metadata"]["deletionGracePeriodSeconds"] = 0
            collection.replace(target.key, obj)
        last = collection.remove(target.key)
        self.on_removed(target.namespace, last)
        return last

    def _store_terminating(
        self, target: Target, obj: Object, options: DeleteOptions
    ) -> Stored | Object:
        """Stores an object that is being deleted."""
        if options.dry_run:
            return obj
        stored = self._registry.collection(target.resource).replace(target.key, obj)
        metadata = obj["metadata"]
        if target.resource is _PODS and metadata["deletionGracePeriodSeconds"] > 0:
            self._schedule(target.key, metadata)
        self.garbage.begin(target, metadata)
        return self._registry.collection(target.resource).get(target.key) or stored

    def _schedule(self, key: str, metadata: Object) -> None:
        # The timestamp has whole seconds, but the grace period does not begin at one.
        due_s = seconds_of(metadata["deletionTimestamp"]) + self._registry.clock.wall_s() % 1.0
        heapq.heappush(self._due, (due_s, key, metadata["uid"]))

    def _mark_deleted(self, metadata: Object) -> None:
        """Marks an object as deleted that still has finalizers."""
        if "deletionTimestamp" not in metadata and metadata.get("generation", 0) > 0:
            metadata["generation"] += 1
        now = self._registry.now()
        metadata["deletionTimestamp"] = min(metadata.get("deletionTimestamp", now), now)
        metadata["deletionGracePeriodSeconds"] = 0

    def _begin_grace(self, pod: Object, options: DeleteOptions) -> bool | None:
        """Sets a pod's deletion timestamp; returns False = at once, None = no change."""
        metadata = pod["metadata"]
        now_s = self._registry.clock.wall_s()
        if "deletionTimestamp" in metadata:
            return shorten_grace(metadata, options, now_s)
        grace_s = self._grace_of(pod, options)
        metadata["deletionTimestamp"] = rfc3339(now_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        if metadata.get("generation", 0) > 0:
            metadata["generation"] += 1
        return grace_s > 0

    def _grace_of(self, pod: Object, options: DeleteOptions) -> int:
        spec, status = pod["spec"], pod.get("status", {})
        if self._is_instant or not spec.get("nodeName"):
            return 0
        if status.get("phase") in ("Failed", "Succeeded"):
            return 0
        grace_s = options.grace_s
        if grace_s is None:
            grace_s = int(spec.get("terminationGracePeriodSeconds", 0))
        return grace_s if grace_s >= 0 else 1

    def tick(self, removals_max: float = math.inf) -> int:
        """Removes the pods whose grace period has expired, at most so many; returns their number.

        Complexity: O(removals), about 80 microseconds each.
        """
        finished = 0
        if not self._due:
            return finished
        now_s = self._registry.clock.wall_s()
        pods = self._registry.collection(_PODS)
        while self._due and self._due[0][0] <= now_s and finished < removals_max:
            due_s, key, uid = heapq.heappop(self._due)
            present = pods.get(key)
            if present is None:
                continue
            metadata = present.object()["metadata"]
            is_same = metadata["uid"] == uid and "deletionTimestamp" in metadata
            if is_same and seconds_of(metadata["deletionTimestamp"]) <= due_s:
                target = Target(_PODS, present.namespace, present.name)
                self.delete(target, DeleteOptions(grace_s=0))
                finished += 1
        return finished

    @property
    def due_s(self) -> float | None:
        """Wall clock time of the next removal by ``tick``; None = never."""
        return self._due[0][0] if self._due else None

    def resume(self) -> None:
        """Continues the deletions that were pending in a snapshot."""
        self._due.clear()
        for stored in self._registry.collection(_PODS).in_order():
            if b'"deletionTimestamp"' in stored.tail:
                metadata = stored.object()["metadata"]
                if metadata.get("deletionGracePeriodSeconds", 0) > 0:
                    self._schedule(stored.key, metadata)
        for stored in list(self._registry.collection(_NAMESPACES).in_order()):
            self._namespaces.finish(stored.key)
        self.garbage.resume()

    def on_removed(self, namespace: str, last: Stored) -> None:
        """Processes the removal of an object: its dependents, owners and namespace."""
        self.enqueue(partial(self._process_removal, namespace, last))

    def enqueue(self, work: Callable[[], None]) -> None:
        """Does work now, or after the present one: a long chain of owners needs no recursion."""
        self._work.append(work)
        if self._is_processing:
            return
        self._is_processing = True
        try:
            while self._work:
                self._work.popleft()()
        finally:
            self._is_processing = False

    def pause(self) -> None:
        """Lets other writes come first, if this one runs in a thread and has deleted many objects.

        What they remove is processed by them, not by this one.
        """
        own = self._work, self._is_processing
        self._work, self._is_processing = deque(), False
        try:
            self._registry.store.writes.pause()
        finally:
            self._work, self._is_processing = own

    def _process_removal(self, namespace: str, last: Stored) -> None:
        self.garbage.on_removed(last)
        if namespace:
            self._namespaces.finish(namespace)

    def store_and_finish(self, target: Target, new: Object, present: Stored) -> Stored | Object:
        """Stores a change; processes the removal if it removed the last finalizer."""
        stored = self._registry.replace(target, new, present.object())
        if self._registry.collection(target.resource).get(target.key) is None:
            self.on_removed(target.namespace, present)
        return stored

    def _delete_namespace(
        self, target: Target, options: DeleteOptions
    ) -> tuple[Stored | Object, bool]:
        if target.name in PROTECTED_NAMESPACES:
            raise forbidden(_NAMESPACES, target.name, "this namespace may not be deleted")
        present = self._registry.get(target)
        obj = present.object()
        check_preconditions(target, obj, options)
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = self._registry.now()
            obj["status"]["phase"] = "Terminating"
            finalizers = finalizers_of(metadata, options)
            if finalizers:
                metadata["finalizers"] = finalizers
        if options.dry_run:
            return obj, False
        stored = self._registry.collection(_NAMESPACES).replace(target.key, obj)
        self._namespaces.begin(target.name)
        return stored, False

    def _delete_with_namespace(self, target: Target) -> None:
        self.delete(target, DeleteOptions(policy="Background"))

    def delete_all(
        self, resource: Resource, objects: Sequence[Stored], options: DeleteOptions
    ) -> None:
        """Deletes several objects; those that no longer exist are skipped.

        Raises:
            ApiStatusError: The first error that is not 404.
        """
        for stored in objects:
            self.pause()
            try:
                self.delete(Target(resource, stored.namespace, stored.name), options)
            except ApiStatusError as error:
                if error.code != 404:
                    raise
