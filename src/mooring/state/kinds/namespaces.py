"""The namespaces and their labels: which of them a namespace selector means."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from mooring.objects.meta import Namespace
from mooring.objects.selectors import Selector

#: Selectors whose namespaces are remembered; more than templates that select namespaces.
SELECTIONS_KEPT: Final = 256


class Namespaces:
    """Name -> labels, and selector -> names. The Cache is the one owner.

    The names that a selector selects are kept, and changed when a namespace is: so who asks again
    gets the same frozenset, and may use it as a key, until it means something else.
    """

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: OrderedDict[Selector, frozenset[str]] = OrderedDict()

    def __len__(self) -> int:
        """How many are known."""
        return len(self._labels)

    def put(self, obj: Namespace) -> None:
        """A namespace is new, or its labels changed.

        Complexity: O(selectors asked for), and O(namespaces) for those that select it now or did.
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
        """The namespace is gone. Unknown ones are fine."""
        if self._labels.pop(name, None) is None:
            return
        for selector, names in list(self._selected.items()):
            if name in names:
                self._selected[selector] = names - {name}

    def labels(self, name: str) -> Mapping[str, str]:
        """Returns the labels of a namespace; none if it is not known."""
        return self._labels.get(name, {})

    def selected_by(self, selector: Selector) -> frozenset[str]:
        """Returns the names of the namespaces that the selector selects.

        Complexity: O(1), the first time O(namespaces).
        """
        names = self._selected.get(selector)
        if names is not None:
            self._selected.move_to_end(selector)
            return names
        names = frozenset(name for name, labels in self._labels.items() if selector.matches(labels))
        self._selected[selector] = names
        if len(self._selected) > SELECTIONS_KEPT:
            self._selected.popitem(last=False)
        return names

    def items(self) -> list[tuple[str, Mapping[str, str]]]:
        """Returns every namespace with its labels, for the audit."""
        return list(self._labels.items())

    def selections(self) -> list[tuple[Selector, frozenset[str]]]:
        """What is remembered of selectors, for the audit."""
        return list(self._selected.items())
