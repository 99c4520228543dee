"""The door of an extender over real sockets: limits, health, metrics, TLS, and a graceful stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mooring.apiserver.http_server.certificates import Authority
from mooring.clock import SystemClock
from mooring.errors import ConfigError
from mooring.extender_server.http import serve
from mooring.extender_server.options import ServeOptions
from mooring.extender_server.plugin_extender import Extender
from mooring.framework import Reject, per_node
from mooring.objects.pod import Pod

POD = {"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {}}
ASKED = {"Pod": POD, "NodeNames": ["a", "b"]}
BINDING = {"PodNamespace": "default", "PodName": "web", "PodUID": "1", "Node": "a"}

TOKEN = "a-token-of-the-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}


def token_in(folder: Path) -> str:
    path = folder / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


class NotB:
    """Refuses b."""

    name = "NotB"

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        return Reject("is b") if node.name == "b" else None


Talk = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def talking(talk: Talk, *, bind: Any = None, **options: Any) -> None:
    """Runs a server and sends requests to it."""
    is_ready = options.pop("is_ready", lambda: True)

    async def main() -> None:
        clock = SystemClock()
        extender = Extender([NotB()], clock=clock, bind=bind)
        served = serve(extender, ServeOptions(port=0, **options), clock=clock, is_ready=is_ready)
        async with asyncio.timeout(20), served as url, aiohttp.ClientSession() as session:
            await talk(session, url)

    asyncio.run(main())


def test_questions_are_answered_under_any_path() -> None:
    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        for path in ("/filter", "/my/plugins/filter"):
            async with session.post(url + path, json=ASKED) as answer:
                assert answer.status == 200
                assert answer.content_type == "application/json"
                found = await answer.json()
        assert found["NodeNames"] == ["a"]
        assert found["FailedNodes"] == {"b": "is b"}
        async with session.post(url + "/filters", json=ASKED) as answer:
            assert answer.status == 404
        async with session.get(url + "/filter") as answer:
            assert answer.status == 405

    talking(talk)


def test_bad_bodies_stand_in_the_error_or_are_refused() -> None:
    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url + "/filter", data=b"{", headers=JSON) as answer:
            assert answer.status == 200
            assert "is no JSON" in (await answer.json())["Error"]
        async with session.post(url + "/prioritize", data=b"{", headers=JSON) as answer:
            assert answer.status == 400

    talking(talk)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused(is_chunked: bool) -> None:
    async def parts() -> Any:
        for _ in range(64):
            yield b"x" * 1024

    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        data: Any = parts() if is_chunked else b"x" * 65536
        async with session.post(url + "/filter", data=data, headers=JSON) as answer:
            assert answer.status == 413
            assert await answer.text() == "the body is longer than 1000 bytes\n"
        async with session.post(url + "/filter", json=ASKED) as answer:
            assert answer.status == 200

    talking(talk, body_bytes_max=1000)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({**JSON, "Content-Encoding": "gzip"}, 415),
        ({**JSON, "Content-Encoding": "deflate"}, 415),
        ({**JSON, "Origin": "http://page.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({**JSON, "Host": "page.example:8888"}, 421),
        ({**JSON, "Host": "localhost:8888"}, 200),
        ({**JSON, "Host": "[::1]:8888"}, 200),
    ],
)
def test_what_a_web_page_can_send_is_refused(more: dict[str, str], status: int) -> None:
    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        body = json.dumps(ASKED).encode()
        async with session.post(url + "/filter", data=body, headers=more) as answer:
            assert answer.status == status

    talking(talk)


@pytest.mark.parametrize(
    ("options", "binds", "path"),
    [
        ({}, True, "--kubeconfig"),
        ({"host": "::1"}, True, "--kubeconfig"),
        ({"host": "0.0.0.0"}, False, "--host"),
        ({"host": "::"}, False, "--host"),
    ],
)
def test_without_credentials_it_neither_binds_nor_listens_to_others(
    options: dict[str, str], binds: bool, path: str
) -> None:
    async def bind(pod: Pod, node: str) -> None: ...

    async def talk(session: aiohttp.ClientSession, url: str) -> None: ...

    with pytest.raises(ConfigError, match="--token-file is needed") as raised:
        talking(talk, bind=bind if binds else None, **options)
    assert path in str(raised.value)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (aiohttp.encode_basic_auth("x", TOKEN), 200),
        (aiohttp.encode_basic_auth(TOKEN, ""), 401),
        ("Bearer guessed", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Bearer {TOKEN}x", 401),
        ("Basic %%%", 401),
        ("", 401),
    ],
)
def test_only_who_has_the_token_is_served(tmp_path: Path, authorization: str, status: int) -> None:
    bound: list[str] = []

    async def bind(pod: Pod, node: str) -> None:
        bound.append(node)

    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        headers = {"Authorization": authorization} if authorization else {}
        async with session.post(url + "/bind", json=BINDING, headers=headers) as answer:
            assert answer.status == status
        async with session.get(url + "/metrics", headers=headers) as answer:
            assert answer.status == status
        async with session.get(url + "/healthz") as answer:
            assert answer.status == 200

    talking(talk, bind=bind, token_file=token_in(tmp_path))
    assert bound == (["a"] if status == 200 else [])


def test_a_short_or_missing_token_is_reported(tmp_path: Path) -> None:
    async def talk(session: aiohttp.ClientSession, url: str) -> None: ...

    path = tmp_path / "token"
    with pytest.raises(ConfigError, match="No such file"):
        talking(talk, token_file=str(path))
    path.write_text("short\n")
    with pytest.raises(ConfigError, match="fewer than 16 bytes"):
        talking(talk, token_file=str(path))
    with pytest.raises(ConfigError, match="more than 4096 bytes"):
        talking(talk, token_file="/dev/urandom")
    path.write_text("x" * 4096 + "\n" * 100 + "y")
    with pytest.raises(ConfigError, match="more than 4096 bytes"):
        talking(talk, token_file=str(path))
    path.write_text("x" * 4096 + "\r\n")
    talking(talk, token_file=str(path))


def test_health_and_metrics() -> None:
    ready = False

    async def text(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
        async with session.get(url) as answer:
            return answer.status, await answer.text()

    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        nonlocal ready
        assert await text(session, url + "/healthz") == (200, "ok")
        assert await text(session, url + "/livez") == (200, "ok")
        assert (await text(session, url + "/readyz"))[0] == 503
        ready = True
        assert await text(session, url + "/readyz") == (200, "ok")
        async with session.post(url + "/filter", json=ASKED) as answer:
            await answer.read()
        _, found = await text(session, url + "/metrics")
        assert 'mooring_extender_requests_total{code="200",verb="filter"} 1.0' in found
        assert 'mooring_extender_request_duration_seconds_count{verb="filter"} 1.0' in found

    talking(talk, is_ready=lambda: ready)


async def lets_in(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def test_what_is_under_way_is_finished_before_it_stops(tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def bind(pod: Pod, node: str) -> None:
        begun.set()
        await may_end.wait()

    async def main() -> None:
        clock = SystemClock()
        extender = Extender([NotB()], clock=clock, bind=bind)
        is_over = asyncio.Event()
        options = ServeOptions(port=0, token_file=token_in(tmp_path))
        urls: asyncio.Queue[str] = asyncio.Queue()

        async def hold() -> None:
            async with serve(extender, options, clock=clock) as url:
                await urls.put(url)
                await begun.wait()
            is_over.set()

        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(hold())
            url = await urls.get()
            port = int(url.rpartition(":")[2])
            async with aiohttp.ClientSession() as session:

                async def ask() -> Any:
                    async with session.post(url + "/bind", json=BINDING, headers=BEARER) as answer:
                        return await answer.json()

                asking = tasks.create_task(ask())
                await begun.wait()
                while await lets_in(port):  # noqa: ASYNC110 - no event for a closed port
                    await asyncio.sleep(0)
                assert not is_over.is_set()
                may_end.set()
                assert await asking == {"Error": ""}
            await is_over.wait()

    asyncio.run(main())


def test_a_port_that_is_taken_is_reported() -> None:
    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        clock = SystemClock()
        port = int(url.rpartition(":")[2])
        extender = Extender([NotB()], clock=clock)
        with pytest.raises(ConfigError, match="in use"):
            async with serve(extender, ServeOptions(port=port), clock=clock):
                pass

    talking(talk)


def test_only_clients_of_the_authority_are_served(tmp_path: Path) -> None:
    authority = Authority(SystemClock())
    for name, pair in (("server", authority.server()), ("client", authority.client("me"))):
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    known = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    known.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")

    async def talk(session: aiohttp.ClientSession, url: str) -> None:
        assert url.startswith("https://")
        async with session.post(url + "/filter", json=ASKED, ssl=known) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            async with session.post(url + "/filter", json=ASKED, ssl=trust) as answer:
                pass

    talking(
        talk,
        tls_cert_file=str(tmp_path / "server.crt"),
        tls_private_key_file=str(tmp_path / "server.key"),
        client_ca_file=str(tmp_path / "ca.crt"),
    )


LUCKY = """
class Lucky:
    name = "Lucky"

    def score(self, cycle, nodes):
        raise AssertionError
"""

#: Refuses all nodes until its background has run, and says what its clock shows.
FETCHES = """
import asyncio

from mooring.framework import Reject, per_node


class Fetches:
    name = "Fetches"

    def __init__(self, handle):
        self.handle = handle
        self.has_run = False

    async def background(self):
        self.has_run = True
        await asyncio.Event().wait()

    @per_node
    def filter(self, pod, node):
        return Reject(f"at {self.handle.monotonic_s()}") if self.has_run else None
"""


@contextmanager
def command(folder: Path, text: str, plugin: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs the command with a plugin; yields its URL and the process."""
    (folder / "mine.py").write_text(text)
    words = ["extender", "serve", "--plugin", f"mine:{plugin}", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "mooring", *words],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    ) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().strip().rpartition(" ")[2], process
        finally:
            process.kill()


def filtered(url: str) -> Any:
    body = json.dumps(ASKED).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/filter", body, headers, method="POST")
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_well_when_it_is_told_to(number: int, tmp_path: Path) -> None:
    with command(tmp_path, LUCKY, "Lucky") as (url, process):
        assert filtered(url)["NodeNames"] == ["a", "b"]
        process.send_signal(number)
        assert process.wait(15) == 0


def test_a_plugin_is_what_it_is_inside_the_scheduler(tmp_path: Path) -> None:
    """What it does beside the decisions is done, and time goes by for it."""
    with command(tmp_path, FETCHES, "Fetches") as (url, process):
        first, second = (filtered(url)["FailedNodes"]["a"] for _ in range(2))
        assert float(first.removeprefix("at ")) < float(second.removeprefix("at "))
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
