"""Servers for tests of the client: prepared responses, and leases in a dict."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from mooring.client.transport.transport import ChunkedStream, Pool, Request, Response, Stream
from mooring.clock import VirtualClock

Answer = Response | Exception


class ReceivedRequest(NamedTuple):
    """A request that a transport received, with decoded query and body."""

    request: Request
    query: dict[str, str]
    body: Any

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def path(self) -> str:
        return self.request.path

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    @property
    def deadline_s(self) -> float:
        return self.request.deadline_s

    @property
    def pool(self) -> Pool:
        return self.request.pool

    @classmethod
    def of(cls, request: Request) -> ReceivedRequest:
        content = json.loads(request.body) if request.body else None
        return cls(request, dict(request.query), content)


def answer(status: int, body: Any = None, **headers: str) -> Response:
    """Returns a response; ``retry_after="3"`` is the header retry-after."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, content)


def refusal(code: int, reason: str, message: str = "no", **headers: str) -> Response:
    """Returns an error response with a Status."""
    return answer(
        code, {"kind": "Status", "code": code, "reason": reason, "message": message}, **headers
    )


class Script:
    """A transport that returns prepared responses in order, and records the requests.

    A list is the chunks of a stream; an exception in it breaks the stream.
    """

    def __init__(self, *answers: Answer | list[bytes | Exception]) -> None:
        self.answers = list(answers)
        self.requests: list[ReceivedRequest] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(ReceivedRequest.of(request))
        response = self.answers.pop(0)
        if isinstance(response, Exception):
            raise response
        assert isinstance(response, Response)
        return response

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        self.requests.append(ReceivedRequest.of(request))
        response = self.answers.pop(0)
        if isinstance(response, Exception):
            raise response
        if isinstance(response, Response):
            body = _chunks([response.body])
            yield ChunkedStream(response.status, response.headers, body, idle_s=idle_s)
        else:
            yield ChunkedStream(200, {}, _chunks(response), idle_s=idle_s)

    async def close(self) -> None:
        self.answers.clear()


async def _chunks(chunks: list[bytes] | list[bytes | Exception]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk


class Sleeper:
    """A sleep function that advances a clock, and records the waits."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.waits_s: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.clock.advance(seconds)


class LeaseServer:
    """A server of leases with resourceVersions, with injected failures."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.requests: list[tuple[str, str]] = []
        #: Raised or returned instead of the next responses.
        self.troubles: list[Exception | Response] = []
        #: True = failing requests are applied; only their response is lost.
        self.is_answer_lost = False

    async def request(self, request: Request) -> Response:
        assert request.pool is Pool.LEASE
        method, path, body = request.method, request.path, request.body
        self.requests.append((method, path))
        if self.troubles:
            if self.is_answer_lost:
                self._answer(method, path, body)
            trouble = self.troubles.pop(0)
            if isinstance(trouble, Exception):
                raise trouble
            return trouble
        return self._answer(method, path, body)

    def stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a lease is not watched")

    async def close(self) -> None:
        self.leases.clear()

    def _answer(self, method: str, path: str, body: bytes) -> Response:
        if method == "GET":
            lease = self.leases.get(path)
            return answer(200, lease) if lease else refusal(404, "NotFound")
        lease = json.loads(body)
        if method == "POST":
            path = f"{path}/{lease['metadata']['name']}"
            if path in self.leases:
                return refusal(409, "AlreadyExists")
        elif path not in self.leases:
            return refusal(404, "NotFound")
        elif self.leases[path]["metadata"]["resourceVersion"] != lease["metadata"].get(
            "resourceVersion"
        ):
            return refusal(409, "Conflict")
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.leases[path] = lease
        return answer(200, lease)
