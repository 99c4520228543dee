"""A pod without a node, and the cluster in which the explanations look for the causes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from mooring.framework import Framework
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo, Snapshot

#: Names shown before a list is cut.
NAMES_SHOWN: Final = 3

Result = TypeVar("Result")


class Case:
    """The pod and the cluster before the decision, as objects."""

    def __init__(self, pod: Pod, snapshot: Snapshot, framework: Framework | None = None) -> None:
        """Reads ``snapshot``; ``framework`` None = plugins with their default arguments."""
        self.pod = pod
        self.info = PodInfo(pod)
        self.snapshot = snapshot
        self._framework = framework
        self._results: dict[Hashable, Any] = {}

    def once(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        """Returns the result of ``compute``, called only once for this name."""
        if name not in self._results:
            self._results[name] = compute()
        result: Result = self._results[name]
        return result

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes, in the order of the cluster."""
        table = self.snapshot.nodes
        return [table.node(row) for row in table.order.rows()]

    @cached_property
    def pods(self) -> list[PodInfo]:
        """The pods on nodes, without the pod itself."""
        return [placed.info for placed in self.snapshot.pods if placed.info.uid != self.info.uid]

    def node(self, name: str) -> Node | None:
        """Returns the node with this name; None = there is none."""
        row = self.snapshot.nodes.live_row(name)
        return self.snapshot.nodes.node(row) if row >= 0 else None

    def pods_on(self, name: str) -> list[PodInfo]:
        """Returns the pods on a node."""
        row = self.snapshot.nodes.live_row(name)
        on_row = self.snapshot.pods.on_row(row) if row >= 0 else ()
        return [placed.info for placed in on_row if placed.info.uid != self.info.uid]

    def nominated_to(self, name: str) -> list[PodInfo]:
        """Returns the pods that count as if they were on a node: nominated, and as important."""
        return [
            info
            for info in self.snapshot.nominator.pods_on(name)
            if info.priority >= self.info.priority and info.uid != self.info.uid
        ]

    def plugin(self, name: str) -> Any:
        """Returns the filter plugin with this name; None = not known here."""
        filters = () if self._framework is None else self._framework.filters
        return next((plugin for plugin in filters if plugin.name == name), None)


class Explainer(NamedTuple):
    """Explains the rejections of one plugin.

    Attributes:
        causes: Returns why the plugin rejected a node, in words.
        notes: Yields lines about all nodes that it rejected.
        pod_causes: Yields why it rejected the pod before any node was filtered.
    """

    causes: Callable[[Case, Node], Iterable[str]]
    notes: Callable[[Case, Sequence[Node]], Iterator[str]] | None = None
    pod_causes: Callable[[Case], Iterator[str]] | None = None


def similar(name: str, names: Iterable[str]) -> str | None:
    """Returns the most similar of other names; None = none is similar."""
    matches = get_close_matches(name, sorted(set(names) - {name}), n=1)
    return matches[0] if matches else None


def names_text(names: Sequence[str]) -> str:
    """Returns the first names of a list, and how many more there are.

    Example:
        >>> names_text(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    text = ", ".join(names[:NAMES_SHOWN])
    rest = len(names) - NAMES_SHOWN
    return f"{text} and {rest} more" if rest > 0 else text


def count_text(count: int, noun: str) -> str:
    """Returns "1 node" or "3 nodes"."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
