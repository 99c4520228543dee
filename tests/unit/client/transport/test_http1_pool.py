"""Http1Pool: the bytes of a request, and which bytes are its response."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import httptools
import pytest

from mooring.client.transport.http1_pool import HEAD_BYTES_MAX, Http1Pool
from mooring.client.transport.transport import AnswerTooLong, Request, Response
from tests.helpers.memory_network import OK, MemoryNetwork, some_rounds
from tests.helpers.running_scheduler import virtually

GET = Request("GET", "/api", deadline_s=0.0)


def new_pool(url: str = "http://server", **options: Any) -> Http1Pool:
    defaults = {"tls": None, "server_name": None, "limit": 1, "user_agent": "agent"}
    return Http1Pool(url, **{**defaults, **options})


async def send(
    pool: Http1Pool,
    request: Request = GET,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = 60.0,
    is_sent: Callable[[], None] = lambda: None,
) -> Response:
    due_s = asyncio.get_running_loop().time() + seconds
    return await pool.request(request, headers or {}, is_sent, due_s=due_s)


async def answered(*parts: bytes, end: bool = False, request: Request = GET) -> Response:
    """Returns the response to a request that the server answers with these bytes."""
    network = MemoryNetwork()
    task = asyncio.create_task(send(new_pool(), request))
    await some_rounds()
    network.links[0].send(*parts)
    if end:
        network.links[0].hang_up()
    return await task


# ---- requests ----


@virtually
async def test_a_request_is_one_write_with_all_headers() -> None:
    network = MemoryNetwork(OK)
    pool = new_pool("http://me:secret@server:8080/root/", extra_headers=[("x-user", "zoé")])
    request = Request("POST", "/pods", 0.0, query=(("a", "b c"), ("d", "é")), body=b"{}")
    await send(pool, request, {"accept": "application/json", "x-odd": "1"})
    assert network.requests == [
        b"POST /root/pods?a=b+c&d=%C3%A9 HTTP/1.1\r\nhost: server:8080\r\n"
        b"accept-encoding: identity\r\nx-user: zo\xc3\xa9\r\naccept: application/json\r\n"
        b"x-odd: 1\r\nuser-agent: agent\r\ncontent-length: 2\r\n\r\n{}"
    ]


@pytest.mark.parametrize(
    ("method", "body", "has_length"),
    [
        ("GET", b"", False),
        ("DELETE", b"", False),
        ("DELETE", b"{}", True),
        ("GET", b"x", True),
        ("POST", b"", True),
        ("PUT", b"", True),
        ("PATCH", b"", True),
    ],
)
@virtually
async def test_a_body_has_a_length_and_so_has_a_missing_one_of_a_write(
    method: str, body: bytes, has_length: bool
) -> None:
    network = MemoryNetwork(OK)
    await send(new_pool(), Request(method, "/", 0.0, body=body))
    [text] = network.requests
    assert (f"content-length: {len(body)}\r\n".encode() in text) == has_length
    assert text.endswith(b"\r\n\r\n" + body)


@virtually
async def test_requests_with_other_headers_have_other_lines() -> None:
    network, pool = MemoryNetwork(OK), new_pool()
    headers = {"authorization": "old"}
    await send(pool, GET, headers)
    headers["authorization"] = "new"  # the same mapping
    await send(pool, GET, headers)
    await send(pool, GET, {"user-agent": "other"})
    await send(pool, GET)
    lines = [text.split(b"\r\n")[3:-2] for text in network.requests]
    assert lines == [
        [b"authorization: old", b"user-agent: agent"],
        [b"authorization: new", b"user-agent: agent"],
        [b"user-agent: other"],
        [b"user-agent: agent"],
    ]


@pytest.mark.parametrize("character", ["\r", "\n", "\0"])
@pytest.mark.parametrize("place", ["method", "path", "query name", "name", "value"])
@virtually
async def test_no_request_has_a_line_break_and_no_secret_is_in_the_error(
    character: str, place: str
) -> None:
    network, text = MemoryNetwork(OK), f"a{character}b"
    request, headers = GET, {}
    match place:
        case "method":
            request = GET._replace(method=text)
        case "path":
            request = GET._replace(path=f"/{text}")
        case "query name":  # is quoted
            request = GET._replace(query=((text, "1"),))
        case "name":
            headers = {text: "secret"}
        case _:
            headers = {"x-odd": f"secret{character}"}
    if place == "query name":
        await send(new_pool(), request)
        assert network.requests[0].startswith(b"GET /api?a%0")
        return
    with pytest.raises(ValueError, match="a line break in a") as caught:
        await send(new_pool(), request, headers)
    assert "secret" not in str(caught.value)
    assert network.opened == []


@virtually
async def test_refused_headers_are_not_remembered() -> None:
    network, pool = MemoryNetwork(OK), new_pool()
    for _ in range(2):
        with pytest.raises(ValueError, match="a line break in a header: 'x-odd'"):
            await send(pool, GET, {"x-odd": "a\nb"})
    assert network.requests == []


# ---- where to ----

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("http://server", {}, ("server", 80, None, None)),
        ("http://server:81", {"tls": CONTEXT, "server_name": "x"}, ("server", 81, None, None)),
        ("https://server", {}, ("server", 443, True, "server")),
        ("https://server:6443", {"tls": CONTEXT}, ("server", 6443, CONTEXT, "server")),
        ("https://10.0.0.1", {"server_name": "name"}, ("10.0.0.1", 443, True, "name")),
    ],
)
@virtually
async def test_a_connection_goes_to_the_host_and_port_of_the_url(
    url: str, options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    network = MemoryNetwork(OK)
    await send(new_pool(url, **options))
    assert network.opened == [expected]


@virtually
async def test_addresses_are_tried_in_their_order_until_one_accepts() -> None:
    asked: list[tuple[str, int]] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["10.0.0.1", "10.0.0.2", "10.0.0.3"]

    network = MemoryNetwork(OK, refused=["10.0.0.1"])
    pool = new_pool("https://server", look_up=look_up)
    await send(pool)
    assert [(it.host, it.server_hostname) for it in network.opened] == [
        ("10.0.0.1", "server"),
        ("10.0.0.2", "server"),
    ]
    assert asked == [("server", 443)]


@pytest.mark.parametrize(
    ("addresses", "text"),
    [(["10.0.0.1", "10.0.0.2"], "10.0.0.2 refused"), ([], "server has no address")],
)
@virtually
async def test_if_no_address_accepts_the_last_error_is_raised_and_nothing_was_sent(
    addresses: list[str], text: str
) -> None:
    async def look_up(host: str, port: int) -> list[str]:
        return addresses

    network, sent = MemoryNetwork(OK, refused=addresses), []
    pool = new_pool(look_up=look_up)
    with pytest.raises(OSError, match=text):
        await send(pool, is_sent=lambda: sent.append(1))
    assert len(network.opened) == len(addresses)
    assert (sent, pool.connections) == ([], 0)


# ---- responses ----

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "status", "body"),
    [
        (OK, 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\nabcd", 500, b"abcd"),
        (CHUNKED + b"2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nX-T: 1\r\n\r\n", 200, b"abcde"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b""),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
@virtually
async def test_a_response_is_read_in_pieces_of_any_size(
    text: bytes, status: int, body: bytes, size: int
) -> None:
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    response = await answered(*parts)
    assert (response.status, response.body) == (status, body)


@virtually
async def test_headers_of_a_response_are_its_own() -> None:
    text = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nVia: a\r\nvia: b\r\n"
    response = await answered(text + b"content-length: 0\r\n\r\n")
    assert dict(response.headers) == {"via": "a, b", "content-length": "0"}


@virtually
async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    response = await answered(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it", end=True)
    assert response.body == b"all of it"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        CHUNKED + b"2\r\nab\r\n",
        b"HTTP/1.1 103 Early\r\n\r\n",
    ],
)
@virtually
async def test_a_response_that_is_cut_off_is_an_error(text: bytes) -> None:
    with pytest.raises(ConnectionResetError, match=r"^the server closed the connection$"):
        await answered(text, end=True)


@virtually
async def test_a_response_without_a_length_is_not_complete_when_its_connection_fails() -> None:
    network = MemoryNetwork()
    task = asyncio.create_task(send(new_pool()))
    await some_rounds()
    network.links[0].send(b"HTTP/1.1 200 OK\r\n\r\nall ")
    network.links[0].hang_up(ConnectionResetError(104, "reset"))
    with pytest.raises(ConnectionResetError, match="reset"):
        await task


@virtually
async def test_a_response_without_a_length_is_not_complete_at_its_deadline() -> None:
    network, pool = MemoryNetwork(), new_pool()
    task = asyncio.create_task(send(pool, seconds=5.0))
    await some_rounds()
    network.links[0].send(b"HTTP/1.1 200 OK\r\n\r\nall ")
    with pytest.raises(TimeoutError):
        await task
    assert network.links[0].is_aborted


@virtually
async def test_what_is_no_http_is_an_error_and_ends_the_connection() -> None:
    network, pool = MemoryNetwork(b"SSH-2.0-x\r\n\r\n"), new_pool()
    with pytest.raises(httptools.HttpParserError):
        await send(pool)
    await some_rounds()
    assert network.links[0].is_aborted
    assert pool.connections == 0


@pytest.mark.parametrize("framed", [True, False])
@virtually
async def test_a_body_may_be_as_long_as_the_request_allows_and_no_longer(framed: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n" if framed else CHUNKED
    parts = [head, b"abcdef"] if framed else [head, b"3\r\nabc\r\n", b"3\r\ndef\r\n", b"0\r\n\r\n"]
    exact = GET._replace(bytes_max=6)
    assert (await answered(*parts, request=exact)).body == b"abcdef"
    with pytest.raises(AnswerTooLong, match=r"^GET /api: more than 5 bytes$"):
        await answered(*parts, request=GET._replace(bytes_max=5))


@virtually
async def test_the_size_of_a_body_does_not_count_for_the_next_one() -> None:
    network, pool = MemoryNetwork(OK), new_pool()
    for _ in range(3):
        assert (await send(pool, GET._replace(bytes_max=2))).body == b"ok"
    assert len(network.links) == 1


@virtually
async def test_a_head_has_a_limit() -> None:
    start = b"HTTP/1.1 200 OK\r\nx: "
    end = b"\r\ncontent-length: 0\r\n\r\n"
    longest = b"a" * (HEAD_BYTES_MAX - len(start) - len(end))
    assert (await answered(start, longest, end)).status == 200
    with pytest.raises(AnswerTooLong, match=f"a head of more than {HEAD_BYTES_MAX} bytes"):
        await answered(start, longest + b"a", end)


@virtually
async def test_a_part_of_a_body_may_be_longer_than_a_head() -> None:
    body = b"a" * (HEAD_BYTES_MAX + 1)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert (await answered(head, body)).body == body


@virtually
async def test_the_head_of_an_informational_response_counts() -> None:
    interim = b"HTTP/1.1 103 Early\r\nlink: " + b"x" * 100_000 + b"\r\n\r\n"
    with pytest.raises(AnswerTooLong, match="a head of more than"):
        await answered(*[interim] * 11)


@virtually
async def test_trailers_have_a_limit_and_data_between_lengths_of_chunks_do_not_add_up() -> None:
    part = b"1;" + b"x" * 10_000 + b"\r\na\r\n"
    response = await answered(CHUNKED, *[part] * 120, b"0\r\n\r\n")
    assert response.body == b"a" * 120
    with pytest.raises((AnswerTooLong, httptools.HttpParserError)):
        await answered(CHUNKED, b"0\r\n", *[b"x-t: " + b"y" * 50_000 + b"\r\n"] * 25)


@virtually
async def test_trailers_of_one_response_do_not_count_for_the_next() -> None:
    trailer = b"0\r\nx: " + b"a" * (HEAD_BYTES_MAX // 10) + b"\r\n\r\n"
    network, pool = MemoryNetwork(CHUNKED + trailer), new_pool()
    for _ in range(12):
        assert (await send(pool)).status == 200
    assert len(network.links) == 1


@virtually
async def test_neither_a_head_nor_the_trailers_before_it_count_for_what_follows() -> None:
    network, pool = MemoryNetwork(), new_pool()
    tenths = HEAD_BYTES_MAX // 10
    start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx: "
    for _ in range(2):
        task = asyncio.create_task(send(pool))
        await some_rounds()
        head = (start, b"a" * 3 * tenths, b"a" * 3 * tenths, b"\r\n\r\n")
        network.links[0].send(*head, b"0\r\nx-t: ", b"b" * 6 * tenths, b"\r\n\r\n")
        assert (await task).status == 200
    assert len(network.links) == 1
