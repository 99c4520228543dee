"""A server of pods and bindings, as plain as can be: for runs of single parts."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager

import msgspec

from mooring.client import Request
from mooring.client.transport.transport import Response, Stream
from mooring.objects.codec.decode import encode
from mooring.objects.pod import Pod
from mooring.testing import make_pod

PREFIX = "/api/v1/namespaces/default/pods/"


class PodServer:
    """A transport that answers at once.

    Attributes:
        nodes: UID -> the node of each pod that exists; "" if it is pending.
        versions: UID -> the number of the last write of the pod.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        self._count = 0

    def create(self, name: str) -> Pod:
        """Creates a pod; it replaces one of its name."""
        self.delete(name)
        self._count += 1
        uid = f"{name}-{self._count}"
        self._uids[name] = uid
        self._write(uid, "")
        return self.pod(name)

    def pod(self, name: str) -> Pod:
        """Returns a pod as it is stored."""
        uid = self._uids[name]
        metadata = {"resourceVersion": str(self.versions[uid])}
        return make_pod(name, uid=uid, node=self.nodes[uid], metadata=metadata)

    def delete(self, name: str) -> None:
        """Deletes a pod, if there is one of the name."""
        if (uid := self._uids.pop(name, "")) in self.nodes:
            del self.nodes[uid]

    def bind(self, uid: str, node: str) -> None:
        """Binds a pod; "" undoes it, as a restored backup does."""
        if uid in self.nodes:
            self._write(uid, node)

    def _write(self, uid: str, node: str) -> None:
        self._count += 1
        self.nodes[uid], self.versions[uid] = node, self._count

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Answers a read or a binding."""
        name, _, subresource = request.path.removeprefix(PREFIX).partition("/")
        uid = self._uids.get(name)
        if uid is None:
            return error(404, "NotFound")
        if subresource != "binding":
            return Response(200, {}, encode(self.pod(name)))
        body = json.loads(request.body)
        if body["metadata"].get("uid", uid) != uid or self.nodes[uid]:
            return error(409, "Conflict")
        self._write(uid, body["target"]["name"])
        return Response(201, {}, b"{}")


def error(code: int, reason: str, **headers: str) -> Response:
    """Returns the response to a request that fails."""
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"injected: {code}"}
    return Response(code, headers, msgspec.json.encode(status))
