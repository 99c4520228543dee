"""The door of an extender: HTTPS, limits, health, metrics, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mooring.apiserver.certificates import Authority
from mooring.clock import SystemClock
from mooring.errors import ConfigError
from mooring.framework import NodeInfo, Status, per_node
from mooring.serving.extender import Extender
from mooring.serving.extender_http import ServeOptions, serve
from mooring.state import PodInfo

BODY = b'{"Pod": {"metadata": {"name": "web"}}, "NodeNames": ["a"]}'


class Anything:
    name = "Anything"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


def extender() -> Extender:
    return Extender([Anything()], clock=SystemClock())


def asked(requests: list[tuple[str, str, bytes]], **options: Any) -> list[tuple[int, str]]:
    """The answers to requests: status and text."""

    async def ask() -> list[tuple[int, str]]:
        found = []
        chosen = ServeOptions(port=0, **options)
        async with (
            serve(extender(), chosen, clock=SystemClock()) as url,
            aiohttp.ClientSession() as session,
        ):
            for method, path, body in requests:
                async with session.request(method, url + path, data=body) as response:
                    found.append((response.status, await response.text()))
        return found

    return asyncio.run(ask())


def test_any_prefix_is_fine_and_other_verbs_are_not() -> None:
    found = asked(
        [("POST", "/filter", BODY), ("POST", "/a/b/filter", BODY), ("POST", "/guess", BODY)]
    )
    assert [status for status, _ in found] == [200, 200, 404]
    assert '"NodeNames":["a"]' in found[1][1]


def test_health_and_metrics() -> None:
    paths = ["/healthz", "/livez", "/readyz", "/"]
    requests = [("GET", path, b"") for path in paths]
    found = asked([*requests, ("POST", "/prioritize", b"{}"), ("GET", "/metrics", b"")])
    assert [status for status, _ in found] == [200, 200, 200, 200, 400, 200]
    assert 'mooring_extender_requests_total{code="400",verb="prioritize"} 1.0' in found[-1][1]
    assert 'mooring_extender_request_duration_seconds_count{verb="prioritize"}' in found[-1][1]


def test_a_body_that_is_too_long_is_refused() -> None:
    found = asked([("POST", "/filter", b" " * 2000)], body_bytes_max=1000)
    assert found == [(413, "the body is longer than 1000 bytes\n")]


def test_it_is_not_ready_before_the_cluster_is_known() -> None:
    async def ask() -> int:
        served = serve(
            extender(), ServeOptions(port=0), clock=SystemClock(), is_ready=lambda: False
        )
        async with (
            served as url,
            aiohttp.ClientSession() as session,
            session.get(f"{url}/readyz") as response,
        ):
            return response.status

    assert asyncio.run(ask()) == 503


def written(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_https_for_those_who_show_a_certificate(tmp_path: Path) -> None:
    authority = Authority(SystemClock())
    own, friend = authority.server(), authority.client("kube-scheduler")
    options = ServeOptions(
        port=0,
        tls_cert_file=written(tmp_path, "tls.crt", own.certificate),
        tls_private_key_file=written(tmp_path, "tls.key", own.key),
        client_ca_file=written(tmp_path, "ca.crt", authority.certificate),
    )
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    known = ssl.create_default_context(cadata=authority.certificate.decode())
    known.load_cert_chain(written(tmp_path, "me.pem", friend.certificate + friend.key))

    async def ask(context: ssl.SSLContext) -> int:
        async with (
            serve(extender(), options, clock=SystemClock()) as url,
            aiohttp.ClientSession() as session,
            session.get(f"{url}/healthz", ssl=context) as response,
        ):
            assert url.startswith("https://")
            return response.status

    assert asyncio.run(ask(known)) == 200
    with pytest.raises(aiohttp.ClientError):
        asyncio.run(ask(trusting))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tls_cert_file": "x"}, "--tls-private-key-file: is needed, too"),
        ({"tls_private_key_file": "x"}, "--tls-cert-file: is needed, too"),
        ({"client_ca_file": "x"}, "--client-ca-file: needs --tls-cert-file, too"),
        ({"tls_cert_file": "none", "tls_private_key_file": "none"}, "none: cannot be used"),
    ],
)
def test_certificates_that_cannot_be_used(options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        asked([], **options)


def test_a_port_that_is_taken() -> None:
    async def twice() -> None:
        async with serve(extender(), ServeOptions(port=0), clock=SystemClock()) as url:
            port = int(url.rpartition(":")[2])
            async with serve(extender(), ServeOptions(port=port), clock=SystemClock()):
                pass

    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:[0-9]+: "):
        asyncio.run(twice())
