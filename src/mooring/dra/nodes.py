"""The nodes that can use a slice or a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.dra.errors import AllocationError
from mooring.objects.meta import NodeSelector
from mooring.objects.selectors import CompiledNodeSelector, compile_node_selector


class TargetNode(NamedTuple):
    """The node for which devices are allocated: nothing else of it matters."""

    name: str
    labels: Mapping[str, str]


class Reach(NamedTuple):
    """The nodes that can use a slice or a device: one name, all nodes, or those of a selector."""

    node_name: str
    is_everywhere: bool
    selector: CompiledNodeSelector | None

    def matches(self, node: TargetNode) -> bool:
        """Returns whether the node can use it; without any of the three, no node can.

        Raises:
            AllocationError: if the selector is invalid.
        """
        if self.node_name:
            return self.node_name == node.name
        if self.is_everywhere:
            return True
        if self.selector is None:
            return False
        if self.selector.problems:
            raise AllocationError(f"failed to parse node selector: {self.selector.problems[0]}")
        return self.selector.matches(node.labels, node.name)

    @property
    def is_unknown(self) -> bool:
        """True if none of the three is set."""
        return not self.node_name and not self.is_everywhere and self.selector is None


def reach_of(node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> Reach:
    """Returns the compiled form of the three fields of a slice or a device."""
    compiled = None if selector is None else compile_node_selector(selector)
    return Reach(node_name or "", bool(all_nodes), compiled)
