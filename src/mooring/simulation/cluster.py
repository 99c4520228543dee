"""A cluster in a cache that the caller changes: objects and the placement of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mooring.dra import ALL_FEATURES, DeviceFeatures
from mooring.errors import ConfigError
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.state import NodeTable, PodInfo
from mooring.state.apply import apply_change
from mooring.state.cache import Cache
from mooring.state.listers import Listers


class Cluster:
    """A cache filled from objects instead of watches."""

    def __init__(self, objects: Iterable[Any], features: DeviceFeatures = ALL_FEATURES) -> None:
        """Loads objects; ``features`` are the feature gates of devices."""
        self.cache = Cache(features)
        #: The objects that plugins list, of all kinds: plugins are built after the cluster.
        self.listers = Listers(keeps_all=True)
        #: Key -> nominated pod that a gate holds back, and its node.
        self._gated_nominations: dict[str, tuple[Pod, str]] = {}
        for obj in objects:
            self.update(obj)

    @property
    def nodes(self) -> NodeTable:
        """The nodes as columns; read only."""
        return self.cache.nodes

    def update(self, obj: Any) -> None:
        """Adds or replaces an object."""
        self.listers.apply(type(obj).__name__, None, obj)
        apply_change(self.cache, type(obj).__name__, None, obj)
        if isinstance(obj, Pod) and not obj.spec.node_name and obj.status.nominated_node_name:
            self.nominate(obj, obj.status.nominated_node_name)
        self._open_gates()

    def place(self, pod: Pod, node_name: str) -> None:
        """Places ``pod``, whose ``spec.nodeName`` must be ``node_name``."""
        if pod.spec.node_name != node_name:
            raise ConfigError("is not the pod's nodeName", path="node", value=node_name)
        self._gated_nominations.pop(key(pod), None)
        self.listers.apply("Pod", None, pod)
        self.cache.put_pod(pod)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Removes an object."""
        object_key = f"{namespace}/{name}" if namespace else name
        self.listers.lister(kind).remove(object_key)
        if kind == "Node":
            self.cache.remove_node(name)
        elif kind == "Pod":
            self._gated_nominations.pop(f"{namespace}/{name}", None)
            self.cache.remove_pod_by_key(f"{namespace}/{name}")
        else:
            self.cache.remove_object(kind, object_key)

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Nominates ``node_name`` for the pending ``pod``; "" clears the nomination.

        The nomination of a pod that a gate holds back counts once the gate is open.
        """
        self._gated_nominations.pop(key(pod), None)
        if node_name and self.is_gated(pod):
            self._gated_nominations[key(pod)] = pod, node_name
            self.cache.nominator.remove(pod.metadata.uid)
        elif node_name:
            self.cache.nominator.nominate(PodInfo(pod), node_name)
        else:
            self.cache.nominator.remove(pod.metadata.uid)

    def is_gated(self, pod: Pod) -> bool:  # noqa: ARG002
        """Returns whether a gate holds the pod back; without plugins, none does."""
        return False

    def check_gates(self) -> None:
        """Checks the gates of all nominated pods, when ``is_gated`` can first be called."""
        for info, node_name in self.cache.nominator.pods():
            self.nominate(info.pod, node_name)

    def _open_gates(self) -> None:
        """Nominates the pods whose gates have opened."""
        if self._gated_nominations:
            for pod, node_name in list(self._gated_nominations.values()):
                self.nominate(pod, node_name)

    def check_order(self, node_order: Sequence[str]) -> None:
        """Validates that nodes are visited in this order.

        Raises:
            ConfigError: at the first position that differs.
        """
        names = [self.nodes.names[row] for row in self.nodes.order.rows()]
        for position, (expected, actual) in enumerate(zip(node_order, names, strict=False)):
            if expected != actual:
                raise ConfigError(
                    f"does not follow from the objects, which give {actual!r}",
                    path=f"node_order[{position}]",
                    value=expected,
                )
        if len(node_order) != len(names):
            raise ConfigError(
                f"there are {len(names)} nodes", path="node_order", value=len(node_order)
            )
