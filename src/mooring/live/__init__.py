"""What a living scheduler needs beside its own page, ``mooring.scheduler``.

Bindings that run beside the decisions, what plugins get of the world, and what the API server and
whoever watches are told.
"""

from mooring.live.bindings import BINDINGS_MAX, Bindings
from mooring.live.handle import LiveHandle
from mooring.live.held import Held, wait_on_permit
from mooring.live.observer import Observer
from mooring.live.reporting import Reporting
from mooring.live.status_writer import StatusWriter

__all__ = [
    "BINDINGS_MAX",
    "Bindings",
    "Held",
    "LiveHandle",
    "Observer",
    "Reporting",
    "StatusWriter",
    "wait_on_permit",
]
