"""HttpTransport without a proxy: credentials, deadlines, pools, and the errors of a request.

Streams and proxies, which have a library of their own, are tested over sockets.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import httptools
import pytest

from mooring.client.transport.http import (
    CONNECTIONS,
    RETIRED_MAX,
    HttpTransport,
    failure_text,
)
from mooring.client.transport.transport import AnswerTooLong, Pool, Request
from mooring.errors import OutcomeUnknown, Unreachable
from tests.helpers.memory_network import OK, MemoryNetwork, some_rounds
from tests.helpers.running_scheduler import virtually

ASK = Request("POST", "/pods", deadline_s=5.0, body=b"{}")
DENIED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"


class Credentials:
    """Credentials that a test changes.

    Attributes:
        token: Of the next request; "" = no header.
        is_expired: Whether they must be renewed before a request.
        wait_s: How long a renewal takes.
        log: What was called.
    """

    def __init__(self, token: str = "old", tls: ssl.SSLContext | None = None) -> None:
        self.token = token
        self.generation = 0
        self.tls = tls
        self.is_expired = False
        self.wait_s = 0.0
        self.next_token = "new"
        self.log: list[str] = []

    def current_headers(self) -> Mapping[str, str] | None:
        if self.is_expired:
            return None
        return {"authorization": self.token} if self.token else {}

    async def headers(self) -> Mapping[str, str]:
        self.log.append("headers")
        await asyncio.sleep(self.wait_s)
        self.is_expired = False
        return {"authorization": self.token}

    async def renew(self) -> None:
        self.log.append("renew")
        await asyncio.sleep(self.wait_s)
        self.token = self.next_token


def tokens(network: MemoryNetwork) -> list[str]:
    """Returns the value of the header "authorization" of each request."""
    found = []
    for request in network.requests:
        lines = request.decode("latin-1").split("\r\n")
        found.append("".join(line[15:] for line in lines if line.startswith("authorization: ")))
    return found


def now_s() -> float:
    return asyncio.get_running_loop().time()


# ---- requests ----


@virtually
async def test_a_request_has_the_headers_of_transport_credentials_and_caller() -> None:
    network = MemoryNetwork(OK)
    transport = HttpTransport(
        "http://server/root/",
        authorization=Credentials("Bearer x"),
        user_agent="agent/1",
        extra_headers=[("impersonate-user", "me")],
    )
    response = await transport.request(ASK._replace(headers={"accept": "text/plain"}))
    assert (response.status, response.body) == (200, b"ok")
    assert network.requests == [
        b"POST /root/pods HTTP/1.1\r\nhost: server\r\naccept-encoding: identity\r\n"
        b"impersonate-user: me\r\nauthorization: Bearer x\r\naccept: text/plain\r\n"
        b"user-agent: agent/1\r\ncontent-length: 2\r\n\r\n{}"
    ]


@virtually
async def test_headers_of_the_caller_go_before_those_of_the_credentials() -> None:
    network = MemoryNetwork(OK)
    transport = HttpTransport("http://server", authorization=Credentials())
    await transport.request(ASK._replace(headers={"authorization": "own"}))
    assert tokens(network) == ["own"]


@virtually
async def test_a_server_may_have_another_name_in_its_certificate() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    network = MemoryNetwork(OK)
    credentials = Credentials(tls=tls)
    transport = HttpTransport(
        "https://10.0.0.1:6443", authorization=credentials, server_name="kubernetes"
    )
    await transport.request(ASK)
    assert network.opened == [("10.0.0.1", 6443, tls, "kubernetes")]


@virtually
async def test_each_pool_has_connections_of_its_own() -> None:
    network = MemoryNetwork()
    transport = HttpTransport("http://server")
    assert CONNECTIONS == {Pool.READ: 16, Pool.WRITE: 64, Pool.WATCH: 64, Pool.LEASE: 2}
    tasks = []
    for pool in (Pool.READ, Pool.WRITE, Pool.LEASE):
        before = len(network.links)
        tasks += [
            asyncio.create_task(transport.request(ASK._replace(pool=pool, deadline_s=1.0)))
            for _ in range(CONNECTIONS[pool] + 3)
        ]
        await some_rounds()
        assert len(network.links) - before == CONNECTIONS[pool]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    # Those that had no connection were not sent.
    assert sum(isinstance(result, Unreachable) for result in results) == 9
    assert sum(isinstance(result, OutcomeUnknown) for result in results) == 82


# ---- how a request ends ----


@virtually
async def test_a_request_without_a_response_may_have_happened() -> None:
    network = MemoryNetwork()
    transport = HttpTransport("http://server")
    with pytest.raises(OutcomeUnknown, match=r"^POST /pods: timeout: no response$"):
        await transport.request(ASK)
    assert now_s() == 5.0
    task = asyncio.create_task(transport.request(ASK))
    await some_rounds()
    network.links[-1].hang_up()
    hint = "; if it serves TLS, its URL must begin with https://"
    with pytest.raises(OutcomeUnknown) as caught:
        await task
    assert str(caught.value) == f"POST /pods: the server closed the connection{hint}"


@virtually
async def test_the_hint_at_tls_is_for_plain_http_alone() -> None:
    network = MemoryNetwork()
    task = asyncio.create_task(HttpTransport("https://server").request(ASK))
    await some_rounds()
    network.links[0].hang_up()
    with pytest.raises(OutcomeUnknown, match=r"^POST /pods: the server closed the connection$"):
        await task


@pytest.mark.parametrize(("connect_s", "deadline_s"), [(20.0, 5.0), (20.0, 30.0)])
@virtually
async def test_a_request_without_a_connection_did_not_happen(
    connect_s: float, deadline_s: float
) -> None:
    MemoryNetwork(OK, connect_s=connect_s)
    with pytest.raises(Unreachable, match=r"^POST /pods: timeout: no response$"):
        await HttpTransport("http://server").request(ASK._replace(deadline_s=deadline_s))
    assert now_s() == min(deadline_s, 10.0)


@virtually
async def test_a_refused_connection_is_named() -> None:
    MemoryNetwork(OK, refused=["server"])
    with pytest.raises(Unreachable, match=r"^POST /pods: Connection refused$"):
        await HttpTransport("http://server").request(ASK)


@virtually
async def test_a_response_that_is_too_long_is_named_by_its_request() -> None:
    MemoryNetwork(OK)
    with pytest.raises(AnswerTooLong, match=r"^POST /pods: more than 1 bytes$"):
        await HttpTransport("http://server").request(ASK._replace(bytes_max=1))


@virtually
async def test_a_request_is_not_written_after_its_deadline() -> None:
    """A process that was stopped for a while finds a connection that is ready."""
    network = MemoryNetwork(OK, connect_s=1.0)
    loop: Any = asyncio.get_running_loop()
    loop.call_at(1.0, lambda: loop._move_to(5.0))
    with pytest.raises(Unreachable, match="timeout: no response"):
        await HttpTransport("http://server").request(ASK)
    assert network.requests == []


# ---- credentials ----


@virtually
async def test_expired_credentials_are_renewed_before_a_request() -> None:
    network, credentials = MemoryNetwork(OK), Credentials("token")
    credentials.is_expired = True
    transport = HttpTransport("http://server", authorization=credentials)
    await transport.request(ASK)
    await transport.request(ASK)
    assert (tokens(network), credentials.log) == (["token", "token"], ["headers"])


@virtually
async def test_a_renewal_before_a_request_counts_for_its_deadline_and_nothing_happened() -> None:
    network, credentials = MemoryNetwork(OK), Credentials()
    credentials.is_expired, credentials.wait_s = True, 99.0
    transport = HttpTransport("http://server", authorization=credentials)
    with pytest.raises(Unreachable, match="timeout"):
        await transport.request(ASK)
    assert (now_s(), network.requests) == (5.0, [])


@virtually
async def test_without_a_token_there_is_no_header() -> None:
    network = MemoryNetwork(OK)
    await HttpTransport("http://server", authorization=Credentials("")).request(ASK)
    assert b"authorization" not in network.requests[0]


@virtually
async def test_a_request_that_is_unauthorized_is_sent_again_with_new_credentials() -> None:
    network, credentials = MemoryNetwork(), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    task = asyncio.create_task(transport.request(ASK))
    for response in (DENIED, OK):
        await some_rounds()
        network.links[0].send(response)
    assert (await task).body == b"ok"
    assert (tokens(network), credentials.log) == (["old", "new"], ["renew"])


@virtually
async def test_a_second_401_is_the_response() -> None:
    network, credentials = MemoryNetwork(DENIED), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    assert (await transport.request(ASK)).status == 401
    assert (len(network.requests), credentials.log) == (2, ["renew"])
    assert (await HttpTransport("http://server").request(ASK)).status == 401
    assert len(network.requests) == 3  # without credentials there are none to renew


@virtually
async def test_a_request_has_not_happened_while_its_credentials_are_renewed() -> None:
    network, credentials = MemoryNetwork(DENIED), Credentials()
    credentials.wait_s = 99.0
    transport = HttpTransport("http://server", authorization=credentials)
    with pytest.raises(Unreachable, match="timeout"):
        await transport.request(ASK)
    assert (now_s(), len(network.requests)) == (5.0, 1)


@virtually
async def test_a_request_that_was_sent_again_may_have_happened() -> None:
    network, credentials = MemoryNetwork(), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    task = asyncio.create_task(transport.request(ASK))
    await some_rounds()
    network.links[0].send(DENIED)
    with pytest.raises(OutcomeUnknown, match="timeout"):
        await task
    assert (now_s(), len(network.requests)) == (5.0, 2)


# ---- new certificates ----


@virtually
async def test_a_new_certificate_means_new_connections_and_requests_in_flight_go_on() -> None:
    first, second = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
    network, credentials = MemoryNetwork(), Credentials(tls=first)
    transport = HttpTransport("https://server", authorization=credentials)
    tasks = [asyncio.create_task(transport.request(ASK)) for _ in range(2)]
    await some_rounds()
    network.links[0].send(OK)
    await tasks[0]
    credentials.generation, credentials.tls = 1, second
    third = asyncio.create_task(transport.request(ASK))
    await some_rounds()
    assert [opened.ssl for opened in network.opened] == [first, first, second]
    assert [link.is_aborted for link in network.links] == [True, False, False]
    for link in network.links[1:]:
        link.send(OK)
    assert [(await task).body for task in (tasks[1], third)] == [b"ok", b"ok"]
    await some_rounds()
    # The old one ends with its response, the new one is used again.
    assert [link.is_aborted for link in network.links] == [True, True, False]
    network.response = OK
    await transport.request(ASK)
    assert len(network.links) == 3
    await transport.close()


@virtually
async def test_only_so_many_outdated_pools_have_requests_in_flight() -> None:
    network, credentials = MemoryNetwork(), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    tasks = []
    for generation in range(RETIRED_MAX + 2):
        credentials.generation = generation
        tasks.append(asyncio.create_task(transport.request(ASK)))
        await some_rounds()
    assert [link.is_aborted for link in network.links] == [True] + [False] * (RETIRED_MAX + 1)
    with pytest.raises(OutcomeUnknown, match="the server closed the connection"):
        await tasks[0]
    for link in network.links[1:]:
        link.send(OK)
    assert {(await task).body for task in tasks[1:]} == {b"ok"}


@virtually
async def test_outdated_pools_without_a_request_do_not_count() -> None:
    network, credentials = MemoryNetwork(), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    oldest = asyncio.create_task(transport.request(ASK))
    await some_rounds()
    for generation in range(1, 2 * RETIRED_MAX):
        credentials.generation = generation
        task = asyncio.create_task(transport.request(ASK))
        await some_rounds()
        network.links[-1].send(OK)
        await task
    assert not network.links[0].is_closing()
    network.links[0].send(OK)
    assert (await oldest).body == b"ok"


# ---- the end ----


@virtually
async def test_closing_ends_all_pools_and_outdated_ones_too() -> None:
    network, credentials = MemoryNetwork(), Credentials()
    transport = HttpTransport("http://server", authorization=credentials)
    tasks = [asyncio.create_task(transport.request(ASK))]
    await some_rounds()
    credentials.generation = 1
    requests = [ASK._replace(pool=pool) for pool in (Pool.READ, Pool.LEASE)]
    tasks += [asyncio.create_task(transport.request(request)) for request in requests]
    await some_rounds()
    await transport.close()
    assert [link.is_aborted for link in network.links] == [True] * 3
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {OutcomeUnknown}
    with pytest.raises(Unreachable, match=r"^the transport is closed$"):
        await transport.request(ASK)
    assert now_s() == 0.0


# ---- texts ----


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (aiohttp.ServerDisconnectedError(), "the server closed the connection"),
        (OSError(113, "x"), "No route to host"),
        (OSError("no address"), "OSError: no address"),
        (OSError(0, "odd"), "OSError: [Errno 0] odd"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError("cut"), "cut"),
        (ConnectionResetError(), "ConnectionResetError"),
        (ConnectionResetError(104, "x"), "Connection reset by peer"),
        (TimeoutError(), "timeout: no response"),
        (TimeoutError("late"), "timeout: no response"),
        (ssl.SSLError(1, "[SSL] bad"), "[SSL] bad"),
        (httptools.HttpParserError("bad"), "HttpParserError: bad"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_text_of_a_failure(error: BaseException, text: str) -> None:
    assert failure_text(error) == text
