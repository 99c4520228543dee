"""The door of the embedded API server, over real sockets and TLS, before a handler of the test's.

What the handler answers is the test's business; here only what happens to bytes, credentials and
limits counts.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from mooring.apiserver.http_server.http import Limits
from tests.integration.http_fixture import PODS, Handler, client, opened, run, status_of

# ---------------------------------------------------------------- requests


def test_a_request_reaches_the_handler_as_it_was_sent() -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as door, client(door) as session:
            path = "/api/v1/namespaces/a%2Fb/pods?labelSelector=a%3Db%2Cc&limit=5&x="
            result = await status_of(session.put(path, data=b'{"a": 1}', skip_auto_headers=["UA"]))

        assert result == (200, {})
        ((method, path, query, headers, body),) = handler.calls
        assert (method, path, body) == ("PUT", "/api/v1/namespaces/a/b/pods", b'{"a": 1}')
        assert query == [("labelSelector", "a=b,c"), ("limit", "5"), ("x", "")]
        assert headers["content-length"] == "8"

    run(test())


def test_a_client_that_waits_before_its_body_is_answered_at_once() -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as door, client(door) as session:
            # Without 100 the client of aiohttp waits for ever.
            sent = status_of(session.put(PODS, data=b'{"a": 1}', expect100=True))
            assert await asyncio.wait_for(sent, 20) == (200, {})
            large = io.BytesIO(b"x" * (Limits().body_bytes + 1))
            refused = session.put(PODS, data=large, expect100=True)
            code, _ = await asyncio.wait_for(status_of(refused), 20)

        assert code == 413
        assert [call[4] for call in handler.calls] == [b'{"a": 1}']

    run(test())


def test_the_handler_is_told_who_asks_and_nothing_secret() -> None:
    async def test() -> None:
        handler = Handler()
        forged = {"X-Remote-User": "somebody", "X-Remote-Group": "g", "Cookie": "c"}
        async with opened(handler) as door, client(door, "mooring") as session:
            await status_of(session.get(PODS, headers=forged))

        headers = handler.calls[0][3]
        assert headers["x-remote-user"] == "mooring"
        assert headers["x-remote-group"] == "system:authenticated"
        assert not {"authorization", "cookie"} & set(headers)

    run(test())


@pytest.mark.parametrize(
    ("token", "method", "path", "code"),
    [
        (None, "GET", "/healthz", 200),
        (None, "GET", "/version", 200),
        (None, "GET", PODS, 403),
        (None, "POST", PODS, 403),
        (None, "DELETE", "/healthz", 403),
        ("nobody", "GET", "/apis", 200),
        ("nobody", "POST", PODS, 403),
        ("system:kube-scheduler", "GET", PODS, 200),
        ("admin", "POST", PODS, 200),
    ],
)
def test_only_who_may_gets_through(token: str | None, method: str, path: str, code: int) -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as door, client(door, token) as session:
            result, body = await status_of(session.request(method, path, data=b"{}"))

        assert result == code
        assert len(handler.calls) == (code == 200)
        if code == 403:
            assert (body["kind"], body["reason"], body["code"]) == ("Status", "Forbidden", 403)

    run(test())


def test_an_unknown_token_is_401_even_where_nobody_needs_one() -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as door, client(door, None) as session:
            wrong = {"Authorization": "Bearer guessed"}
            result, body = await status_of(session.get("/healthz", headers=wrong))

        assert (result, body["reason"], handler.calls) == (401, "Unauthorized", [])

    run(test())


def test_a_revoked_token_is_401_on_the_same_connection() -> None:
    async def test() -> None:
        async with opened(Handler()) as door, client(door, None) as session:
            token = door.token()
            headers = {"Authorization": f"Bearer {token}"}
            before, _ = await status_of(session.get(PODS, headers=headers))
            door.tokens.revoke(token)
            after, _ = await status_of(session.get(PODS, headers=headers))

        assert (before, after) == (200, 401)

    run(test())


def test_a_client_certificate_is_enough(tmp_path: Path) -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as door:
            path = tmp_path / "client.pem"
            path.write_bytes(b"".join(door.client_certificate("ann", ("system:masters",))))
            context = ssl.create_default_context(cadata=door.authority.decode())
            context.load_cert_chain(path)
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(door.url, connector=connector) as session:
                result, _ = await status_of(session.post(PODS, data=b"{}"))

        assert result == 200
        assert handler.calls[0][3]["x-remote-user"] == "ann"
        assert handler.calls[0][3]["x-remote-group"] == "system:masters,system:authenticated"

    run(test())


def test_masters_may_speak_for_others_and_then_may_no_more_than_they() -> None:
    async def test() -> None:
        handler = Handler()
        as_mooring = {"Impersonate-User": "mooring"}
        async with opened(handler) as door:
            async with client(door) as session:
                seen, _ = await status_of(session.get(PODS, headers=as_mooring))
                refused, _ = await status_of(session.post(PODS, headers=as_mooring))
            async with client(door, "nobody") as session:
                result, body = await status_of(session.get(PODS, headers=as_mooring))

        assert (seen, refused) == (200, 403)
        assert handler.calls[0][3]["x-remote-user"] == "mooring"
        assert result == 403
        assert 'User "nobody" cannot impersonate resource "users"' in body["message"]

    run(test())


async def _in_parts(size: int) -> AsyncIterator[bytes]:
    for _ in range(size >> 16):
        yield bytes(1 << 16)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_has_at_most_3_mib(is_chunked: bool) -> None:
    async def test() -> None:
        handler = Handler()
        size = 3 << 20
        async with opened(handler) as door, client(door) as session:
            fits = _in_parts(size) if is_chunked else io.BytesIO(bytes(size))
            result, _ = await status_of(session.post(PODS, data=fits))
            too_big = _in_parts(size + (1 << 16)) if is_chunked else io.BytesIO(bytes(size + 1))
            refused, body = await status_of(session.post(PODS, data=too_big))

        assert result == 200
        assert len(handler.calls[0][4]) == size
        assert refused == 413
        assert body["message"] == "Request entity too large: limit is 3145728"
        assert len(handler.calls) == 1

    run(test())


def test_a_body_that_does_not_come_is_given_up() -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def test() -> None:
        limits = Limits(body_s=0.01)
        async with opened(Handler(), limits=limits) as door, client(door) as session:
            result, body = await status_of(session.post(PODS, data=stuck()))

        assert (result, body["reason"]) == (408, "Timeout")

    run(test())


def test_a_query_of_nothing_but_fields_is_refused() -> None:
    async def test() -> None:
        async with opened(Handler()) as door, client(door) as session:
            result, body = await status_of(session.get(f"{PODS}?" + "a=b&" * 500))

        assert (result, body["reason"]) == (400, "BadRequest")

    run(test())


def test_a_bug_of_the_handler_is_500_and_the_next_request_works() -> None:
    async def test() -> None:
        answers = iter([None, b"{}"])

        def answer() -> bytes:
            result = next(answers)
            if result is None:
                raise RuntimeError("secret detail")
            return result

        async with opened(Handler(answer)) as door, client(door) as session:
            result, body = await status_of(session.get(PODS))
            again, _ = await status_of(session.get(PODS))

        assert (result, body["reason"], again) == (500, "InternalError", 200)
        assert "secret detail" not in json.dumps(body)

    run(test())


@pytest.mark.parametrize(("size", "is_packed"), [(1000, False), (3_000_000, True)])
def test_large_answers_are_compressed_for_who_wants_it(size: int, is_packed: bool) -> None:
    async def test() -> None:
        async with opened(Handler(lambda: b"x" * size)) as door, client(door) as session:
            async with session.get(PODS, headers={"Accept-Encoding": "gzip"}) as response:
                assert await response.read() == b"x" * size
                assert (response.headers.get("Content-Encoding") == "gzip") is is_packed
            plain = {"Accept-Encoding": "identity"}
            async with session.get(PODS, headers=plain) as response:
                assert await response.read() == b"x" * size
                assert "Content-Encoding" not in response.headers

    run(test())
