"""A client of an embedded API server in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
Object = dict[str, Any]


class Api:
    """One server on a virtual clock."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, seeded_random(1), **options)
        self.headers: Mapping[str, str] = {}

    async def handle(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        path, _, query = path.partition("?")
        data = b"" if body is None else _bytes(body)
        pairs = parse_qsl(query, keep_blank_values=True)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, response_headers, content = await self.server.handle(
            method, unquote(path), pairs, {**self.headers, **named}, data
        )
        self.response_headers = response_headers
        return status, response_headers, content

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Returns status and decoded body."""
        status, _, content = asyncio.run(self.handle(method, path, body, **headers))
        assert isinstance(content, bytes)
        return status, json.loads(content)

    def get(self, path: str) -> Object:
        """Returns an object."""
        return self._ok("GET", path)

    def names(self, path: str) -> list[str]:
        """Returns the names in a list."""
        return [item["metadata"]["name"] for item in self.get(path)["items"]]

    def post(self, path: str, body: Any, **headers: str) -> Object:
        """Creates an object; an error fails the test."""
        return self._ok("POST", path, body, **headers)

    def put(self, path: str, body: Any) -> Object:
        """Updates an object; an error fails the test."""
        return self._ok("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = MERGE) -> Object:
        """Patches an object; an error fails the test."""
        return self._ok("PATCH", path, body, content_type=kind)

    def delete(self, path: str, body: Any = None) -> Object:
        """Deletes an object; an error fails the test."""
        return self._ok("DELETE", path, body)

    def bound(self, name: str, node: str = "n1") -> Object:
        """Creates and binds a pod, and returns it."""
        self.post(PODS, pod(name))
        target = {"kind": "Node", "name": node}
        self.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
        return self.get(f"{PODS}/{name}")

    @property
    def version(self) -> int:
        """The latest resourceVersion."""
        return self.server.store.version

    def _ok(self, method: str, path: str, body: Any = None, **headers: str) -> Object:
        status, obj = self.ask(method, path, body, **headers)
        assert status < 300, obj
        assert isinstance(obj, dict)
        return obj


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """Returns a pod with one container."""
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def config_map(name: str, /, **fields: Any) -> Object:
    """Returns a ConfigMap; ``metadata`` is merged."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}
