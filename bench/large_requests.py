"""How long others wait beside large requests: the embedded API server, and kube-apiserver.

``python -m bench large_requests [--bytes N] [--pods N] [--runs N] [--servers embedded real]``: each
request creates, replaces, patches or applies an object with thousands of items, or deletes
thousands of pods. Beside it a second client reads a small object and a third creates small ones all
the time; the figures are the longest times that one of their requests took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
import tempfile
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp

from bench.machine import calibration_ms, machine
from mooring.clock import SystemClock
from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import administrator, running

BYTES: Final = 1_000_000
RUNS: Final = 3
PODS: Final = 2_000
WRITERS: Final = 8
#: Between two small requests of a client.
INTERVAL_S: Final = 0.005
#: The longest time that a request may keep the event loop of the embedded server.
BAR_MS: Final = 100.0
NAMESPACE: Final = "/api/v1/namespaces/large"
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
#: Answers of kube-apiserver if an object with its managedFields is too large for etcd, or if its
#: validation takes more than half a minute.
REFUSED: Final = (
    b"request is too large",
    b"larger than max",
    b"request did not complete within",
)
CLOCK: Final = SystemClock()


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the figures of both servers; 1 if reads wait too long at the embedded one."""
    parser = argparse.ArgumentParser("bench large_requests", description=__doc__)
    parser.add_argument("--bytes", type=int, default=BYTES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    options = parser.parse_args(list(arguments))
    print(f"{machine()}; calibration {calibration_ms():.0f} ms")
    print(f"{'':10} {'request':28} {'takes ms':>18} {'reads <= ms':>18} {'writes <= ms':>18}")
    worst_ms = 0.0
    for name in options.servers:
        rows = _rows(name, options)
        for title, figures_of_runs in rows.items():
            columns = [_column(values) for values in zip(*figures_of_runs, strict=True)]
            print(f"{name:10} {title:28} {' '.join(columns)}")
            if name == "embedded":
                worst_ms = max(worst_ms, median(reads for _, reads, _ in figures_of_runs))
    if "embedded" in options.servers:
        print(f"embedded server: reads wait {worst_ms:.0f} ms at most (bar {BAR_MS:.0f})")
    return int(worst_ms > BAR_MS)


def _rows(name: str, options: argparse.Namespace) -> dict[str, list[tuple[float, float, float]]]:
    """Returns the figures of all runs with a server, by request."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    with SERVERS[name]() as server:
        for run in range(options.runs):
            for title, figures in asyncio.run(_measured(server, options, run)):
                rows.setdefault(title, []).append(figures)
    return rows


def _column(values: Sequence[float]) -> str:
    return f"{median(values):6.0f} ({min(values):.0f}-{max(values):.0f})".rjust(18)


class Server:
    """A running API server: its URL, TLS and credentials."""

    def __init__(self, url: str, context: ssl.SSLContext, headers: dict[str, str]) -> None:
        self.url = url
        self.context = context
        self.headers = headers

    def session(self) -> aiohttp.ClientSession:
        """Returns a client with one connection of its own."""
        connector = aiohttp.TCPConnector(ssl=self.context, limit=WRITERS)
        return aiohttp.ClientSession(self.url, headers=self.headers, connector=connector)


@contextmanager
def _embedded() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        yield Server(*administrator(server.kubeconfig))


@contextmanager
def _real() -> Iterator[Server]:
    with ControlPlane() as plane:
        context = ssl.create_default_context(cafile=str(plane.authority))
        pair = plane.certificate("admin")
        context.load_cert_chain(pair.certificate, pair.key)
        yield Server(plane.url, context, {})


SERVERS: Final = {"embedded": _embedded, "real": _real}


def _requests(bytes_max: int, run: int) -> Iterator[tuple[str, str, str, str, bytes]]:
    """Yields title, method, path, media type and body of each request."""
    for kind, collection, large, size in _objects(run):
        path, name = f"{NAMESPACE}/{collection}", large["metadata"]["name"]
        body = _filled(large, bytes_max // size)
        yield f"create {kind}", "POST", path, JSON, body
        yield f"replace {kind}", "PUT", f"{path}/{name}", JSON, body
        patch = b'{"metadata":{"labels":{"a":"b"}}}'
        yield f"patch {kind}", "PATCH", f"{path}/{name}", MERGE, patch
        yield f"apply {kind}", "PATCH", f"{path}/{name}?force=true&fieldManager=a", APPLY, body
        yield f"delete {kind}", "DELETE", f"{path}/{name}?gracePeriodSeconds=0", JSON, b""


def _objects(run: int) -> Iterator[tuple[str, str, dict[str, Any], int]]:
    """Yields name, collection, object and the bytes of an item; "ITEMS" stands for its items."""
    container: dict[str, Any] = {"name": "main", "image": "pause", "env": "ITEMS"}
    metadata = {"name": f"large-{run}"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    yield "variables of a pod", "pods", {**pod, "spec": {"containers": [container]}}, 38
    plain = {"name": "main", "image": "pause"}
    tolerations = {"containers": [plain], "tolerations": "ITEMS"}
    yield "tolerations of a pod", "pods", {**pod, "spec": tolerations}, 39
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": "ITEMS"}
    yield "keys of a ConfigMap", "configmaps", config_map, 22


def _filled(large: Any, count: int) -> bytes:
    """Returns an object with so many items, as JSON."""

    def filled(value: Any, name: str) -> Any:
        if value == "ITEMS":
            return _items(name, count)
        if isinstance(value, dict):
            return {key: filled(item, key) for key, item in value.items()}
        return [filled(item, name) for item in value] if isinstance(value, list) else value

    return json.dumps(filled(large, ""), separators=(",", ":")).encode()


def _items(name: str, count: int) -> Any:
    if name == "env":
        return [{"name": f"A{number:05}", "value": "0123456789"} for number in range(count)]
    if name == "tolerations":
        return [{"key": f"key-{number:05}", "operator": "Exists"} for number in range(count)]
    return {f"key-{number:05}": "12345678" for number in range(count)}


async def _measured(
    server: Server, options: argparse.Namespace, run: int
) -> list[tuple[str, tuple[float, float, float]]]:
    """Returns the milliseconds of each request: its own, and the longest of a read and a write."""
    results = []
    async with server.session() as session:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "large"}}
        await _sent(session, "POST", "/api/v1/namespaces", JSON, json.dumps(namespace).encode())
        account = {"metadata": {"name": "default"}}  # pods of the real server need it
        await _sent(
            session, "POST", f"{NAMESPACE}/serviceaccounts", JSON, json.dumps(account).encode()
        )
        others = Others(server, run)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(others.read()), tasks.create_task(others.write())]
            for title, method, path, media_type, body in _requests(options.bytes, run):
                request = _sent(session, method, path, media_type, body)
                results.append((title, await others.beside(request)))
            await _create_pods(session, options.pods)
            many = _sent(session, "DELETE", f"{NAMESPACE}/pods?gracePeriodSeconds=0", JSON, b"")
            results.append((f"delete {options.pods} pods", await others.beside(many)))
            for task in beside:
                task.cancel()
    return results


async def _sent(
    session: aiohttp.ClientSession, method: str, path: str, media_type: str, body: bytes
) -> int:
    headers = {"content-type": media_type}
    async with session.request(method, path, data=body, headers=headers) as answer:
        text = await answer.read()
        is_refused = any(part in text for part in REFUSED)
        is_error = answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.CONFLICT
        if is_error and not is_refused:
            raise RuntimeError(f"{method} {path}: {text[:300]!r}")
        return answer.status


async def _create_pods(session: aiohttp.ClientSession, count: int) -> None:
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            spec = {"containers": [{"name": "main", "image": "pause"}]}
            pod = {"metadata": {"name": f"small-{number}"}, "spec": spec}
            await _sent(session, "POST", f"{NAMESPACE}/pods", JSON, json.dumps(pod).encode())

    await asyncio.gather(*(create() for _ in range(WRITERS)))


class Others:
    """Two clients with small requests, and the longest times that these took."""

    def __init__(self, server: Server, run: int) -> None:
        self._server = server
        self._run = run
        self._read_s = self._write_s = 0.0

    async def read(self) -> None:
        """Reads a small object all the time."""
        async with self._server.session() as session:
            while True:
                began_s = CLOCK.monotonic_s()
                await _sent(session, "GET", "/api/v1/namespaces/default", JSON, b"")
                self._read_s = max(self._read_s, CLOCK.monotonic_s() - began_s)
                await asyncio.sleep(INTERVAL_S)

    async def write(self) -> None:
        """Creates small objects all the time."""
        async with self._server.session() as session:
            number = 0
            while True:
                number += 1
                name = f"small-{self._run}-{number}"
                body = json.dumps({"metadata": {"name": name}}).encode()
                began_s = CLOCK.monotonic_s()
                await _sent(session, "POST", f"{NAMESPACE}/configmaps", JSON, body)
                self._write_s = max(self._write_s, CLOCK.monotonic_s() - began_s)
                await asyncio.sleep(INTERVAL_S)

    async def beside(self, request: Awaitable[object]) -> tuple[float, float, float]:
        """Awaits a request; returns its milliseconds, and the longest of a read and a write."""
        await asyncio.sleep(20 * INTERVAL_S)
        began_s = CLOCK.monotonic_s()
        self._read_s = self._write_s = 0.0
        await request
        took_s = CLOCK.monotonic_s() - began_s
        await asyncio.sleep(20 * INTERVAL_S)  # for those that still wait
        return 1e3 * took_s, 1e3 * self._read_s, 1e3 * self._write_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
