"""The in-tree plugins: those of kube-scheduler, each in its own file or package."""

from __future__ import annotations

from mooring.framework.runtime.registry import Factory
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.default_preemption.plugin import DefaultPreemption
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.volume_binding.plugin import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone

#: Name -> factory of every in-tree plugin.
IN_TREE: dict[str, Factory] = {
    "DefaultBinder": lambda _, handle: DefaultBinder(handle),
    "DefaultPreemption": lambda args, handle: DefaultPreemption(args, handle),
    "DynamicResources": lambda _args, _handle: DynamicResources(),
    "ImageLocality": lambda _args, _handle: ImageLocality(),
    "InterPodAffinity": lambda args, handle: InterPodAffinity(args, handle),
    "NodeAffinity": lambda args, _: NodeAffinity(args),
    "NodeDeclaredFeatures": lambda _args, _handle: NodeDeclaredFeatures(),
    "NodeName": lambda _args, _handle: NodeName(),
    "NodePorts": lambda _args, _handle: NodePorts(),
    "NodeResourcesBalancedAllocation": lambda args, _: NodeResourcesBalancedAllocation(args),
    "NodeResourcesFit": lambda args, _: NodeResourcesFit(args),
    "NodeUnschedulable": lambda _args, _handle: NodeUnschedulable(),
    "NodeVolumeLimits": lambda _args, _handle: NodeVolumeLimits(),
    "PodTopologySpread": lambda args, handle: PodTopologySpread(args, handle),
    "PrioritySort": lambda _args, _handle: PrioritySort(),
    "SchedulingGates": lambda _args, _handle: SchedulingGates(),
    "TaintToleration": lambda _args, _handle: TaintToleration(),
    "VolumeBinding": lambda args, handle: VolumeBinding(args, handle),
    "VolumeRestrictions": lambda _args, _handle: VolumeRestrictions(),
    "VolumeZone": lambda _args, _handle: VolumeZone(),
}

__all__ = [
    "IN_TREE",
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]
