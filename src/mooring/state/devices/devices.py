"""All that decisions about devices read: slices, claims, classes, and the devices in use."""

from __future__ import annotations

from typing import Final

from mooring.dra import (
    ALL_FEATURES,
    AllocatedState,
    DeviceFeatures,
    NodePools,
    Slices,
    TargetNode,
)
from mooring.dra.devices import PoolKey
from mooring.objects.node import Node
from mooring.objects.resource import ResourceClaim, ResourceSlice
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.changes import DeviceChanges
from mooring.state.devices.claims import Claims
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.kinds.device_classes import DeviceClasses

#: The kinds that ``Devices`` stores; the classes have a store of their own.
DEVICE_KINDS: Final = ("ResourceSlice", "ResourceClaim")


class Devices:
    """Slices, claims and classes. Owned by the Cache; Reserve and PreBind change claims, too.

    Source: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go.

    Attributes:
        classes: The device classes.
        features: The feature gates that concern devices.
        slices: The slices, and the pools of each node.
        claims: The claims in their newest versions.
        in_use: The devices of allocated claims and of claims in flight.
        changes: The nodes whose slices or devices in use changed.
        signatures: Which nodes have the same answers.
    """

    def __init__(self, classes: DeviceClasses, features: DeviceFeatures = ALL_FEATURES) -> None:
        self.classes = classes
        self.features = features
        self.changes = DeviceChanges()
        self.slices = Slices(changed=self.changes.add, features=features)
        self.claims = Claims()
        self.in_use = AllocatedDevices(self._pool_changed, features)
        self.signatures = NodeSignatures(self.slices, self.in_use.state, self.changes)
        self.claims.listen(self.in_use.claim_changed)

    @property
    def version(self) -> int:
        """Rises with every change that can matter to a decision about devices."""
        return (
            self.classes.version + self.slices.version + self.claims.version + self.in_use.version
        )

    @property
    def allocated(self) -> AllocatedState:
        """The devices in use, as an allocator reads them."""
        return self.in_use.state

    def _pool_changed(self, pool: PoolKey) -> None:
        for name in self.slices.nodes_of(pool):
            self.changes.add(name)

    def put(self, obj: ResourceSlice | ResourceClaim) -> None:
        """Adds or updates a slice or a claim."""
        if isinstance(obj, ResourceSlice):
            self.slices.put(obj)
        else:
            self.claims.put(obj)

    def remove(self, kind: str, object_key: str) -> None:
        """Removes a slice or a claim. Unknown keys are ignored."""
        if kind == "ResourceSlice":
            self.slices.remove(object_key)
        else:
            self.claims.remove(object_key)

    def pools(self, node: Node) -> NodePools:
        """Returns the pools that a node can use.

        Raises:
            AllocationError: if a node selector of a slice or device is invalid.
        """
        return self.slices.pools(TargetNode(node.metadata.name, node.metadata.labels))
