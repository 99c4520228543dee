"""How long requests keep the event loop of the embedded API server in a large cluster.

``python -m bench loop_holds [--pods N] [--nodes N]``: each request is handled in this process, and
a task that runs as often as it can measures the CPU time between two of its turns. The figures are
thus those of one core without other work, and other work of the machine does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from bench.machine import calibration_ms, machine
from mooring.apiserver.server import ApiServer
from mooring.clock import SystemClock, seeded_random
from mooring.garbage import short_collections

PODS: Final = 50_000
NODES: Final = 5_000
#: Large definitions of custom resources.
DEFINITIONS: Final = 5
#: The longest time that a request may keep the event loop.
BAR_MS: Final = 100.0

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
DEFAULT: Final = "/api/v1/namespaces/default"
OTHER: Final = "/api/v1/namespaces/other"
WATCH: Final = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
INITIAL: Final = f"/api/v1/pods?{WATCH}&resourceVersionMatch=NotOlderThan"
QUOTA: Final = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1M", "requests.cpu": "1M"}}}


class _Request(NamedTuple):
    title: str
    method: str
    path: str
    body: Any = None
    accept: str = JSON
    media_type: str = JSON


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the figures; 1 if a request keeps the loop for longer than the bar."""
    parser = argparse.ArgumentParser("bench loop_holds", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--nodes", type=int, default=NODES)
    options = parser.parse_args(list(arguments))
    print(f"{machine()}; calibration {calibration_ms():.0f} ms")
    print(f"{options.pods} pods, {options.nodes} nodes")
    with short_collections(time.perf_counter):  # as ``mooring apiserver`` does
        worst_ms = asyncio.run(_measure(options.pods, options.nodes))
    verdict = "" if worst_ms <= BAR_MS else "  MISSED"
    print(f"the loop waits {worst_ms:.0f} ms at most (bar {BAR_MS:.0f}){verdict}")
    return int(worst_ms > BAR_MS)


async def _measure(pods: int, nodes: int) -> float:
    server = ApiServer(SystemClock(), seeded_random(1))
    server.allow_threads()
    await _fill(server, pods, nodes)
    worst_ms = 0.0
    print(f"{'':44} {'status':>6} {'keeps the loop ms':>18} {'takes ms':>9} {'MB':>6}")
    for request in _requests(server):
        begin_s, turns = time.perf_counter(), _Turns()
        status, size = await _send(server, request)
        await asyncio.sleep(0)
        held_ms = turns.end()
        took_ms = (time.perf_counter() - begin_s) * 1000
        print(
            f"{request.title:44} {status:6} {held_ms:18.1f} {took_ms:9.0f} {size / 1e6:6.1f}",
            flush=True,
        )
        worst_ms = max(worst_ms, held_ms)
    return worst_ms


class _Turns:
    """The longest time of this thread between two turns of a task."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._last_s = time.thread_time()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._take()
            await asyncio.sleep(0)

    def _take(self) -> None:
        now_s = time.thread_time()
        self._longest_s = max(self._longest_s, now_s - self._last_s)
        self._last_s = now_s

    def end(self) -> float:
        """Ends the task, and returns milliseconds."""
        self._take()
        self._task.cancel()
        return self._longest_s * 1000


async def _send(server: ApiServer, request: _Request) -> tuple[int, int]:
    """Returns status and bytes; a watch is read up to the end of its initial events."""
    path, _, query = request.path.partition("?")
    headers = {"accept": request.accept, "content-type": request.media_type}
    body = b"" if request.body is None else json.dumps(request.body).encode()
    pairs = parse_qsl(query, keep_blank_values=True)
    status, _, content = await server.handle(request.method, path, pairs, headers, body)
    if isinstance(content, bytes):
        return status, len(content)
    return status, await _initial_bytes(content)


async def _initial_bytes(lines: AsyncIterator[bytes]) -> int:
    size = 0
    async for part in lines:
        size += len(part)
        if b"initial-events-end" in part:
            break
    await lines.aclose()  # type: ignore[attr-defined]
    return size


async def _fill(server: ApiServer, pods: int, nodes: int) -> None:
    await _send(server, _Request("", "POST", "/api/v1/namespaces", {"metadata": {"name": "other"}}))
    for number in range(nodes):
        metadata = {"name": f"n{number}", "labels": {"zone": f"z{number % 3}"}}
        await _send(server, _Request("", "POST", "/api/v1/nodes", {"metadata": metadata}))
    for number in range(pods):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec: dict[str, Any] = {"containers": [container]}
        if number % 2:
            spec["nodeName"] = f"n{number % nodes}"
        labels = {"app": f"a{number % 100}", "all": "yes"}
        body = {"metadata": {"name": f"p{number:06}", "labels": labels}, "spec": spec}
        namespace = DEFAULT if number % 3 else OTHER
        status, _ = await _send(server, _Request("", "POST", f"{namespace}/pods", body))
        assert status == 201


def _requests(server: ApiServer) -> Iterator[_Request]:
    yield from _lists()
    exact = f"resourceVersion={server.store.version - 100}&resourceVersionMatch=Exact"
    yield _Request("list at an earlier version", "GET", f"/api/v1/pods?{exact}")
    yield _Request("watch, initial events", "GET", INITIAL)
    yield _Request("watch, initial events of a label", "GET", f"{INITIAL}&labelSelector=app%3Da1")
    yield _Request("watch, initial events as a table", "GET", INITIAL, accept=TABLE)
    yield _Request("OpenAPI 2", "GET", "/openapi/v2")
    yield _Request("OpenAPI 3 of the core group", "GET", "/openapi/v3/api/v1")
    yield from _writes()
    yield from _customs()


def _lists() -> Iterator[_Request]:
    pods = "/api/v1/pods"
    yield _Request("list", "GET", pods)
    yield _Request("list from the cache", "GET", f"{pods}?resourceVersion=0")
    yield _Request("list a namespace", "GET", f"{DEFAULT}/pods")
    yield _Request("list as a table", "GET", pods, accept=TABLE)
    objects = f"{pods}?includeObject=Object"
    yield _Request("list as a table with objects", "GET", objects, accept=TABLE)
    yield _Request("list metadata", "GET", pods, accept=PARTIAL)
    yield _Request("list by a label", "GET", f"{pods}?labelSelector=app%3Da1")
    yield _Request("list by labels that most have", "GET", f"{pods}?labelSelector=app+notin+(a,b)")
    yield _Request("list the pods of a node", "GET", f"{pods}?fieldSelector=spec.nodeName%3Dn1")
    yield _Request("list by phase", "GET", f"{pods}?fieldSelector=status.phase!%3DRunning")
    yield _Request("list a page", "GET", f"{pods}?limit=500")
    yield _Request("list a page of a rare label", "GET", f"{pods}?limit=500&labelSelector=app%3Db")
    yield _Request("list nodes as a table", "GET", "/api/v1/nodes", accept=TABLE)


def _writes() -> Iterator[_Request]:
    pods, quotas = f"{DEFAULT}/pods", f"{DEFAULT}/resourcequotas"
    port = {"selector": {"all": "yes"}, "ports": [{"port": 80}]}
    yield _Request(
        "create a service of all",
        "POST",
        f"{DEFAULT}/services",
        {"metadata": {"name": "s"}, "spec": port},
    )
    yield _Request("create a quota", "POST", quotas, QUOTA)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "new"}, "spec": {"containers": [container]}}
    yield _Request("create a pod beside it", "POST", pods, pod)
    more = {"spec": {"hard": {"count/pods": "1M"}}}
    yield _Request("patch the quota", "PATCH", f"{quotas}/q", more, media_type=MERGE)
    yield _Request("delete the quota", "DELETE", f"{quotas}/q")
    yield _Request("delete a node", "DELETE", "/api/v1/nodes/n1")
    yield _Request("delete pods of a rare label", "DELETE", f"{pods}?labelSelector=app%3Db")
    yield _Request("delete pods of a label", "DELETE", f"{pods}?labelSelector=app%3Da1")
    yield _Request("preview of deleting all pods", "DELETE", f"{pods}?dryRun=All")
    yield _Request("delete a namespace", "DELETE", OTHER)


def _customs() -> Iterator[_Request]:
    """Yields a definition, and objects that take long to validate: by rules, and by a pattern."""
    pairs = "self.list.all(x, self.list.all(y, x != y || x == y))"
    number = {"type": "array", "maxItems": 300, "items": {"type": "integer"}}
    text = {"type": "string", "pattern": "(a|b)*a(a|b){300}c$"}
    spec = {
        "type": "object",
        "properties": {"list": number, "text": text},
        "x-kubernetes-validations": [{"rule": f"!has(self.list) || {pairs}"}],
    }
    definition = _definition("Shop", spec)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    yield _Request("create a definition, the first", "POST", definitions, definition)
    for of_many in range(DEFINITIONS):
        yield _Request("create a definition of 1 MB", "POST", definitions, _large(of_many))
    yield _Request("OpenAPI 2 with these definitions", "GET", "/openapi/v2")
    yield _Request("delete a definition", "DELETE", f"{definitions}/large0s.example.com")
    shops = "/apis/example.com/v1/namespaces/default/shops"
    about = {"apiVersion": "example.com/v1", "kind": "Shop"}
    specs: dict[str, Any] = {
        "rules of 300 x 300 steps": {"list": list(range(300))},
        "a pattern and 6 KB": {"text": "ab" * 3000},
    }
    for title, content in specs.items():
        body = {**about, "metadata": {"name": title.replace(" ", "-").lower()}, "spec": content}
        yield _Request(f"create by {title}", "POST", shops, body)


def _large(number: int) -> dict[str, Any]:
    """Returns a definition with thousands of fields."""
    field = {"type": "object", "description": "a field", "properties": {"a": {"type": "string"}}}
    spec = {"type": "object", "properties": {f"field{number}": field for number in range(9000)}}
    return _definition(f"Large{number}", spec)


def _definition(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a definition whose objects have a spec of this schema."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    plural = f"{kind.lower()}s"
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
