"""The namespaces and their labels: which of them a namespace selector means."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.objects.meta import Namespace


class Namespaces:
    """Name -> labels. The Cache is the one owner."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def __len__(self) -> int:
        """How many are known."""
        return len(self._labels)

    def put(self, obj: Namespace) -> None:
        """A namespace is new, or its labels changed."""
        self._labels[obj.metadata.name] = obj.metadata.labels

    def remove(self, _kind: str, name: str) -> None:
        """The namespace is gone. Unknown ones are fine."""
        self._labels.pop(name, None)

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not known."""
        return self._labels.get(name, {})
