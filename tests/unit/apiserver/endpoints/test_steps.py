"""Lists in steps: other requests are answered in between, and the list is that of its begin."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.apiserver.endpoints.rendering import INITIAL_EVENTS_END
from mooring.apiserver.endpoints.steps import DECODED_OBJECTS, SLICE_OBJECTS
from mooring.apiserver.endpoints.watch import BATCH
from tests.helpers.api import CONFIG_MAPS, Api, config_map

SLICES = 6
COUNT = SLICE_OBJECTS * SLICES
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def api() -> Api:
    api = Api()
    for number in range(COUNT):
        api.post(CONFIG_MAPS, config_map(f"m{number:05}", metadata={"labels": {"a": "b"}}))
    return api


def items(accept: str, body: Any) -> list[str]:
    if accept == TABLE:
        return [row["object"]["metadata"]["name"] for row in body["rows"]]
    return [item["metadata"]["name"] for item in body["items"]]


@pytest.mark.parametrize("accept", ["application/json", TABLE, PARTIAL])
@pytest.mark.parametrize(
    ("path", "turns_min"),
    [
        ("/api/v1/configmaps", SLICES - 1),
        (CONFIG_MAPS, 2 * (SLICES - 1)),
        (f"{CONFIG_MAPS}?labelSelector=a%3Db", 2 * (SLICES - 1)),
    ],
)
def test_others_have_their_turn_while_a_long_list_is_made(
    api: Api, accept: str, path: str, turns_min: int
) -> None:
    async def test() -> tuple[int, bytes]:
        listing = asyncio.create_task(api.handle("GET", path, accept=accept))
        turns = 0
        await asyncio.sleep(0)  # it has begun
        while not listing.done():
            turns += 1
            name = f"m{COUNT - turns:05}"
            assert (await api.handle("GET", f"{CONFIG_MAPS}/{name}"))[0] == 200
            await asyncio.sleep(0)
        body = (await listing)[2]
        assert isinstance(body, bytes)
        return turns, body

    turns, body = asyncio.run(test())
    assert turns >= turns_min
    names = items(accept, json.loads(body))
    assert names == [f"m{number:05}" for number in range(COUNT)]


def test_a_long_list_has_the_objects_of_its_begin() -> None:
    api = Api()
    for number in range(SLICE_OBJECTS * 3):
        api.post(CONFIG_MAPS, config_map(f"m{number:05}"))
    version = api.version

    async def test() -> Any:
        listing = asyncio.create_task(api.handle("GET", CONFIG_MAPS))
        await asyncio.sleep(0)
        last = f"{CONFIG_MAPS}/m{SLICE_OBJECTS * 3 - 1:05}"
        assert (await api.handle("DELETE", last))[0] == 200
        assert (await api.handle("POST", CONFIG_MAPS, config_map("z")))[0] == 201
        assert not listing.done()
        body = (await listing)[2]
        assert isinstance(body, bytes)
        return json.loads(body)

    answer = asyncio.run(test())
    assert answer["metadata"]["resourceVersion"] == str(version)
    assert len(answer["items"]) == SLICE_OBJECTS * 3
    assert answer["items"][-1]["metadata"]["name"] == f"m{SLICE_OBJECTS * 3 - 1:05}"


def test_a_short_list_is_made_in_one_step() -> None:
    api = Api()
    for number in range(3):
        api.post(CONFIG_MAPS, config_map(f"m{number}"))

    async def test() -> None:
        listing = asyncio.create_task(api.handle("GET", CONFIG_MAPS))
        await asyncio.sleep(0)
        assert listing.done()

    asyncio.run(test())


@pytest.mark.parametrize("accept", ["application/json", TABLE, PARTIAL])
@pytest.mark.parametrize("selector", ["", "&labelSelector=a%3Db", "&labelSelector=a%3Dnone"])
def test_others_have_their_turn_while_initial_events_are_sent(
    api: Api, accept: str, selector: str
) -> None:
    parameters = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    path = f"{CONFIG_MAPS}?{parameters}&resourceVersionMatch=NotOlderThan{selector}"

    async def test() -> tuple[int, list[bytes]]:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        taking = asyncio.create_task(take_turns())
        _, _, stream = await api.handle("GET", path, accept=accept)
        assert not isinstance(stream, bytes)
        lines: list[bytes] = []
        async for part in stream:  # its reader is never late
            lines += part.splitlines()
            if INITIAL_EVENTS_END.encode() in lines[-1]:
                break
        taking.cancel()
        return turns, lines

    turns, lines = asyncio.run(test())
    assert turns >= COUNT // BATCH - 2  # none before the first part, none after the last
    assert len(lines) == 1 + (0 if "none" in selector else COUNT)


def test_the_rows_of_a_long_table_are_those_of_short_ones(api: Api) -> None:
    rows = api.ask("GET", CONFIG_MAPS, accept=TABLE)[1]["rows"]
    for number in (0, DECODED_OBJECTS - 1, DECODED_OBJECTS, COUNT - 1):
        _, table = api.ask("GET", f"{CONFIG_MAPS}/m{number:05}", accept=TABLE)
        assert table["rows"] == [rows[number]]
