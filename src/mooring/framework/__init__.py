"""The plugin contract and what runs it. No I/O."""

import sys
from typing import Any

from mooring.deprecated import renamed
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.functions import predicate, priority
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.per_node import per_node
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.framework import Framework, Profile
from mooring.framework.runtime.plugin_checks import check_plugin
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.runtime.score import default_normalize, zero_scores
from mooring.framework.status import (
    SKIP,
    Code,
    FilterStatuses,
    NodeError,
    Pending,
    PostFilterResult,
    PreFilterResult,
    Reject,
    Status,
    Wait,
)

__all__ = [
    "SKIP",
    "Attempt",
    "Code",
    "Cycle",
    "Diagnosis",
    "FilterStatuses",
    "Framework",
    "NodeError",
    "NodeInfo",
    "NodeView",
    "Pending",
    "Placement",
    "PostFilterResult",
    "PreFilterResult",
    "Profile",
    "Reject",
    "Status",
    "Wait",
    "check_plugin",
    "default_normalize",
    "per_node",
    "predicate",
    "priority",
    "schedule_pod",
    "zero_scores",
]


def __getattr__(name: str) -> Any:
    """Returns the object that an old name stands for (``mooring.deprecated``)."""
    return renamed(sys.modules[__name__], name)
