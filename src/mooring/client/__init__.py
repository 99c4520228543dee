"""The only code that talks to an API server: transport, REST, informers, leases, events.

``mooring.client.transport.auth.connect`` makes a transport over sockets. It is not imported here,
because it loads an HTTP library that a server in the same process does not need.
"""

from mooring.client.event_recorder import Recorder
from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import Change, Statistics
from mooring.client.leader_election import Elector, LeaseTimes
from mooring.client.rest.client import Client, Patch
from mooring.client.rest.fence import Fence, no_fence
from mooring.client.transport.transport import Handler, InProcessTransport, Pool, Request, Transport

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
