"""The cluster state as numpy columns. No I/O, no clock."""

from mooring.state.audit import audit
from mooring.state.cache import Cache, Reservation
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.state.nominator import Nominator
from mooring.state.snapshot import Snapshot
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PlacedPod, PodInfo, PodTable

__all__ = [
    "Cache",
    "Change",
    "ChangeLog",
    "NodeTable",
    "Nominator",
    "PlacedPod",
    "PodInfo",
    "PodTable",
    "Reservation",
    "Snapshot",
    "audit",
]
