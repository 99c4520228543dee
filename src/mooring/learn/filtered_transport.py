"""A view of an API server in which there are only a lesson's own nodes and pods.

The schedulers of the tutorial look at all nodes and pods that they are shown. On a cluster that
others use, too, they are to see neither its nodes nor its pods.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final

from mooring.client import Request, Transport
from mooring.client.transport.transport import Response, Stream

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"


class OwnObjects:
    """A transport that narrows lists and watches of nodes and pods.

    Args:
        transport: The way to the API server; whoever has opened it closes it.
        namespace: Whose pods are seen.
        node_selector: Which nodes are seen: a label selector.
    """

    def __init__(self, transport: Transport, namespace: str, node_selector: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._node_selector = node_selector

    async def request(self, request: Request) -> Response:
        """As ``Transport.request``."""
        return await self._transport.request(self._narrowed(request))

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """As ``Transport.stream``."""
        return self._transport.stream(self._narrowed(request), idle_s=idle_s)

    async def close(self) -> None:
        """Nothing: the transport belongs to somebody else."""

    def _narrowed(self, request: Request) -> Request:
        if request.method != "GET":
            return request
        if request.path == NODES:
            selector = ("labelSelector", self._node_selector)
            return request._replace(query=[*request.query, selector])
        if request.path == PODS:
            return request._replace(path=f"/api/v1/namespaces/{self._namespace}/pods")
        return request
