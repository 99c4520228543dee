"""The only code that talks to an API server: transport, REST, informers, leases, events.

``mooring.client.transport.auth.connect`` makes a transport over sockets. It is not imported here,
because it loads an HTTP library that a server in the same process does not need.
"""

import sys
from typing import Any

from mooring.client.event_recorder import Recorder
from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import ObjectChange, Statistics
from mooring.client.leader_election import Elector, LeaseTimes
from mooring.client.rest.client import Client, Patch
from mooring.client.rest.fence import Fence, no_fence
from mooring.client.transport.transport import Handler, InProcessTransport, Pool, Request, Transport
from mooring.deprecated import CLIENT_NAMES, renamed

__all__ = [
    "Client",
    "Elector",
    "Fence",
    "Handler",
    "InProcessTransport",
    "Informer",
    "LeaseTimes",
    "ObjectChange",
    "Patch",
    "Pool",
    "Recorder",
    "Request",
    "Statistics",
    "Transport",
    "no_fence",
]


def __getattr__(name: str) -> Any:
    """Returns the object that an old name stands for (``mooring.deprecated``)."""
    return renamed(sys.modules[__name__], name, CLIENT_NAMES)
