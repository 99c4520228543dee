"""The calls of an extender over HTTP: where they go, what is a response, and the texts of errors.

The texts are those of Go's HTTP client and of kube-scheduler v1.36.3 (extender.go, send).
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from typing import Any

import pytest

from mooring.extenders.http import HttpExtenderTransport, NoResponse
from tests.helpers.memory_network import OK, MemoryNetwork, some_rounds
from tests.helpers.running_scheduler import virtually

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
LIMIT = 1000


def network_of(response: bytes | None = OK, **options: Any) -> MemoryNetwork:
    return MemoryNetwork(response, **{"addresses": {"one": ["10.0.0.1"]}, **options})


def transport(url: str = "http://one", *, timeout_s: float = 5.0, **options: Any) -> Any:
    return HttpExtenderTransport(url, timeout_s=timeout_s, tls=TLS, **options)


async def failure(post: HttpExtenderTransport, limit: int = LIMIT) -> NoResponse:
    """Returns the error of a call."""
    with pytest.raises(NoResponse) as caught:
        await post("filter", b"{}", limit)
    return caught.value


def seen(error: NoResponse) -> tuple[str, bool, bool]:
    return str(error), error.is_sent, error.is_cut_off


# ---- requests ----


@virtually
async def test_a_call_is_a_post_of_json_to_prefix_and_verb() -> None:
    network = network_of()
    assert await transport("http://one:8080/root/")("filter", b"{}", LIMIT) == b"ok"
    assert network.requests == [
        b"POST /root/filter HTTP/1.1\r\nhost: one:8080\r\naccept-encoding: identity\r\n"
        b"content-type: application/json\r\nuser-agent: mooring\r\ncontent-length: 2\r\n\r\n{}"
    ]
    assert [(it.host, it.port) for it in network.opened] == [("10.0.0.1", 8080)]


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("http://me:secret@one", b"me:secret"),
        ("http://m%40e:s%3A@one:80", b"m@e:s:"),
        ("http://me@one", b"me:"),
        ("http://:pw@one", b":pw"),
    ],
)
@virtually
async def test_user_and_password_are_sent_in_a_header_alone(url: str, user: bytes) -> None:
    network = network_of()
    await transport(url)("filter", b"{}", LIMIT)
    [text] = network.requests
    assert b"\r\nauthorization: Basic " + b64encode(user) + b"\r\n" in text
    assert b"@" not in text


@pytest.mark.parametrize(
    ("url", "server_name", "expected"),
    [
        ("http://one", "other", (None, None)),
        ("https://one", "", (TLS, "one")),
        ("https://one", "other", (TLS, "other")),
    ],
)
@virtually
async def test_https_has_the_context_and_the_name_of_the_server(
    url: str, server_name: str, expected: tuple[Any, Any]
) -> None:
    network = network_of()
    await transport(url, server_name=server_name)("filter", b"{}", LIMIT)
    [opened] = network.opened
    assert (opened.ssl, opened.server_hostname) == expected


@virtually
async def test_a_connection_is_used_again_and_closed_at_the_end() -> None:
    network, post = network_of(), transport()
    for _ in range(3):
        await post("bind", b"{}", LIMIT)
    assert [link.is_aborted for link in network.links] == [False]
    await post.close()
    assert [link.is_aborted for link in network.links] == [True]
    await post.close()
    # It may be used after that: a new pool is made.
    assert await post("bind", b"{}", LIMIT) == b"ok"
    await post.close()


@virtually
async def test_sixty_four_bindings_are_sent_at_once() -> None:
    network, post = network_of(None), transport()
    tasks = [asyncio.create_task(post("bind", b"{}", LIMIT)) for _ in range(66)]
    await some_rounds()
    assert len(network.links) == 64
    for task in tasks:
        task.cancel()
    await post.close()


class Pair:
    """A client certificate whose files are read again."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1
        if self.error:
            raise self.error


@virtually
async def test_the_client_certificate_is_read_again_for_each_connection() -> None:
    network, pair = network_of(), Pair()
    post = transport("https://one", pair=pair)
    await post("filter", b"{}", LIMIT)
    await post("filter", b"{}", LIMIT)
    assert pair.refreshed == 1
    network.links[0].hang_up()
    await some_rounds()
    await post("filter", b"{}", LIMIT)
    assert pair.refreshed == 2
    pair.error = OSError("client certificate x: cannot be used")
    network.links[1].hang_up()
    text = 'Post "https://one/filter": client certificate x: cannot be used'
    assert seen(await failure(post)) == (text, False, False)


# ---- responses ----


@pytest.mark.parametrize("status", [201, 204, 302, 400, 404, 500])
@virtually
async def test_only_200_is_a_response(status: int) -> None:
    network_of(b"HTTP/1.1 %d X\r\nlocation: http://two/\r\ncontent-length: 0\r\n\r\n" % status)
    text = f"failed filter with extender at URL http://me:***@one/filter, code {status}"
    assert seen(await failure(transport("http://me:pw@one"))) == (text, True, False)


@pytest.mark.parametrize(
    ("coding", "is_taken"),
    [("identity", True), ("gzip", False), ("deflate", False), ("br", False), ('"x', False)],
)
@virtually
async def test_a_response_must_not_be_encoded(coding: str, is_taken: bool) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\ncontent-length: 2\r\n\r\n".encode()
    network_of(head + b"{}")
    post = transport()
    if is_taken:
        assert await post("filter", b"{}", LIMIT) == b"{}"
        return
    quoted = '"' + coding.replace('"', '\\"') + '"'
    text = f'Post "http://one/filter": its answer is encoded as {quoted}'
    assert seen(await failure(post)) == (text, True, False)


@virtually
async def test_a_response_may_be_as_long_as_the_caller_allows() -> None:
    network_of()
    post = transport()
    assert await post("filter", b"{}", 2) == b"ok"
    text = 'Post "http://one/filter": its answer is longer than 1 bytes'
    assert seen(await failure(post, 1)) == (text, True, False)


@pytest.mark.parametrize(
    ("timeout_s", "expected_s"), [(2.5, 2.5), (0.0, 5.0), (-1.0, 5.0), (7.0, 7.0), (0.5, 0.5)]
)
@virtually
async def test_a_call_has_the_timeout_of_the_configuration_or_5_s(
    timeout_s: float, expected_s: float
) -> None:
    network = network_of(None)
    post = transport(timeout_s=timeout_s)
    text = f'Post "http://one/filter": no answer in {expected_s:g} s'
    assert seen(await failure(post)) == (text, True, False)
    assert asyncio.get_running_loop().time() == expected_s
    assert len(network.requests) == 1


@virtually
async def test_a_call_that_is_late_before_a_connection_is_open_was_not_sent() -> None:
    network_of(connect_s=6.0)
    text = 'Post "http://one/filter": no answer in 5 s'
    assert seen(await failure(transport())) == (text, False, False)


@virtually
async def test_a_call_that_is_refused_was_not_sent() -> None:
    network_of(refused=["10.0.0.1"])
    text = 'Post "http://one/filter": [Errno 111] 10.0.0.1 refused'
    assert seen(await failure(transport())) == (text, False, False)


@pytest.mark.parametrize(
    ("error", "text", "is_cut_off"),
    [
        (None, "the server closed the connection", True),
        (ConnectionResetError(), "ConnectionResetError", True),
        (OSError(113, "No route to host"), "[Errno 113] No route to host", False),
    ],
)
@virtually
async def test_a_call_may_be_cut_off(error: Any, text: str, is_cut_off: bool) -> None:
    network = network_of(None)
    task = asyncio.create_task(failure(transport()))
    await some_rounds()
    network.links[0].hang_up(error)
    assert seen(await task) == (f'Post "http://one/filter": {text}', True, is_cut_off)


@virtually
async def test_what_is_no_http_is_no_response() -> None:
    network_of(b"SSH-2.0-x\r\n\r\n")
    text, *flags = seen(await failure(transport("http://me:pw@one")))
    assert text.startswith('Post "http://me:***@one/filter": ')
    assert flags == [True, False]


# ---- addresses ----


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://one", 'unsupported protocol scheme "ftp"'),
        ("one/x", 'unsupported protocol scheme ""'),
        ("http://", "no Host in request URL"),
        ("https:///x", "no Host in request URL"),
    ],
)
@virtually
async def test_a_url_that_cannot_be_used_fails_every_call(url: str, problem: str) -> None:
    network, post = network_of(), transport(url)
    for _ in range(2):
        text = f'Post "{url.rstrip("/")}/filter": {problem}'
        assert seen(await failure(post)) == (text, False, False)
    assert network.opened == []


@pytest.mark.parametrize("addresses", [["169.254.169.254"], ["10.0.0.1", "fe80::1%eth0"]])
@virtually
async def test_a_host_must_not_have_a_forbidden_address(addresses: list[str]) -> None:
    network = network_of(addresses={"one": addresses})
    problem = f"one is at the link-local or metadata address {addresses[-1]}"
    text = f'Post "http://one/filter": {problem}'
    assert seen(await failure(transport())) == (text, False, False)
    assert network.opened == []


@virtually
async def test_a_name_that_cannot_be_resolved_fails_the_call() -> None:
    network = network_of()
    text = 'Post "http://two/filter": [Errno -2] Name or service not known'
    assert seen(await failure(transport("http://two"))) == (text, False, False)
    network.addresses = {"two": ["10.0.0.2", "10.0.0.3"]}
    network.refused = ["10.0.0.2"]
    assert await transport("http://two")("filter", b"{}", LIMIT) == b"ok"
    assert [it.host for it in network.opened] == ["10.0.0.2", "10.0.0.3"]
