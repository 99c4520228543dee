"""The namespaces with their labels, and the namespaces that a selector matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.objects.meta import Namespace
from mooring.objects.selectors import Selector
from mooring.state.columns.caches import LRUCache

#: Selectors whose namespaces are cached; more than a cluster has templates with such selectors.
SELECTIONS_CACHED: Final = 256


class Namespaces:
    """Name -> labels, and selector -> names. Owned by the Cache.

    The names selected by a selector are cached, and updated when a namespace changes. So a caller
    gets the same frozenset, and may use it as a key, until the selection changes.
    """

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: LRUCache[Selector, frozenset[str]] = LRUCache(SELECTIONS_CACHED)

    def __len__(self) -> int:
        """Returns the number of namespaces."""
        return len(self._labels)

    def put(self, obj: Namespace) -> None:
        """Adds or updates a namespace.

        Complexity: O(cached selectors), and O(namespaces) for those whose selection changes.
        """
        name, labels = obj.metadata.name, obj.metadata.labels
        if self._labels.get(name) == labels:
            return
        self._labels[name] = labels
        for selector, names in list(self._selected.items()):
            is_selected = selector.matches(labels)
            if is_selected != (name in names):
                self._selected[selector] = names | {name} if is_selected else names - {name}

    def remove(self, _kind: str, name: str) -> None:
        """Removes a namespace. Unknown names are ignored."""
        if self._labels.pop(name, None) is None:
            return
        for selector, names in list(self._selected.items()):
            if name in names:
                self._selected[selector] = names - {name}

    def labels(self, name: str) -> Mapping[str, str]:
        """Returns the labels of a namespace; empty if it is unknown."""
        return self._labels.get(name, {})

    def selected_by(self, selector: Selector) -> frozenset[str]:
        """Returns the names of the namespaces that the selector selects.

        Complexity: O(1), the first time O(namespaces).
        """
        names = self._selected.recent(selector)
        if names is not None:
            return names
        selected = (name for name, labels in self._labels.items() if selector.matches(labels))
        return self._selected.put(selector, frozenset(selected))

    def items(self) -> list[tuple[str, Mapping[str, str]]]:
        """Returns every namespace with its labels, for the audit."""
        return list(self._labels.items())

    def selections(self) -> list[tuple[Selector, frozenset[str]]]:
        """Returns the cached selections, for the audit."""
        return list(self._selected.items())
