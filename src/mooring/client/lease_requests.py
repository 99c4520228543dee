"""The requests of leader election: one Lease is read, created and replaced.

Source: client-go's tools/leaderelection/resourcelock/leaselock.go.
"""

from __future__ import annotations

from typing import Final

from mooring.client.rest.paths import path_of
from mooring.client.rest.responses import check
from mooring.client.transport.transport import JSON, Pool, Request, Transport
from mooring.objects.codec.decode import decode, encode
from mooring.objects.kinds import kind_named
from mooring.objects.meta import Lease

_KIND: Final = kind_named("Lease")


class LeaseRequests:
    """Reads and writes one Lease.

    Args:
        transport: Requests go over its connections for leases.
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        deadline_s: Seconds that one request may take.
    """

    def __init__(
        self, transport: Transport, namespace: str, name: str, *, deadline_s: float
    ) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._deadline_s = deadline_s

    async def read(self) -> Lease:
        """Returns the Lease.

        Raises:
            NotFound: there is none.
            ApiError: refused.
            ConfigError: the response is no Lease.
            OutcomeUnknown: no response.
            Unreachable: not sent.
        """
        return await self._request("GET", self._name, b"")

    async def create(self, lease: Lease) -> Lease:
        """Creates the Lease, and returns it as stored.

        Raises:
            AlreadyExists: there is one; further errors as of ``read``.
        """
        return await self._request("POST", "", encode(lease))

    async def replace(self, lease: Lease) -> Lease:
        """Replaces the Lease, and returns it as stored.

        Raises:
            Conflict: it has changed since ``lease`` was read; further errors as of ``read``.
        """
        return await self._request("PUT", self._name, encode(lease))

    async def _request(self, method: str, name: str, body: bytes) -> Lease:
        path = path_of(_KIND, self._namespace, name)
        request = Request(
            method,
            path,
            deadline_s=self._deadline_s,
            body=body,
            headers={"content-type": JSON, "accept": JSON},
            pool=Pool.LEASE,
        )
        response = await self._transport.request(request)
        lease: Lease = decode(check(response, f"{method} {path}"), _KIND)
        return lease
