"""The columnar core: what is known of the cluster, as numpy columns. No I/O, no clock."""

from mooring.state.audit import audit
from mooring.state.cache import Cache, Reservation
from mooring.state.changes import Change, ChangeLog
from mooring.state.nodes import NodeTable
from mooring.state.nominator import Nominator
from mooring.state.pods import PlacedPod, PodInfo, PodTable
from mooring.state.snapshot import Snapshot

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
