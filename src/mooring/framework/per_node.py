"""Adapter: write filter or score for one pod and one node; the framework calls it on columns.

The cost is one Python call per node that is still feasible, about 1 us plus the method's own work:
milliseconds a pod with thousands of nodes. The results of a plugin that also declares ``sign`` and
``reads`` (see ``interface.py``) are cached, so it is called again only for nodes that changed;
otherwise write ``filter(cycle, nodes)`` on columns and keep this form as its reference in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.node_view import NodeView
from mooring.framework.status import FilterStatuses, Status

#: Set on adapted methods, so that tools can reach the one-node form.
ONE_NODE_FORM = "one_node_form"


def per_node(method: Callable[..., Any]) -> Callable[..., Any]:
    """Adapts ``filter(self, pod, node)`` or ``score(self, pod, node)`` to columns.

    ``filter`` returns None or ``Reject(...)``; ``score`` an int from 0 to 100 (any int if the
    plugin has ``normalize``).

    Example:
        >>> class PreferShortNames:
        ...     name = "PreferShortNames"
        ...
        ...     @per_node
        ...     def score(self, pod, node):
        ...         return max(0, 100 - len(node.name))

    Raises:
        TypeError: if the method is not called ``filter`` or ``score``.
    """
    adapt = {"filter": _adapt_filter, "score": _adapt_score}.get(method.__name__)
    if adapt is None:
        raise TypeError(f"@per_node is for filter and score, not {method.__name__}")
    adapted = adapt(method)
    setattr(adapted, ONE_NODE_FORM, method)
    return adapted


def _adapt_filter(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def adapted(self: Any, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        statuses = []
        for node in nodes:
            status = method(self, cycle.pod, node)
            if status is not None and not isinstance(status, Status):
                raise PluginError(
                    self.name, "Filter", f"returned {status!r} for {node.name}, not None or Reject"
                )
            statuses.append(status)
        return FilterStatuses.of(statuses)

    return adapted


def _adapt_score(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def adapted(self: Any, cycle: Cycle, nodes: NodeView) -> Any:
        scores = np.zeros(len(nodes), dtype=np.int64)
        for position, node in enumerate(nodes):
            value = method(self, cycle.pod, node)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise PluginError(
                    self.name, "Score", f"returned {value!r} for {node.name}, not an int"
                )
            scores[position] = value
        return scores

    return adapted
