"""The way to an extender over real sockets: good ones, bad ones, and none at all."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mooring.apiserver.http_server.certificates import Authority, Pair
from mooring.clock import SystemClock
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError
from mooring.extenders.http import HttpExtenderTransport, NoResponse
from mooring.extenders.tls import tls_context

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

LIMIT = 1 << 20
ANSWER = b'{"NodeNames": ["a"]}'


def made(url: str, **parts: Any) -> HttpExtenderTransport:
    config = Extender(url_prefix=url, **parts)
    tls = config.tls_config
    return HttpExtenderTransport(
        url,
        timeout_s=config.http_timeout_s,
        tls=tls_context(config, "extenders[0]"),
        server_name=tls.server_name if tls else "",
    )


@asynccontextmanager
async def serving(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


async def good(request: web.Request) -> web.Response:
    return web.Response(body=ANSWER)


async def asked(
    url: str, *, limit: int = LIMIT, times: int = 1, **parts: Any
) -> bytes | NoResponse:
    """Returns what comes of asking (the last time)."""
    post = made(url, **parts)
    found: bytes | NoResponse = b""
    try:
        for _ in range(times):
            try:
                found = await post("filter", b"{}", limit)
            except NoResponse as error:
                found = error
    finally:
        await post.close()
    return found


def test_a_question_is_a_post_of_json_to_prefix_and_verb() -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.content_type, await request.read()))
        seen.append(request.headers["accept-encoding"])
        return web.Response(body=ANSWER)

    async def ask() -> None:
        async with serving(answer) as url:
            assert await asked(f"{url}/plugins//") == ANSWER

    asyncio.run(ask())
    assert seen == [("POST", "/plugins/filter", "application/json", b"{}"), "identity"]


@pytest.mark.parametrize("code", [201, 302, 400, 404, 500, 503])
def test_only_200_is_an_answer_and_redirects_lead_nowhere(code: int) -> None:
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=code, headers={"location": "/elsewhere"}, body=ANSWER)

    async def ask() -> None:
        async with serving(answer) as url:
            found = await asked(url)
            assert str(found) == f"failed filter with extender at URL {url}/filter, code {code}"

    asyncio.run(ask())
    assert paths == ["/filter"]


def test_an_answer_that_does_not_end_is_broken_off() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65536)
            sent += 65536

    async def ask() -> None:
        async with serving(endless) as url:
            found = await asked(url)
            assert str(found).endswith(f"its answer is longer than {LIMIT} bytes")

    asyncio.run(ask())
    assert sent < 16 * LIMIT


def test_an_answer_that_takes_too_long_is_none() -> None:
    async def slow(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async def drips(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await asyncio.sleep(0.01)

    async def ask() -> None:
        for answer in (slow, drips):
            async with serving(answer) as url:
                found = await asked(url, http_timeout_s=0.2)
                assert isinstance(found, NoResponse)
                assert found.is_sent
                assert str(found) == f'Post "{url}/filter": no answer in 0.2 s'

    asyncio.run(ask())


def test_encoded_answers_are_not_taken() -> None:
    async def bomb(request: web.Request) -> web.Response:
        return web.Response(body=b"\x1f\x8b", headers={"content-encoding": "gzip"})

    async def ask() -> None:
        async with serving(bomb) as url:
            assert 'is encoded as "gzip"' in str(await asked(url))

    asyncio.run(ask())


def test_where_nobody_listens_nothing_was_sent() -> None:
    async def ask() -> None:
        async with serving(good) as url:
            pass
        found = await asked(url)
        assert isinstance(found, NoResponse)
        assert not found.is_sent
        assert str(found).startswith(f'Post "{url}/filter": ')

    asyncio.run(ask())


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 200 OK\r\n" * 9000]
)
def test_what_is_no_http_is_no_answer(said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            found = await asked(f"http://{host}:{port}")
            assert isinstance(found, NoResponse)
            assert found.is_sent

    asyncio.run(ask())


def test_a_head_that_does_not_end_is_broken_off() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nx: ")
        try:
            while True:
                writer.write(b"y" * 65536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            found = await asked(f"http://{host}:{port}", http_timeout_s=30.0)
            assert "its answer is longer than" in str(found)

    asyncio.run(ask())


def test_a_password_is_sent_and_never_shown() -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["authorization"])
        return web.Response(status=403)

    async def ask() -> None:
        async with serving(answer) as url:
            place = url.removeprefix("http://")
            found = await asked(f"http://me:se%20cret@{place}")
            assert str(found).endswith(f"at URL http://me:***@{place}/filter, code 403")

    asyncio.run(ask())
    assert seen == ["Basic " + base64.b64encode(b"me:se cret").decode()]


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    async def ask() -> None:
        async with serving(good) as url:
            assert await asked(url) == ANSWER

    asyncio.run(ask())


@pytest.mark.parametrize("url", ["x", "ftp://there", "http://", "http://[::1"])
def test_urls_that_lead_nowhere(url: str) -> None:
    found = asyncio.run(asked(url))
    assert str(found).startswith(f'Post "{url.rstrip("/")}/filter": ')


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.1.1]", "100.100.100.200"],
)
def test_metadata_servers_are_never_asked(host: str) -> None:
    with pytest.raises(ConfigError, match="must not be at a link-local or metadata address"):
        made(f"http://{host}/latest")


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "169.254.43518"])
def test_not_even_if_their_address_is_written_otherwise(host: str) -> None:
    found = asyncio.run(asked(f"http://{host}/latest"))
    assert isinstance(found, NoResponse)
    assert not found.is_sent
    assert "metadata address 169.254.169.254" in str(found)


# ---- TLS ----


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(SystemClock())


def context_of(pair: Pair, tmp_path: Path, client_authority: bytes = b"") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, content in (("crt", pair.certificate), ("key", pair.key)):
        (tmp_path / f"server.{name}").write_bytes(content)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    if client_authority:
        context.load_verify_locations(cadata=client_authority.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def over_tls(context: ssl.SSLContext, **tls: Any) -> bytes | NoResponse:
    async def ask() -> bytes | NoResponse:
        async with serving(good, tls=context) as url:
            trust = ExtenderTLSConfig(**tls)
            return await asked(url, enable_https=True, tls_config=trust)

    return asyncio.run(ask())


def test_a_server_is_verified(authority: Authority, tmp_path: Path) -> None:
    context = context_of(authority.server(), tmp_path)
    assert over_tls(context, ca_data=encoded(authority.certificate)) == ANSWER
    stranger = Authority(SystemClock()).certificate
    assert "CERTIFICATE_VERIFY_FAILED" in str(over_tls(context, ca_data=encoded(stranger)))
    assert over_tls(context, insecure=True) == ANSWER


def test_data_count_for_more_than_files(authority: Authority, tmp_path: Path) -> None:
    context = context_of(authority.server(), tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    assert over_tls(context, ca_file=str(tmp_path / "ca.crt")) == ANSWER
    data = encoded(authority.certificate)
    assert over_tls(context, ca_file="/nowhere/ca.crt", ca_data=data) == ANSWER


def test_a_server_name_may_be_another_one_than_the_url_s(
    authority: Authority, tmp_path: Path
) -> None:
    context = context_of(authority.server(["extender.shop.svc"]), tmp_path)
    data = encoded(authority.certificate)
    assert "CERTIFICATE_VERIFY_FAILED" in str(over_tls(context, ca_data=data))
    assert over_tls(context, ca_data=data, server_name="extender.shop.svc") == ANSWER


def test_we_show_our_certificate(authority: Authority, tmp_path: Path) -> None:
    context = context_of(authority.server(), tmp_path, authority.certificate)
    data = encoded(authority.certificate)
    assert isinstance(over_tls(context, ca_data=data), NoResponse)
    ours = authority.client("mooring")
    shown = {"cert_data": encoded(ours.certificate), "key_data": encoded(ours.key)}
    assert over_tls(context, ca_data=data, **shown) == ANSWER
    (tmp_path / "our.crt").write_bytes(ours.certificate)
    (tmp_path / "our.key").write_bytes(ours.key)
    files = {"cert_file": str(tmp_path / "our.crt"), "key_file": str(tmp_path / "our.key")}
    assert over_tls(context, ca_data=data, **files) == ANSWER


def test_certificates_that_cannot_be_used_are_refused_when_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    junk = str(tmp_path / "junk")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"ca_file": "/nowhere"}, "tlsConfig.caFile"),
        ({"ca_file": junk}, "tlsConfig.caFile"),
        ({"ca_data": encoded(b"junk")}, "tlsConfig.caData"),
        ({"cert_file": junk}, "tlsConfig.keyFile"),
        ({"key_data": encoded(b"junk")}, "tlsConfig.certFile"),
        ({"cert_file": junk, "key_file": junk}, "tlsConfig"),
    )
    for tls, path in cases:
        with pytest.raises(ConfigError) as caught:
            made("https://there", tls_config=ExtenderTLSConfig(**tls))
        assert caught.value.path == f"extenders[0].{path}"
