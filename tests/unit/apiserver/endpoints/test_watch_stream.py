"""Watches: what they send and when; expectations as kube-apiserver v1.36.3 was seen to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.apiserver.resources import resource_named
from tests.helpers.api import CONFIG_MAPS, MERGE, PODS, Api, config_map, pod
from tests.helpers.virtual_loop import run_virtually

TIMED = "timeoutSeconds=10"
PODS_RESOURCE = resource_named("", "pods")
Line = dict[str, Any]


async def opened(api: Api, query: str, path: str = PODS, **headers: str) -> AsyncIterator[bytes]:
    status, _, stream = await api.handle("GET", f"{path}?watch=true&{query}", **headers)
    assert status == 200
    assert not isinstance(stream, bytes)
    return stream


async def rest(stream: AsyncIterator[bytes]) -> list[Line]:
    """Returns all that comes until the watch ends by itself."""
    return [json.loads(line) async for chunk in stream for line in chunk.splitlines()]


def watched(api: Api, query: str, path: str = PODS, **headers: str) -> list[Line]:
    async def work() -> list[Line]:
        return await rest(await opened(api, query, path, **headers))

    return run_virtually(work())


def summaries(lines: list[Line]) -> list[tuple[str, str, str]]:
    """Returns type, name and version of each event."""
    return [
        (
            line["type"],
            line["object"]["metadata"].get("name", ""),
            line["object"]["metadata"]["resourceVersion"],
        )
        for line in lines
    ]


@pytest.fixture
def api() -> Api:
    """Creates two pods, updates one twice and deletes the other, after version ``base``."""
    made = Api()
    made.base = made.version  # type: ignore[attr-defined]
    made.post(PODS, pod("a", {"x": "1"}))
    made.post(PODS, pod("b"))
    made.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}})
    made.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    made.delete(f"{PODS}/b")
    return made


def versions(api: Api, *offsets: int) -> list[str]:
    return [str(api.base + offset) for offset in offsets]  # type: ignore[attr-defined]


def test_a_watch_from_a_version_sends_all_later_changes(api: Api) -> None:
    first, *others = versions(api, 0, 1, 2, 3, 4, 5, 6)
    result = summaries(watched(api, f"{TIMED}&resourceVersion={first}"))
    kinds = ["ADDED", "ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert result == list(zip(kinds, "abaabb", others, strict=True))


def test_what_leaves_the_selector_is_deleted_with_its_last_selected_state(api: Api) -> None:
    first, *others = versions(api, 0, 1, 3, 4)
    lines = watched(api, f"{TIMED}&resourceVersion={first}&labelSelector=x%3D1")
    kinds = ["ADDED", "DELETED", "ADDED"]
    assert summaries(lines) == list(zip(kinds, "aaa", others, strict=True))
    assert lines[1]["object"]["metadata"]["labels"] == {"x": "1"}


def test_fields_select_too(api: Api) -> None:
    first = versions(api, 0)[0]
    lines = watched(api, f"{TIMED}&resourceVersion={first}&fieldSelector=metadata.name%3Db")
    assert [line["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize("query", ["", "&resourceVersion=0"])
def test_a_watch_from_nowhere_begins_with_the_state(api: Api, query: str) -> None:
    assert summaries(watched(api, TIMED + query)) == [("ADDED", "a", versions(api, 4)[0])]


def test_initial_events_end_with_a_bookmark_if_allowed(api: Api) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    lines = watched(api, f"timeoutSeconds=1&{query}")
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK"]
    assert lines[1]["object"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": versions(api, 6)[0],
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {"containers": None},
        "status": {},
    }


def test_initial_events_can_be_turned_off(api: Api) -> None:
    query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    assert watched(api, f"{TIMED}&{query}") == []


def test_a_version_that_is_still_to_come_is_waited_for(api: Api) -> None:
    async def work() -> list[Line]:
        stream = await opened(api, f"{TIMED}&resourceVersion={api.version + 1}")
        pending = asyncio.ensure_future(rest(stream))
        await asyncio.sleep(1)
        await api.handle("POST", PODS, pod("c"))
        await api.handle("POST", PODS, pod("d"))
        return await pending

    assert [name for _, name, _ in summaries(run_virtually(work()))] == ["d"]


def test_changes_are_sent_when_they_happen(api: Api) -> None:
    async def work() -> tuple[list[float], list[Line]]:
        loop = asyncio.get_running_loop()
        stream = await opened(api, f"{TIMED}&resourceVersion={api.version}")
        moments: list[float] = []
        lines: list[Line] = []

        async def read() -> None:
            async for chunk in stream:
                moments.append(round(loop.time(), 3))
                lines.extend(map(json.loads, chunk.splitlines()))

        pending = asyncio.ensure_future(read())
        for name in "cd":
            await asyncio.sleep(2)
            await api.handle("POST", PODS, pod(name))
        await pending
        moments.append(round(loop.time(), 3))
        return moments, lines

    moments, lines = run_virtually(work())
    assert [name for _, name, _ in summaries(lines)] == ["c", "d"]
    assert moments == [2, 4, 10]


def test_old_versions_are_gone_once_the_history_is_full() -> None:
    api = Api(history_changes=4)
    base = api.version
    for number in range(8):
        api.post(PODS, pod(f"p{number}"))
    lines = watched(api, f"{TIMED}&resourceVersion={base}")
    assert [line["type"] for line in lines] == ["ERROR"]
    status = lines[0]["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    oldest = api.server.store.collection(PODS_RESOURCE).history.compacted
    assert status["message"] == f"too old resource version: {base} ({oldest})"


def test_who_reads_too_slowly_is_closed() -> None:
    api = Api(history_changes=4)
    base = api.version

    async def work() -> list[Line]:
        stream = await opened(api, f"{TIMED}&resourceVersion={base}")
        await api.handle("POST", PODS, pod("first"))
        first = await anext(stream)
        for number in range(9):
            await api.handle("POST", PODS, pod(f"p{number}"))
        return [json.loads(first), *await rest(stream)]

    assert [name for _, name, _ in summaries(run_virtually(work()))] == ["first"]


def test_bookmarks_come_every_minute_and_shortly_before_the_end() -> None:
    api = Api()

    async def work() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        query = f"timeoutSeconds=150&allowWatchBookmarks=true&resourceVersion={api.version}"
        return [
            (round(loop.time()), json.loads(chunk)["type"])
            async for chunk in await opened(api, query)
        ]

    assert run_virtually(work()) == [(60, "BOOKMARK"), (120, "BOOKMARK"), (148, "BOOKMARK")]


def test_without_a_timeout_a_watch_ends_after_half_an_hour_or_a_bit_more() -> None:
    api = Api()

    async def work() -> float:
        assert await rest(await opened(api, f"resourceVersion={api.version}")) == []
        return asyncio.get_running_loop().time()

    assert 1800 <= run_virtually(work()) <= 3600


def test_a_closed_watch_listens_no_more() -> None:
    api = Api()

    async def work() -> int:
        stream = await opened(api, "resourceVersion=0")
        pending = asyncio.ensure_future(rest(stream))
        await asyncio.sleep(1)
        history = api.server.store.collection(PODS_RESOURCE).history
        assert history.listeners == 1
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        return history.listeners

    assert run_virtually(work()) == 0


def test_many_initial_objects_come_in_portions() -> None:
    api = Api()
    for number in range(1100):
        api.post(PODS, pod(f"p{number:04}"))

    async def work() -> list[int]:
        stream = await opened(api, TIMED)
        return [chunk.count(b"\n") async for chunk in stream]

    assert run_virtually(work()) == [500, 500, 100]


def test_events_are_served_in_both_groups(api: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "a", "namespace": "default"}}
    api.post(path, {**event, "message": "hello"})
    other = "/apis/events.k8s.io/v1/events"
    lines = watched(api, TIMED, other)
    assert lines[0]["object"]["note"] == "hello"
    assert lines[0]["object"]["apiVersion"] == "events.k8s.io/v1"


def test_tables_are_watched_with_columns_once(api: Api) -> None:
    api.post(PODS, pod("c"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    lines = watched(api, TIMED, accept=accept)
    assert [line["object"]["kind"] for line in lines] == ["Table", "Table"]
    assert lines[0]["object"]["columnDefinitions"]
    assert not lines[1]["object"].get("columnDefinitions")


def test_ages_in_a_watched_table_grow(api: Api) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"

    async def work() -> list[Line]:
        stream = await opened(api, f"{TIMED}&resourceVersion={api.version}", accept=accept)
        await api.handle("POST", PODS, pod("old"))
        first = await anext(stream)
        api.clock.advance(120)
        change = {"metadata": {"labels": {"x": "y"}}}
        await api.handle("PATCH", f"{PODS}/old", change, content_type=MERGE)
        second = await anext(stream)
        return [json.loads(first), json.loads(second)]

    lines = run_virtually(work())
    age = [column["name"] for column in lines[0]["object"]["columnDefinitions"]].index("Age")
    assert [line["object"]["rows"][0]["cells"][age] for line in lines] == ["0s", "2m"]


def test_metadata_alone_can_be_watched(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    line = watched(api, TIMED, accept=accept)[0]
    assert line["object"]["kind"] == "PartialObjectMetadata"
    assert set(line["object"]) == {"kind", "apiVersion", "metadata"}


def test_a_watch_of_one_namespace_sees_nothing_of_others(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    api.post("/api/v1/namespaces/other/pods", pod("z"))
    first = versions(api, 0)[0]
    names = {name for _, name, _ in summaries(watched(api, f"{TIMED}&resourceVersion={first}"))}
    assert names == {"a", "b"}
    everywhere = watched(api, f"{TIMED}&resourceVersion={first}", "/api/v1/pods")
    assert "z" in {name for _, name, _ in summaries(everywhere)}


def test_errors_come_before_the_stream(api: Api) -> None:
    status, result = api.ask("GET", f"{PODS}?watch=true&fieldSelector=foo%3Dbar")
    assert (status, result["message"]) == (400, "field label not supported: foo")


def test_patches_that_change_nothing_are_not_seen(api: Api) -> None:
    base = api.version
    api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE)
    assert api.version == base
    assert watched(api, f"{TIMED}&resourceVersion={base}") == []


def test_large_events_are_sent_in_batches() -> None:
    """A client that does not read has one batch waiting, not all that was missed."""

    async def work() -> list[bytes]:
        api = Api()
        version = api.version
        for number in range(5):
            big = config_map(f"a{number}", data={"a": "x" * 600_000})
            await api.handle("POST", CONFIG_MAPS, big)
        stream = await opened(api, f"{TIMED}&resourceVersion={version}", CONFIG_MAPS)
        return [chunk async for chunk in stream]

    chunks = run_virtually(work())

    assert [chunk.count(b'"ADDED"') for chunk in chunks] == [2, 2, 1]
    names = [json.loads(line)["object"]["metadata"]["name"] for c in chunks for line in c.split()]
    assert names == [f"a{number}" for number in range(5)]
