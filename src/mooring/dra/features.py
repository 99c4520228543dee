"""The feature gates that change which devices are allocated.

Upstream has several allocators; the first one with all wanted features is used. With default gates
that is *incubating*. Without shared devices and binding conditions it is *stable*, which knows no
``distinctAttribute`` and ignores requested capacities.

Source: k8s.io/dynamic-resource-allocation structured/allocator.go (NewAllocator);
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (AllocatorFeatures).
*Differs:* stable visits pools and slices in random order, mooring in the order of incubating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """The values of the gates; all but ``has_taint_rules`` are on by default.

    Attributes:
        has_alternatives: DRAPrioritizedList: requests may have alternatives.
        has_partitions: DRAPartitionableDevices: counters, and devices with nodes of their own.
        has_taints: DRADeviceTaints: taints of devices count.
        has_taint_rules: DRADeviceTaintRules: the taints of DeviceTaintRules count, too.
        is_shareable: DRAConsumableCapacity: several claims may share a device.
        has_binding_conditions: DRADeviceBindingConditions and DRAResourceClaimDeviceStatus.
        maps_resources: DRAExtendedResource: extended resources stand for device classes.
        has_filter_timeout: DRASchedulerFilterTimeout: the search on a node has a time limit.
    """

    has_alternatives: bool = True
    has_partitions: bool = True
    has_taints: bool = True
    has_taint_rules: bool = False
    is_shareable: bool = True
    has_binding_conditions: bool = True
    maps_resources: bool = True
    has_filter_timeout: bool = True

    @property
    def is_stable(self) -> bool:
        """True if upstream uses its stable allocator."""
        return not self.is_shareable and not self.has_binding_conditions


ALL_FEATURES: Final = DeviceFeatures()


def features_of(gates: Mapping[str, bool]) -> DeviceFeatures:
    """Returns the features; ``gates`` are the gates whose value is not the default."""
    return DeviceFeatures(
        has_alternatives=gates.get("DRAPrioritizedList", True),
        has_partitions=gates.get("DRAPartitionableDevices", True),
        has_taints=gates.get("DRADeviceTaints", True),
        has_taint_rules=gates.get("DRADeviceTaintRules", False),
        is_shareable=gates.get("DRAConsumableCapacity", True),
        has_binding_conditions=gates.get("DRADeviceBindingConditions", True)
        and gates.get("DRAResourceClaimDeviceStatus", True),
        maps_resources=gates.get("DRAExtendedResource", True),
        has_filter_timeout=gates.get("DRASchedulerFilterTimeout", True),
    )
