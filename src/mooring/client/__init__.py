"""The only code that talks to an API server: transport, REST, informers, leases, events.

``mooring.client.auth.connect`` makes a transport over sockets; it is not imported here, since that
loads an HTTP library that a server in the same process does not need.
"""

from mooring.client.fence import Fence, no_fence
from mooring.client.informer import Informer
from mooring.client.leases import Elector, LeaseTimes
from mooring.client.recorder import Recorder
from mooring.client.replica import Change, Statistics
from mooring.client.rest import Client, Patch
from mooring.client.transport import Handler, InProcessTransport, Pool, Request, Transport

__all__ = [
    "Change",
    "Client",
    "Elector",
    "Fence",
    "Handler",
    "InProcessTransport",
    "Informer",
    "LeaseTimes",
    "Patch",
    "Pool",
    "Recorder",
    "Request",
    "Statistics",
    "Transport",
    "no_fence",
]
