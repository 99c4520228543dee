"""Services and workload controllers, which determine the default spreading of a pod.

A pod without its own topology spread constraints is spread among the pods that are selected by the
same Services and owned by the same ReplicaSet, StatefulSet or ReplicationController.

Source: pkg/scheduler/framework/plugins/helper/spread.go (DefaultSelector).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.objects.meta import controller_of, key
from mooring.objects.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    compile_label_selector,
    selector_of,
    selector_of_labels,
)
from mooring.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from mooring.state.tables.pods import PodInfo

#: The kinds that ``Workloads`` stores.
WORKLOAD_KINDS: Final = ("Service", "ReplicaSet", "StatefulSet", "ReplicationController")

#: (apiVersion, kind) of the owners whose selector is used.
_OWNERS: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")}
)

Labels = Mapping[str, str]


class Workloads:
    """Services, ReplicaSets, StatefulSets and ReplicationControllers. Owned by the Cache.

    Complexity: ``selector_for`` is O(labels of the pod + Services that select one of them).
    """

    def __init__(self) -> None:
        #: Service -> its selector's labels.
        self._services: dict[str, Labels] = {}
        #: (namespace, label key, label value) -> the services whose selector has it as first label.
        self._by_label: dict[tuple[str, str, str], dict[str, Labels]] = {}
        #: (kind, "namespace/name") -> the owner's selector; labels for a ReplicationController.
        self._owners: dict[tuple[str, str], Selector | Labels] = {}

    def __len__(self) -> int:
        """Returns the number of objects."""
        return len(self._services) + len(self._owners)

    # -- changes of objects -----------------------------------------------------------------------

    def put(self, obj: Service | ReplicaSet | StatefulSet | ReplicationController) -> None:
        """Adds or updates an object."""
        if isinstance(obj, Service):
            self._remove_service(key(obj))
            self._services[key(obj)] = obj.spec.selector
            if obj.spec.selector:
                lookup_key = _lookup_key(obj.metadata.namespace, obj.spec.selector)
                self._by_label.setdefault(lookup_key, {})[key(obj)] = obj.spec.selector
        elif isinstance(obj, ReplicationController):
            self._owners["ReplicationController", key(obj)] = obj.spec.selector
        else:
            self._owners[type(obj).__name__, key(obj)] = _compiled(obj.spec.selector)

    def remove(self, kind: str, object_key: str) -> None:
        """Removes the object ``namespace/name``. Unknown keys are ignored."""
        if kind == "Service":
            self._remove_service(object_key)
        else:
            self._owners.pop((kind, object_key), None)

    # -- queries ----------------------------------------------------------------------------------

    def selector_for(self, pod: PodInfo) -> Selector:
        """Returns the default spreading selector of ``pod``; ``EVERYTHING`` if it has none."""
        labels = self._service_labels(pod)
        owner = controller_of(pod.metadata)
        owner_selector: Selector | Labels | None = None
        if owner is not None and (owner.api_version, owner.kind) in _OWNERS:
            owner_key = f"{pod.metadata.namespace}/{owner.name}"
            owner_selector = self._owners.get((owner.kind, owner_key))
        if owner_selector is None or isinstance(owner_selector, Selector):
            selector = selector_of_labels(labels) if labels else EVERYTHING
            if owner_selector is None or owner_selector.selects_nothing:
                return selector
            return selector_of((*selector.requirements, *owner_selector.requirements))
        labels.update(owner_selector)
        return selector_of_labels(labels) if labels else EVERYTHING

    # -- internal ---------------------------------------------------------------------------------

    def _service_labels(self, pod: PodInfo) -> dict[str, str]:
        """Returns the combined selector labels of the services that select the pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        combined: dict[str, str] = {}
        if not self._by_label:
            return combined
        for pair in labels.items():
            for selector in self._by_label.get((namespace, *pair), {}).values():
                if selector.items() <= labels.items():
                    combined.update(selector)
        return combined

    def _remove_service(self, service: str) -> None:
        selector = self._services.pop(service, None)
        if not selector:
            return
        lookup_key = _lookup_key(service.rpartition("/")[0], selector)
        del self._by_label[lookup_key][service]
        if not self._by_label[lookup_key]:
            del self._by_label[lookup_key]


def _lookup_key(namespace: str, selector: Labels) -> tuple[str, str, str]:
    return (namespace, *min(selector.items()))


def _compiled(selector: Any) -> Selector:
    """Returns an owner's selector; NOTHING if it does not compile."""
    try:
        return compile_label_selector(selector)
    except SelectorError:
        return NOTHING
