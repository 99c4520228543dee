"""Clients that write small and large objects at the same time, and delete many, over real sockets.

Large writes run in threads of the server, and let others come first. Whatever their order is, a
watch has every change once and in order, its result is the list, and what is answered has happened.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from random import Random
from typing import Any

import aiohttp
import pytest

from mooring.apiserver import ApiServer, serve
from mooring.apiserver.http_server.http import HttpServer
from mooring.apiserver.storage.long_writes import MANY_OBJECTS
from mooring.clock import SystemClock, seeded_random
from mooring.serial_executor import LARGE_BYTES

NAMESPACE = "/api/v1/namespaces/busy"
CONFIG_MAPS = f"{NAMESPACE}/configmaps"
CLIENTS = 8
ACTIONS = 25
NAMES = 12
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Clients:
    """Clients of one server, and the objects as a watch has them."""

    def __init__(self, session: aiohttp.ClientSession, seed: int) -> None:
        self._session = session
        self._seed = seed
        self.watched: dict[str, Any] = {}
        self.answers: Counter[tuple[str, int]] = Counter()

    async def ask(
        self, method: str, path: str, body: Any = None, media_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Returns status and decoded body; an error of the server fails the test."""
        data = None if body is None else json.dumps(body)
        headers = {"content-type": media_type}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            text = await response.read()
            assert response.status < 500, (method, path, text[:300])
            return response.status, json.loads(text)

    async def follow(self, version: str, events: asyncio.Queue[int]) -> None:
        """Follows a watch; puts the resourceVersion of each event into a queue."""
        last = int(version)
        path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"
        async with self._session.get(path) as response:
            async for line in response.content:
                event = json.loads(line)
                obj = event["object"]
                name, at = obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])
                assert at > last, "each change once, and in order"
                last = at
                assert (event["type"] == "ADDED") is (name not in self.watched)
                if event["type"] == "DELETED":
                    del self.watched[name]
                else:
                    self.watched[name] = obj
                events.put_nowait(at)

    async def act(self, number: int) -> None:
        """Makes the random requests of one client."""
        rng = seeded_random(self._seed * CLIENTS + number)
        actions = [self._write, self._write, self._write, self._read, self._cancel]
        for _ in range(ACTIONS):
            await rng.choice([*actions, self._delete_all, self._fill, self._own])(rng, number)

    async def _write(self, rng: Random, number: int) -> None:
        obj = _config_map(rng)
        path = f"{CONFIG_MAPS}/{obj['metadata']['name']}"
        label = {"metadata": {"labels": {"b": str(rng.random())}}}
        request: tuple[Any, ...] = rng.choice(
            [
                ("POST", CONFIG_MAPS, obj),
                ("PUT", path, obj),
                ("PATCH", path, label, MERGE),
                ("PATCH", f"{path}?fieldManager=m{number}&force=true", obj, APPLY),
                ("DELETE", path),
            ]
        )
        status, _ = await self.ask(*request)
        self.answers[request[0], status] += 1

    async def _read(self, rng: Random, _: int) -> None:
        status, _body = await self.ask("GET", f"{CONFIG_MAPS}?labelSelector=a%3D1&limit=3")
        assert status == 200

    async def _cancel(self, rng: Random, _: int) -> None:
        """Breaks a request off."""
        obj = _config_map(rng)
        put = self.ask("PUT", f"{CONFIG_MAPS}/{obj['metadata']['name']}", obj)
        task = asyncio.ensure_future(put)
        await asyncio.wait([task], timeout=rng.random() * 0.02)
        task.cancel()
        await asyncio.wait([task])

    async def _delete_all(self, rng: Random, _: int) -> None:
        await self.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=a%3D{rng.randrange(3)}")

    async def _fill(self, rng: Random, number: int) -> None:
        """Creates a namespace with many objects, and deletes it."""
        name = f"full-{number}-{rng.randrange(10**9)}"
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/{name}/configmaps"
        await self._create_many(path, {})
        assert (await self.ask("DELETE", f"/api/v1/namespaces/{name}"))[0] == 200
        assert (await self.ask("GET", f"/api/v1/namespaces/{name}"))[0] == 404

    async def _own(self, rng: Random, number: int) -> None:
        """Creates an owner with many dependents, and deletes it."""
        secrets, name = f"{NAMESPACE}/secrets", f"owner-{number}-{rng.randrange(10**9)}"
        _, owner = await self.ask("POST", secrets, {"metadata": {"name": name}})
        reference = {"apiVersion": "v1", "kind": "Secret", "name": name}
        reference["uid"] = owner["metadata"]["uid"]
        await self._create_many(secrets, {"labels": {"o": name}, "ownerReferences": [reference]})
        assert (await self.ask("DELETE", f"{secrets}/{name}"))[0] == 200
        _, left = await self.ask("GET", f"{secrets}?labelSelector=o%3D{name}")
        assert left["items"] == []

    async def _create_many(self, path: str, metadata: dict[str, Any]) -> None:
        creates = [
            self.ask("POST", path, {"metadata": {"generateName": "many-", **metadata}})
            for _ in range(MANY_OBJECTS + 1)
        ]
        assert {status for status, _ in await asyncio.gather(*creates)} == {201}


def _config_map(rng: Random) -> dict[str, Any]:
    """Returns one of few objects, small or so large that a thread writes it."""
    size_bytes = rng.choice([0, 0, 0, LARGE_BYTES + 1, 5 * LARGE_BYTES])
    metadata = {"name": f"c{rng.randrange(NAMES)}", "labels": {"a": str(rng.randrange(3))}}
    data = {f"k{number}": "x" * 20 for number in range(1 + size_bytes // 30)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _session(server: HttpServer) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=server.authority.decode())
    return aiohttp.ClientSession(
        server.url,
        headers={"authorization": f"Bearer {server.token()}"},
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        read_bufsize=1 << 20,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_watch_has_what_threads_and_the_event_loop_have_written(seed: int) -> None:
    async def main() -> None:
        api = ApiServer(SystemClock(), seeded_random(seed))
        async with serve(api) as server, _session(server) as session, asyncio.timeout(240):
            clients = Clients(session, seed)
            await clients.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "busy"}})
            _, start = await clients.ask("GET", CONFIG_MAPS)
            clients.watched = {item["metadata"]["name"]: item for item in start["items"]}
            events: asyncio.Queue[int] = asyncio.Queue()
            version = start["metadata"]["resourceVersion"]
            following = asyncio.ensure_future(clients.follow(version, events))
            await asyncio.gather(*(clients.act(number) for number in range(CLIENTS)))
            _, last = await clients.ask("POST", CONFIG_MAPS, {"metadata": {"name": "last"}})
            while await events.get() < int(last["metadata"]["resourceVersion"]):
                assert not following.done()
            _, listed = await clients.ask("GET", CONFIG_MAPS)
            for item in listed["items"]:
                watched = clients.watched.pop(item["metadata"]["name"])
                assert watched["metadata"] == item["metadata"]
                assert watched.get("data") == item.get("data")
            assert not clients.watched
            # Whether a name is in use when it is created depends on the order of all requests.
            assert {201, 200, 404} <= {status for _, status in clients.answers}
            following.cancel()
            await asyncio.wait([following])

    asyncio.run(main())
