"""The objects that plugins list: by kind, namespace and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.objects.meta import key

_NOTHING: Final[Mapping[str, Any]] = {}


class Lister:
    """The objects of one kind, as last reported. Plugins only read it, and do not change objects.

    Example:
        >>> from mooring.testing import make_pod
        >>> pods = Lister("Pod")
        >>> pods.put(make_pod("web", labels={"app": "web"}))
        >>> pods.get("web", "default").metadata.name
        'web'
        >>> [pod.metadata.name for pod in pods.list("default", labels={"app": "db"})]
        []

    Args:
        kind: "Pod", or the name of a resource: "podgroups.v1alpha1.scheduling.x-k8s.io".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._by_namespace: dict[str, dict[str, Any]] = {}

    def get(self, name: str, namespace: str = "") -> Any:
        """Returns an object; None if there is none. Objects without namespaces have ""."""
        return self._by_namespace.get(namespace, _NOTHING).get(name)

    def list(
        self, namespace: str | None = None, *, labels: Mapping[str, str] | None = None
    ) -> list[Any]:
        """Returns the objects of a namespace, or of all, that have all these labels.

        Complexity: O(objects of the namespace).
        """
        objects = (
            self if namespace is None else self._by_namespace.get(namespace, _NOTHING).values()
        )
        if not labels:
            return [*objects]
        return [obj for obj in objects if labels.items() <= obj.metadata.labels.items()]

    def __iter__(self) -> Iterator[Any]:
        """Yields all objects."""
        for objects in self._by_namespace.values():
            yield from objects.values()

    def __len__(self) -> int:
        """Returns the number of objects."""
        return sum(map(len, self._by_namespace.values()))

    def put(self, obj: Any) -> None:
        """Adds or replaces an object. For the owner of the lister, as ``remove``."""
        metadata = obj.metadata
        self._by_namespace.setdefault(metadata.namespace, {})[metadata.name] = obj

    def remove(self, object_key: str) -> None:
        """Removes the object "namespace/name" or "name", if it is there."""
        namespace, _, name = object_key.rpartition("/")
        objects = self._by_namespace.get(namespace, {})
        objects.pop(name, None)
        if not objects:
            self._by_namespace.pop(namespace, None)


class Listers:
    """The listers of all plugins; the watcher of the objects applies every change.

    Args:
        keeps_all: True to store objects of all kinds from the start: plugins are built later.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self._listers: dict[str, Lister] = {}
        self._keeps_all = keeps_all

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are listed."""
        return tuple(self._listers)

    def get(self, kind: str) -> Lister | None:
        """Returns the lister of a kind; None if it is not listed."""
        return self._listers.get(kind)

    def lister(self, kind: str) -> Lister:
        """Returns the lister of a kind, a new one if there is none."""
        lister = self._listers.get(kind)
        if lister is None:
            lister = self._listers[kind] = Lister(kind)
        return lister

    def apply(self, kind: str, old: Any, new: Any) -> None:
        """Applies a change: ``old`` is None for a new object, ``new`` for a deleted one."""
        lister = self._listers.get(kind)
        if lister is None:
            if not self._keeps_all:
                return
            lister = self.lister(kind)
        if new is not None:
            lister.put(new)
        else:
            lister.remove(key(old))
