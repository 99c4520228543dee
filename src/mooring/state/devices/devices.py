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
from mooring.objects.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.state.devices.allocated import AllocatedDevices
from mooring.state.devices.changes import DeviceChanges
from mooring.state.devices.claims import Claims
from mooring.state.devices.signatures import NodeSignatures
from mooring.state.devices.taint_rules import SlicesWithRules
from mooring.state.kinds.device_classes import DeviceClasses

#: The kinds that ``Devices`` stores; the classes have a store of their own.
DEVICE_KINDS: Final = ("ResourceSlice", "ResourceClaim", "DeviceTaintRule")


class Devices:
    """Slices, claims and classes. Owned by the Cache; Reserve and PreBind change claims, too.

    Source: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go.

    Attributes:
        classes: The device classes.
        features: The feature gates that concern devices.
        slices: The slices, and the pools of each node; with the taints of rules.
        taint_rules: Adds the taints of DeviceTaintRules to ``slices``.
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
        self.taint_rules = SlicesWithRules(self.slices, is_enabled=features.has_taint_rules)
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

    def put(self, obj: ResourceSlice | ResourceClaim | DeviceTaintRule) -> None:
        """Adds or updates a slice, a claim or a rule."""
        if isinstance(obj, ResourceClaim):
            self.claims.put(obj)
        elif isinstance(obj, ResourceSlice):
            self.taint_rules.put_slice(obj)
        else:
            self.taint_rules.put_rule(obj)

    def remove(self, kind: str, object_key: str) -> None:
        """Removes a slice, a claim or a rule. Unknown keys are ignored."""
        if kind == "ResourceClaim":
            self.claims.remove(object_key)
        elif kind == "ResourceSlice":
            self.taint_rules.remove_slice(object_key)
        else:
            self.taint_rules.remove_rule(object_key)

    def pools(self, node: Node) -> NodePools:
        """Returns the pools that a node can use.

        Raises:
            AllocationError: if a node selector of a slice or device is invalid.
        """
        return self.slices.pools(TargetNode(node.metadata.name, node.metadata.labels))
