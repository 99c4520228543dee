"""The plugin contract and what runs it. No I/O."""

from mooring.framework.attempt import Attempt
from mooring.framework.checks import check_plugin
from mooring.framework.cycle import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.functions import predicate, priority
from mooring.framework.node_info import NodeInfo
from mooring.framework.per_node import per_node
from mooring.framework.runner import Framework, Placement, Profile
from mooring.framework.scoring import default_normalize
from mooring.framework.verdict import (
    SKIP,
    Code,
    Narrow,
    NodeError,
    Pending,
    PostFilterResult,
    Reject,
    Status,
    Verdicts,
    Wait,
)
from mooring.framework.view import NodeView

__all__ = [
    "SKIP",
    "Attempt",
    "Code",
    "Cycle",
    "Diagnosis",
    "Framework",
    "Narrow",
    "NodeError",
    "NodeInfo",
    "NodeView",
    "Pending",
    "Placement",
    "PostFilterResult",
    "Profile",
    "Reject",
    "Status",
    "Verdicts",
    "Wait",
    "check_plugin",
    "default_normalize",
    "per_node",
    "predicate",
    "priority",
]
