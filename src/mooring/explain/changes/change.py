"""A change of a pod or of the cluster, in words and as objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaimSpec
from mooring.state import PodInfo

#: Costs: an edit of the pod, an edit of a node, more resources, another object, another node.
EDIT_POD: Final = 1
EDIT_NODE: Final = 2
RESOURCES: Final = 3
OBJECT: Final = 4
REMOVE_POD: Final = 5
NEW_NODE: Final = 6


@dataclass(frozen=True)
class SuggestedChange:
    """One change.

    Attributes:
        text: The change in words, as an order: "uncordon node a".
        cost: Cheaper changes are tried first.
        kind: Of the changes of one kind, the first that helps is enough.
        edit: Returns the changed pod; None = the pod stays as it is.
        updates: Object -> its changed form: a function, as changes of one node add up.
        adds: New objects.
        removes: Pods that are removed.
        claims: Resource claim -> its changed spec.
        template: The key of the template from which the claims are made; "" = from none.
    """

    text: str
    cost: float
    kind: str
    edit: Callable[[Pod], Pod] | None = None
    updates: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    adds: tuple[Any, ...] = ()
    removes: tuple[Pod, ...] = ()
    claims: dict[str, Callable[[ResourceClaimSpec], ResourceClaimSpec]] = field(
        default_factory=dict
    )
    template: str = ""


@dataclass(frozen=True)
class Remedy:
    """Changes that help together, and the node to which the pod goes then."""

    changes: tuple[SuggestedChange, ...]
    node: str

    @property
    def text(self) -> str:
        """The changes in words."""
        texts = [change.text for change in self.changes]
        return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def removal(info: PodInfo) -> SuggestedChange:
    """Returns the removal of a pod from its node."""
    text = f"remove pod {info.key} from node {info.node_name}"
    return SuggestedChange(text, REMOVE_POD, f"remove {info.key}", removes=(info.pod,))
