"""The in-tree plugins: kube-scheduler's, one file each."""

from __future__ import annotations

from mooring.framework.registry import Factory
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration

#: Name -> factory of every plugin built so far.
IN_TREE: dict[str, Factory] = {
    "DefaultBinder": lambda _, handle: DefaultBinder(handle),
    "ImageLocality": lambda _args, _handle: ImageLocality(),
    "NodeAffinity": lambda args, _: NodeAffinity(args),
    "NodeName": lambda _args, _handle: NodeName(),
    "NodePorts": lambda _args, _handle: NodePorts(),
    "NodeResourcesBalancedAllocation": lambda args, _: NodeResourcesBalancedAllocation(args),
    "NodeResourcesFit": lambda args, _: NodeResourcesFit(args),
    "NodeUnschedulable": lambda _args, _handle: NodeUnschedulable(),
    "PodTopologySpread": lambda args, handle: PodTopologySpread(args, handle),
    "PrioritySort": lambda _args, _handle: PrioritySort(),
    "SchedulingGates": lambda _args, _handle: SchedulingGates(),
    "TaintToleration": lambda _args, _handle: TaintToleration(),
}

__all__ = [
    "IN_TREE",
    "DefaultBinder",
    "ImageLocality",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
]
