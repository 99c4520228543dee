"""Services and the controllers that own pods: what says which pods belong together.

A pod that does not say how it is to be spread is spread among the pods that the same Services
select, and that the same ReplicaSet, StatefulSet or ReplicationController owns.

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

#: The kinds that are kept here.
WORKLOAD_KINDS: Final = ("Service", "ReplicaSet", "StatefulSet", "ReplicationController")

#: (apiVersion, kind) of an owner whose selector says which pods belong together.
_OWNERS: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")}
)

Labels = Mapping[str, str]


class Workloads:
    """Services, ReplicaSets, StatefulSets and ReplicationControllers. The Cache is the one owner.

    Complexity: ``selector_for`` is O(labels of the pod + Services that ask for one of them).
    """

    def __init__(self) -> None:
        #: Service -> its selector's labels.
        self._services: dict[str, Labels] = {}
        #: (namespace, key and value of a label) -> the services there whose first label it is.
        self._by_label: dict[tuple[str, str, str], dict[str, Labels]] = {}
        #: (kind, "namespace/name") -> what the owner selects: labels of a ReplicationController.
        self._owners: dict[tuple[str, str], Selector | Labels] = {}

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._services) + len(self._owners)

    # -- objects come, change and go --------------------------------------------------------------

    def put(self, obj: Service | ReplicaSet | StatefulSet | ReplicationController) -> None:
        """Takes in an object, or a newer version of one."""
        if isinstance(obj, Service):
            self._forget_service(key(obj))
            self._services[key(obj)] = obj.spec.selector
            if obj.spec.selector:
                place = _place(obj.metadata.namespace, obj.spec.selector)
                self._by_label.setdefault(place, {})[key(obj)] = obj.spec.selector
        elif isinstance(obj, ReplicationController):
            self._owners["ReplicationController", key(obj)] = obj.spec.selector
        else:
            self._owners[type(obj).__name__, key(obj)] = _compiled(obj.spec.selector)

    def remove(self, kind: str, object_key: str) -> None:
        """The object called ``namespace/name`` is gone. Unknown ones are fine."""
        if kind == "Service":
            self._forget_service(object_key)
        else:
            self._owners.pop((kind, object_key), None)

    # -- questions --------------------------------------------------------------------------------

    def selector_for(self, pod: PodInfo) -> Selector:
        """Returns the pods that belong together with ``pod``; ``EVERYTHING`` if nothing tells."""
        labels = self._service_labels(pod)
        owner = controller_of(pod.metadata)
        selects: Selector | Labels | None = None
        if owner is not None and (owner.api_version, owner.kind) in _OWNERS:
            at = f"{pod.metadata.namespace}/{owner.name}"
            selects = self._owners.get((owner.kind, at))
        if selects is None or isinstance(selects, Selector):
            selector = selector_of_labels(labels) if labels else EVERYTHING
            if selects is None or selects.selects_nothing:
                return selector
            return selector_of((*selector.requirements, *selects.requirements))
        labels.update(selects)
        return selector_of_labels(labels) if labels else EVERYTHING

    # -- inside -----------------------------------------------------------------------------------

    def _service_labels(self, pod: PodInfo) -> dict[str, str]:
        """Returns the labels that the services ask for which select the pod, all together."""
        namespace, has = pod.metadata.namespace, pod.metadata.labels
        found: dict[str, str] = {}
        if not self._by_label:
            return found
        for pair in has.items():
            for selector in self._by_label.get((namespace, *pair), {}).values():
                if selector.items() <= has.items():
                    found.update(selector)
        return found

    def _forget_service(self, service: str) -> None:
        selector = self._services.pop(service, None)
        if not selector:
            return
        place = _place(service.rpartition("/")[0], selector)
        del self._by_label[place][service]
        if not self._by_label[place]:
            del self._by_label[place]


def _place(namespace: str, selector: Labels) -> tuple[str, str, str]:
    return (namespace, *min(selector.items()))


def _compiled(selector: Any) -> Selector:
    """Returns an owner's selector; one that cannot be compiled tells nothing, as none does."""
    try:
        return compile_label_selector(selector)
    except SelectorError:
        return NOTHING
