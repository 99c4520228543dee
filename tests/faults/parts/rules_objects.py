"""The objects of a cluster as documents, and what follows from the order in which nodes came.

Source: pkg/scheduler/backend/cache (cache.go: addNodeImageStates; node_tree.go).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@dataclass
class Objects:
    """All objects of a cluster.

    Attributes:
        nodes: By name, in the order in which they came.
        placed: The pods on nodes, by UID.
        claims: Namespace and name -> claim.
        volumes: By name.
        classes: By name.
        image_sizes: Image name -> the size that the first of its nodes has reported.
        zones: The region and zone of nodes, in order of their first node, and their nodes.
        order: The order in which nodes were visited last.
        is_order_old: Whether a node has come or gone since then.
    """

    nodes: dict[str, Document] = field(default_factory=dict)
    placed: dict[str, Document] = field(default_factory=dict)
    claims: dict[tuple[str, str], Document] = field(default_factory=dict)
    volumes: dict[str, Document] = field(default_factory=dict)
    classes: dict[str, Document] = field(default_factory=dict)
    image_sizes: dict[str, int] = field(default_factory=dict)
    zones: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    is_order_old: bool = False

    def put_node(self, node: Document) -> None:
        """Adds a node, or replaces the one of this name."""
        name = node["metadata"]["name"]
        old = self.nodes.get(name)
        if old is not None:
            self._forget_images(name)
        if old is None or _place(old) != _place(node):
            if old is not None:
                self._leave_zone(name, _place(old))
            self.zones.setdefault(_place(node), []).append(name)
        self.nodes[name] = node
        self.is_order_old = self.is_order_old or old is None
        for image, size in image_sizes(node).items():
            self.image_sizes.setdefault(image, size)

    def remove_node(self, name: str) -> None:
        """Removes a node."""
        self._forget_images(name)
        self._leave_zone(name, _place(self.nodes.pop(name)))
        self.is_order_old = True

    def _leave_zone(self, name: str, zone: tuple[str, str]) -> None:
        self.zones[zone].remove(name)
        if not self.zones[zone]:
            del self.zones[zone]

    def visited(self) -> list[str]:
        """Returns the nodes in order: the first one of every zone, then the second ones.

        A node that changes its zone keeps its position until another one comes or goes.
        """
        if not self.is_order_old:
            return self.order
        longest = max(map(len, self.zones.values()), default=0)
        self.order = [
            names[number]
            for number in range(longest)
            for names in self.zones.values()
            if number < len(names)
        ]
        self.is_order_old = False
        return self.order

    def _forget_images(self, name: str) -> None:
        """Forgets the sizes of images that no other node has."""
        others = [node for other, node in self.nodes.items() if other != name]
        for image in image_sizes(self.nodes[name]):
            if not any(image in image_sizes(other) for other in others):
                del self.image_sizes[image]


def image_sizes(node: Document) -> dict[str, int]:
    """Returns the names of the images on a node, and their sizes."""
    sizes: dict[str, int] = {}
    for image in node["status"].get("images", ()):
        for name in image["names"]:
            sizes.setdefault(name, image["sizeBytes"])
    return sizes


def _place(node: Document) -> tuple[str, str]:
    """Returns the region and the zone of a node; the older labels come first."""
    labels = node["metadata"]["labels"]
    return (
        labels.get(BETA_REGION, labels.get(REGION, "")),
        labels.get(BETA_ZONE, labels.get(ZONE, "")),
    )
