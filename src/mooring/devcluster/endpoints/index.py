"""Finds the Services that select a pod, and the pods that a Service selects.

Pods are indexed by each of their labels, Services by one label of their selector: neither question
visits all objects of a namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.simulation.controllers.objects import Workload

#: Namespace, key and value.
_Label = tuple[str, str, str]


class ServiceIndex:
    """Services and pods by their labels."""

    def __init__(self) -> None:
        self._pods: dict[_Label, dict[str, Workload]] = {}
        self._services: dict[_Label, dict[str, Workload]] = {}

    def put_pod(self, old: Workload | None, new: Workload | None) -> None:
        """Replaces a pod; None = it does not exist."""
        if old is not None:
            remaining = set() if new is None else set(_labels(new))
            for label in _labels(old):
                if label not in remaining:
                    _remove(self._pods, label, old)
        if new is not None:
            for label in _labels(new):
                self._pods.setdefault(label, {})[new.key] = new

    def put_service(self, old: Workload | None, new: Workload | None) -> None:
        """Replaces a Service; None = it does not exist."""
        if old is not None and (label := _first_label(old)) is not None:
            _remove(self._services, label, old)
        if new is not None and (label := _first_label(new)) is not None:
            self._services.setdefault(label, {})[new.key] = new

    def services_of(self, pod: Workload) -> Iterator[Workload]:
        """Returns the Services that select a pod."""
        for label in _labels(pod):
            for service in self._services.get(label, {}).values():
                if _selects(service, pod):
                    yield service

    def pods_of(self, service: Workload) -> Iterable[Workload]:
        """Returns the pods that a Service selects."""
        labels = [
            (service.metadata.namespace, *item)
            for item in (service.spec.get("selector") or {}).items()
        ]
        fewest = min((self._pods.get(label, {}) for label in labels), key=len, default={})
        if len(labels) == 1:
            return fewest.values()
        return [pod for pod in fewest.values() if _selects(service, pod)]


def _labels(pod: Workload) -> Iterator[_Label]:
    namespace = pod.metadata.namespace
    for item in pod.metadata.labels.items():
        yield (namespace, *item)


def _first_label(service: Workload) -> _Label | None:
    selector = service.spec.get("selector")
    return (service.metadata.namespace, *min(selector.items())) if selector else None


def _selects(service: Workload, pod: Workload) -> bool:
    selector: dict[str, str] = service.spec["selector"]
    return selector.items() <= pod.metadata.labels.items()


def _remove(index: dict[_Label, dict[str, Workload]], label: _Label, obj: Workload) -> None:
    objects = index.get(label, {})
    objects.pop(obj.key, None)
    if not objects:
        index.pop(label, None)
