"""A transport that shows only a lesson's own nodes and pods.

The schedulers of the tutorial use all nodes and pods that they see. On a shared cluster they must
not see those of others.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final

from mooring.client import Request, Transport
from mooring.client.transport.transport import Response, Stream

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"


class FilteredTransport:
    """A transport that filters lists and watches of nodes and pods.

    Args:
        transport: The underlying transport; its owner closes it.
        namespace: The namespace of the visible pods.
        node_selector: A label selector for the visible nodes.
    """

    def __init__(self, transport: Transport, namespace: str, node_selector: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._node_selector = node_selector

    async def request(self, request: Request) -> Response:
        """Sends a request; see ``Transport.request``."""
        return await self._transport.request(self._narrowed(request))

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Opens a stream; see ``Transport.stream``."""
        return self._transport.stream(self._narrowed(request), idle_s=idle_s)

    async def close(self) -> None:
        """Does nothing: the underlying transport has another owner."""

    def _narrowed(self, request: Request) -> Request:
        if request.method != "GET":
            return request
        if request.path == NODES:
            selector = ("labelSelector", self._node_selector)
            return request._replace(query=[*request.query, selector])
        if request.path == PODS:
            return request._replace(path=f"/api/v1/namespaces/{self._namespace}/pods")
        return request
