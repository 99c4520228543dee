"""All slices of the cluster, indexed by node and by pool; the pools of a node are cached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from mooring.dra.devices import PoolKey, PreparedSlice
from mooring.dra.features import ALL_FEATURES, DeviceFeatures
from mooring.dra.nodes import TargetNode
from mooring.dra.pools import NodePools, gather_pools
from mooring.objects.resource import ResourceSlice

K = TypeVar("K", bound=Hashable)


class Slices:
    """The slices of the cluster.

    The pools of a node are gathered once, and again after a slice of one of its pools, or a slice
    for several nodes, has changed. Complexity of a change: O(slices of its pool).
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        changed: Callable[[str], None] = lambda _: None,
        features: DeviceFeatures = ALL_FEATURES,
    ) -> None:
        """Stores the slices.

        Args:
            slices: The first slices.
            changed: Called with the name of each node whose pools change, "" = of any node.
            features: The feature gates.
        """
        self._features = features
        self._changed = changed
        #: Rises with each change of a slice.
        self.version = 0
        self._slices: dict[str, PreparedSlice] = {}
        self._of_node: dict[str, dict[str, PreparedSlice]] = {}
        self._shared: dict[str, PreparedSlice] = {}
        self._of_pool: dict[PoolKey, dict[str, PreparedSlice]] = {}
        #: Node name -> the labels with which its pools were gathered, and the pools.
        self._pools: dict[str, tuple[Mapping[str, str], NodePools]] = {}
        for obj in slices:
            self.put(obj)

    def __len__(self) -> int:
        """Returns the number of slices."""
        return len(self._slices)

    def objects(self) -> list[ResourceSlice]:
        """Returns all slices."""
        return [prepared.obj for prepared in self._slices.values()]

    def of_pools(self, keys: Iterable[PoolKey]) -> list[PreparedSlice]:
        """Returns the slices of some pools."""
        return [part for key in keys for part in self._of_pool.get(key, {}).values()]

    def put(self, obj: ResourceSlice) -> None:
        """Adds or updates a slice."""
        self.remove(obj.metadata.name)
        prepared = PreparedSlice(obj, self._features)
        name = prepared.name
        self._slices[name] = prepared
        self._of_pool.setdefault(prepared.pool_key, {})[name] = prepared
        if prepared.only_node:
            self._of_node.setdefault(prepared.only_node, {})[name] = prepared
        else:
            self._shared[name] = prepared
        self._invalidate(prepared)

    def remove(self, name: str) -> None:
        """Removes a slice. Unknown names are ignored."""
        prepared = self._slices.pop(name, None)
        if prepared is None:
            return
        self._invalidate(prepared)
        _remove(self._of_pool, prepared.pool_key, name)
        if prepared.only_node:
            _remove(self._of_node, prepared.only_node, name)
        else:
            del self._shared[name]

    def candidates(self, node_name: str) -> list[PreparedSlice]:
        """Returns the slices of a node, and those that are for several nodes."""
        return [*self._of_node.get(node_name, {}).values(), *self._shared.values()]

    def pools(self, node: TargetNode) -> NodePools:
        """Returns the pools that the node can use.

        Raises:
            AllocationError: if a node selector of a slice or device is invalid.
        """
        cached = self._pools.get(node.name)
        if cached is not None and (cached[0] is node.labels or cached[0] == node.labels):
            return cached[1]
        pools = self.gather(node)
        self._pools[node.name] = node.labels, pools
        return pools

    def gather(self, node: TargetNode) -> NodePools:
        """Returns the pools as ``pools`` does, without the cache."""
        candidates = self.candidates(node.name)
        return gather_pools(node, candidates, lambda key: self._of_pool[key].values())

    def cached(self) -> list[tuple[TargetNode, NodePools]]:
        """Returns the cached pools by node, for the audit."""
        return [(TargetNode(name, labels), pools) for name, (labels, pools) in self._pools.items()]

    def forget_node(self, name: str) -> None:
        """Drops what is cached for a node that was deleted."""
        self._pools.pop(name, None)

    def _invalidate(self, changed: PreparedSlice) -> None:
        """Drops the cached pools of the nodes that use the pool of a slice."""
        self.version += 1
        for name in self.nodes_of(changed.pool_key):
            if name:
                self._pools.pop(name, None)
            else:
                self._pools.clear()
            self._changed(name)

    def nodes_of(self, pool_key: PoolKey) -> set[str]:
        """Returns the nodes that use a pool; {""} = any node may use it."""
        slices = self._of_pool.get(pool_key, {}).values()
        names = {prepared.only_node for prepared in slices}
        return {""} if "" in names else names


def _remove(index: dict[K, dict[str, PreparedSlice]], index_key: K, name: str) -> None:
    entries = index[index_key]
    del entries[name]
    if not entries:
        del index[index_key]
