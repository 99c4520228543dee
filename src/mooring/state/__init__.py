"""The cluster state as numpy columns. No I/O, no clock.

These names are for readers. The owners of a cluster state import ``mooring.state.cache``.
"""

from mooring.state.audit import audit
from mooring.state.cache import empty_snapshot
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.state.nominator import Nominator
from mooring.state.snapshot import Snapshot
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PlacedPod, PodInfo, PodTable

__all__ = [
    "Change",
    "ChangeLog",
    "NodeTable",
    "Nominator",
    "PlacedPod",
    "PodInfo",
    "PodTable",
    "Snapshot",
    "audit",
    "empty_snapshot",
]
