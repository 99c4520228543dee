"""The device allocator: which devices of a node a set of resource claims gets.

It knows nothing of pods and of the scheduler: slices, classes, claims and the devices in use go
in, allocations come out. ``Slices`` indexes the slices, ``Allocator`` searches.
"""

from mooring.dra.allocated import AllocatedState
from mooring.dra.allocator import Allocator, Solution
from mooring.dra.compiler import CELCompiler
from mooring.dra.devices import DeviceID
from mooring.dra.errors import AllocationError, AllocationTimeout, InvalidPools, SelectorFailed
from mooring.dra.features import ALL_FEATURES, DeviceFeatures, features_of
from mooring.dra.nodes import TargetNode
from mooring.dra.plans import Plan, plan_of, solution_of
from mooring.dra.pools import NodePools
from mooring.dra.requests import PreparedClaim, prepare_claim
from mooring.dra.selectors import Selectors
from mooring.dra.slices import Slices

__all__ = [
    "ALL_FEATURES",
    "AllocatedState",
    "AllocationError",
    "AllocationTimeout",
    "Allocator",
    "CELCompiler",
    "DeviceFeatures",
    "DeviceID",
    "InvalidPools",
    "NodePools",
    "Plan",
    "PreparedClaim",
    "SelectorFailed",
    "Selectors",
    "Slices",
    "Solution",
    "TargetNode",
    "features_of",
    "plan_of",
    "prepare_claim",
    "solution_of",
]
