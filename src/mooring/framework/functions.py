"""Adapters that turn plain functions into plugins: predicates (Filter) and priorities (Score).

``fn(node, pod) -> bool`` returns True if the node is feasible, ``fn(node, pod) -> int`` returns its
score. The cost is that of ``@per_node``: one Python call for each pod and node.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.framework.node_info import NodeInfo
from mooring.framework.per_node import per_node
from mooring.framework.status import Reject, Status
from mooring.state.tables.pods import PodInfo

PredicateFunction = Callable[[NodeInfo, PodInfo], bool]
PriorityFunction = Callable[[NodeInfo, PodInfo], int]


class Predicate:
    """A Filter plugin made of a function; nodes for which it returns False are rejected."""

    def __init__(self, function: PredicateFunction, name: str, reason: str) -> None:
        self.name = name
        self._function = function
        self._reason = reason

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Rejects the node if the function returns False."""
        return None if self._function(node, pod) else Reject(self._reason)


class Priority:
    """A Score plugin made of a function."""

    def __init__(self, function: PriorityFunction, name: str) -> None:
        self.name = name
        self._function = function

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        """Returns the result of the function, 0 to 100."""
        return self._function(node, pod)


def predicate(
    function: PredicateFunction, *, name: str = "", reason: str = "node(s) didn't pass {}"
) -> Predicate:
    """Returns the function as a Filter plugin.

    Args:
        function: ``fn(node, pod) -> bool``.
        name: The plugin's name; the function's name by default.
        reason: The reason for rejected nodes; {} is replaced by the name.

    Example:
        >>> def has_ssd(node, pod):
        ...     return node.labels.get("disk") == "ssd"
        >>> predicate(has_ssd).name
        'has_ssd'
    """
    plugin_name = name or _name_of(function)
    return Predicate(function, plugin_name, reason.format(plugin_name))


def priority(function: PriorityFunction, *, name: str = "") -> Priority:
    """Returns the function as a Score plugin.

    Example:
        >>> def few_pods(node, pod):
        ...     return max(0, 100 - node.pod_count)
        >>> priority(few_pods).name
        'few_pods'
    """
    return Priority(function, name or _name_of(function))


def _name_of(function: Callable[..., object]) -> str:
    name: str = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ValueError(f"{function!r} has no name: pass name=")
    return name
