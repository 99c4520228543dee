"""The authorities of client certificates that the cluster publishes.

kube-apiserver writes the ConfigMap kube-system/extension-apiserver-authentication: the authority of
clients, and that of the front proxy with the headers in which it passes on its client's identity. A
watch on this one object keeps them current.

Source: k8s.io/apiserver pkg/server/dynamiccertificates/configmap_cafile_content.go,
pkg/authentication/request/headerrequest/requestheader_controller.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.client.retry import Backoff, Sleep
from mooring.client.transport.transport import (
    JSON,
    Request,
    Response,
    StreamBroken,
    Transport,
    read_all,
)
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, NotFound, SchedulerError
from mooring.serving.client_ca import Authority
from mooring.serving.delegation import refusal

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"

_LIST_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_PATH: Final = f"{_LIST_PATH}/{NAME}"
_ONLY_IT: Final = ("fieldSelector", f"metadata.name={NAME}")

GET_S_MAX: Final = 10.0
WATCH_S: Final = 420
#: The server ends a watch after ``WATCH_S``; a silent one is broken.
IDLE_S_MAX: Final = WATCH_S + 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers of a front proxy, and the names in its certificate (() = any)."""

    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


class ClusterAuthentication:
    """The current content of the ConfigMap.

    Attributes:
        client_ca: The authority of clients; None if unknown.
        proxy_ca: The authority of the front proxy; None if unknown.
        headers: See ``RequestHeaders``.
    """

    def __init__(
        self, transport: Transport, *, clock: Clock, rng: Rng, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.client_ca: Authority | None = None
        self.proxy_ca: Authority | None = None
        self.headers = RequestHeaders()
        self._transport = transport
        self._backoff = Backoff(clock, rng)
        self._sleep = sleep

    async def load(self) -> None:
        """Reads the ConfigMap; there may be none.

        Raises:
            SchedulerError: it cannot be read.
        """
        request = Request("GET", _PATH, deadline_s=GET_S_MAX, headers={"accept": JSON})
        response = await self._transport.request(request)
        if response.status != 200:
            error = refusal(response)
            if isinstance(error, NotFound):
                return
            raise error
        self._apply(_object(response.body))

    async def run(self) -> None:
        """Keeps the content current; never returns."""
        while True:
            try:
                await self._watch(await self._list())
            except (SchedulerError, StreamBroken) as error:
                _log.error(
                    "Failed to watch",
                    extra={"error": str(error), "configmap": f"{NAMESPACE}/{NAME}"},
                )
                await self._sleep(self._backoff.next_s())

    async def _list(self) -> str:
        """Reads the ConfigMap; returns the resourceVersion of the list, to watch from.

        That of the ConfigMap itself is too old to watch from as soon as the history of the API
        server begins after its last change.
        """
        request = Request(
            "GET", _LIST_PATH, deadline_s=GET_S_MAX, query=[_ONLY_IT], headers={"accept": JSON}
        )
        response = await self._transport.request(request)
        if response.status != 200:
            raise refusal(response)
        listed = _object(response.body)
        for config_map in listed.get("items") or ():
            self._apply(config_map)
        version: str = (listed.get("metadata") or {}).get("resourceVersion", "")
        return version

    async def _watch(self, version: str) -> None:
        """Applies changes until the server ends the watch."""
        query = [
            ("watch", "1"),
            _ONLY_IT,
            ("resourceVersion", version),
            ("timeoutSeconds", str(WATCH_S)),
        ]
        request = Request(
            "GET", _LIST_PATH, deadline_s=GET_S_MAX, query=query, headers={"accept": JSON}
        )
        async with self._transport.stream(request, idle_s=IDLE_S_MAX) as stream:
            if stream.status != 200:
                raise refusal(Response(stream.status, stream.headers, await read_all(stream)))
            async with aclosing(stream.batches()) as batches:
                async for lines in batches:
                    self._on_events(lines)

    def _on_events(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self._on_event(line)

    def _on_event(self, line: bytes) -> None:
        event = _object(line)
        if event.get("type") == "ERROR":
            problem = event.get("object") or {}
            raise StreamBroken(str(problem.get("message") or problem))
        if event.get("type") in ("ADDED", "MODIFIED"):
            self._apply(event.get("object") or {})

    def _apply(self, config_map: Mapping[str, Any]) -> None:
        """Takes over the content; an invalid entry leaves the last valid one."""
        data: Mapping[str, str] = config_map.get("data") or {}
        self.client_ca = _authority(data, "client-ca-file", self.client_ca)
        self.proxy_ca = _authority(data, "requestheader-client-ca-file", self.proxy_ca)
        try:
            self.headers = RequestHeaders(
                username=_strings(data, "requestheader-username-headers"),
                uid=_strings(data, "requestheader-uid-headers"),
                group=_strings(data, "requestheader-group-headers"),
                extra_prefixes=_strings(data, "requestheader-extra-headers-prefix"),
                allowed_names=_strings(data, "requestheader-allowed-names"),
            )
        except ConfigError as error:
            _log.error(f"{NAME}: {error}")


def _authority(data: Mapping[str, str], key: str, last: Authority | None) -> Authority | None:
    """Returns the authority of an entry; the last one if it is invalid, None if it is absent."""
    pem = data.get(key, "").encode()
    if not pem:
        return None
    if last is not None and last.pem == pem:
        return last
    try:
        return Authority(pem, name=key)
    except ConfigError as error:
        _log.error(f"{NAME}: {error}")
        return last


def _strings(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key, "")
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise ConfigError(str(error), path=key) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise StreamBroken(f"cannot decode {NAME}: {error}") from error
    return value if isinstance(value, dict) else {}
