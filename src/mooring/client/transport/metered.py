"""A transport that records the requests of another one as metrics, ``rest_client_*``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mooring.client.transport.transport import Request, Response, Stream, Transport
from mooring.errors import SchedulerError
from mooring.metrics.client_recorder import NO_RESPONSE, ClientRecorder


class MeteredTransport:
    """Records durations, sizes and status codes of another transport's requests.

    A watch counts once, when its response has begun; as in client-go, it has no duration. Retries
    are requests of their own.

    Args:
        transport: Sends the requests.
        recorder: ``Metrics.client``.
        server: The URL of the API server; metrics have its host and port.
    """

    def __init__(self, transport: Transport, recorder: ClientRecorder, *, server: str) -> None:
        self._transport = transport
        self._recorder = recorder
        self._host = urlsplit(server).netloc.rpartition("@")[2]

    async def request(self, request: Request) -> Response:
        """Sends a request, as ``Transport.request``."""
        recorder, started_s = self._recorder, self._recorder.now()
        response: Response | None = None
        try:
            response = await self._transport.request(request)
            return response
        finally:
            # Also if it is cancelled: the request was sent.
            recorder.finished(
                request.method,
                self._host,
                NO_RESPONSE if response is None else str(response.status),
                recorder.now() - started_s,
                request_bytes=len(request.body),
                response_bytes=None if response is None else len(response.body),
            )

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Opens a stream, as ``Transport.stream``."""
        is_open = False
        try:
            async with self._transport.stream(request, idle_s=idle_s) as stream:
                is_open = True
                self._recorder.answered(request.method, self._host, str(stream.status))
                yield stream
        except SchedulerError:
            if not is_open:
                self._recorder.answered(request.method, self._host, NO_RESPONSE)
            raise

    async def close(self) -> None:
        """Closes the transport."""
        await self._transport.close()
