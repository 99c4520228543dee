"""An informer over a transport that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import SLICE, ObjectChange
from mooring.client.rest.client import Client
from mooring.client.transport.transport import Pool, Request, Stream, StreamBroken
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import Unreachable
from tests.helpers.client_servers import Script, Sleeper, answer, refusal


def pod(name: str, version: int, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def end_of_list(version: int) -> bytes:
    notes = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": str(version), "annotations": notes}
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


class End(Exception):
    """The script is over."""


class Case:
    """One run of an informer to the end of its script."""

    def __init__(self, *answers: Any, **options: Any) -> None:
        self.script = Script(*answers, End())
        self.clock = VirtualClock()
        self.sleeper = Sleeper(self.clock)
        self.changes: list[ObjectChange] = []
        asyncio.run(self._run(options))

    async def _run(self, options: dict[str, Any]) -> None:
        client = Client(self.script, rng=seeded_random(1), sleep=self.sleeper)
        self.informer = Informer(
            client,
            "Pod",
            self.changes.append,
            clock=self.clock,
            rng=seeded_random(1),
            sleep=self.sleeper,
            **options,
        )
        with suppress(End):
            await self.informer.run()
        if self.informer.has_synced:
            await self.informer.wait_until_synced()

    @property
    def names(self) -> list[str]:
        return sorted(self.informer.objects)


def test_a_stream_and_its_watch() -> None:
    first, second = line("ADDED", pod("a", 1)), line("ADDED", pod("b", 7))
    case = Case([first[:9], first[9:] + end_of_list(5), second])
    assert case.informer.has_synced
    assert case.names == ["shop/a", "shop/b"]
    assert case.informer.version == "7"
    assert [change.new.metadata.name for change in case.changes] == ["a", "b"]
    assert case.informer.statistics().events == 1
    assert case.script.requests[1].query["resourceVersion"] == "7"
    assert case.script.requests[0].pool is Pool.WATCH


def test_namespace_and_selectors_go_along_with_every_request() -> None:
    case = Case(
        refusal(422, "Invalid"),
        answer(200, {"metadata": {"resourceVersion": "3"}, "items": []}),
        namespace="shop",
        label_selector="a=b",
        field_selector="spec.nodeName=",
    )
    for request in case.script.requests:
        assert request.path == "/api/v1/namespaces/shop/pods"
        assert request.query["labelSelector"] == "a=b"
        assert request.query["fieldSelector"] == "spec.nodeName="
    assert [request.query.get("watch") for request in case.script.requests] == ["1", None, "1"]


def test_pages_when_the_server_cannot_list_by_watching() -> None:
    bad = pod("bad", 2, spec=7)
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [pod("a", 1), bad]}
    second = {"metadata": {"resourceVersion": "9"}, "items": [pod("b", 3)]}
    case = Case(refusal(400, "BadRequest"), answer(200, first), answer(200, second))
    assert case.names == ["shop/a", "shop/b"]
    assert case.informer.statistics().malformed == 1
    assert case.script.requests[-1].query["resourceVersion"] == "9"
    assert case.sleeper.waits_s == [0.0, 0.0]


def test_the_watch_begins_at_the_version_of_the_first_page() -> None:
    """A server whose pages are of several times reports what changed between them."""
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [pod("a", 1)]}
    second = {"metadata": {"resourceVersion": "12"}, "items": [pod("b", 11)]}
    case = Case(refusal(400, "BadRequest"), answer(200, first), answer(200, second))
    assert case.names == ["shop/a", "shop/b"]
    assert case.script.requests[-1].query["resourceVersion"] == "9"


def test_a_410_between_two_pages_starts_the_list_again_without_pages() -> None:
    # The first list had "gone" in its first page. It was deleted before the second list.
    first = {
        "metadata": {"resourceVersion": "9", "continue": "t"},
        "items": [pod("a", 1), pod("gone", 2)],
    }
    whole = {"metadata": {"resourceVersion": "20"}, "items": [pod("a", 1), pod("b", 3)]}
    case = Case(
        refusal(400, "BadRequest"),
        answer(200, first),
        refusal(410, "Expired"),
        answer(200, whole),
    )
    lists = [request.query for request in case.script.requests if not request.query.get("watch")]

    assert case.names == ["shop/a", "shop/b"]
    assert [change.new.metadata.name for change in case.changes] == ["a", "b"]
    assert case.script.requests[-1].query["resourceVersion"] == "20"
    assert [query.get("continue") for query in lists] == [None, "t", None]
    assert ["limit" in query for query in lists] == [True, True, False]


def test_a_page_is_tried_once_and_the_informer_waits() -> None:
    case = Case(refusal(400, "BadRequest"), answer(500, b"ill"))
    assert len(case.script.requests) == 3
    assert case.sleeper.waits_s[1] >= 0.8
    assert not case.informer.has_synced


def test_pages_that_are_no_list_are_a_failure_like_others() -> None:
    case = Case(refusal(400, "BadRequest"), answer(200, b"<html>"))
    assert case.sleeper.waits_s[1] >= 0.8
    assert isinstance(case.informer.last_error, StreamBroken)


@pytest.mark.parametrize("tokens", ["tutu", "abcdefghijklmnopqrstuvwxyz"])
def test_pages_without_an_end_are_a_failure_like_others(tokens: str) -> None:
    """The server alternates two tokens, or has always a new one and no objects."""
    pages = [answer(200, {"metadata": {"resourceVersion": "9", "continue": token}, "items": []})
             for token in tokens]  # fmt: skip
    case = Case(refusal(400, "BadRequest"), *pages)
    watches = [request.query.get("watch") for request in case.script.requests]
    number_of_pages = watches.index("1", 1) - 1
    assert number_of_pages == 3 if tokens == "tutu" else number_of_pages < 20
    assert case.sleeper.waits_s[1] >= 0.8
    assert not case.informer.has_synced


def test_an_object_that_cannot_be_read_in_a_page_is_kept() -> None:
    page = {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 8, spec=7)]}
    case = Case(
        [line("ADDED", pod("a", 1)) + end_of_list(5)],
        refusal(410, "Expired"),
        refusal(400, "BadRequest"),
        answer(200, page),
    )
    assert case.names == ["shop/a"]
    assert len(case.changes) == 1


def test_what_was_missed_is_told_after_a_410() -> None:
    case = Case(
        [line("ADDED", pod("a", 1)) + line("ADDED", pod("b", 2)) + end_of_list(5)],
        refusal(410, "Expired"),
        [line("ADDED", pod("b", 2)) + end_of_list(9)],
    )
    gone = case.changes[-1]
    assert (gone.old.metadata.name, gone.new, gone.last) == ("a", None, None)
    assert case.informer.statistics().missed_deletes == 1
    assert case.informer.statistics().lists == 2


@pytest.mark.parametrize(
    "trouble",
    [
        [StreamBroken("cut")],
        refusal(500, "InternalError"),
        [b'{"type":"ERROR","object":{"code":500}}\n'],
        [line("ADDED", pod("c", 9))[:20]],
    ],
)
def test_no_trouble_ends_it(trouble: Any) -> None:
    case = Case(
        [line("ADDED", pod("a", 1)) + end_of_list(5)], trouble, [line("ADDED", pod("b", 6))]
    )
    assert case.names == ["shop/a", "shop/b"]
    assert case.script.requests[2].query["resourceVersion"] == "5"
    assert case.sleeper.waits_s[1] >= 0.8


def test_all_is_listed_after_a_server_was_away() -> None:
    first = line("ADDED", pod("a", 1)) + line("ADDED", pod("b", 2)) + end_of_list(5)
    case = Case([first], Unreachable("refused"), [line("ADDED", pod("b", 6)) + end_of_list(6)])
    assert case.names == ["shop/b"]
    assert case.script.requests[2].query["sendInitialEvents"] == "true"
    assert case.script.requests[2].query["resourceVersion"] == "5"
    assert case.sleeper.waits_s[1] >= 0.8


def test_a_handler_that_fails_ends_it() -> None:
    async def main() -> None:
        def handler(_: ObjectChange) -> None:
            raise ValueError("our own bug")

        script = Script([line("ADDED", pod("a", 1)) + end_of_list(5)])
        client = Client(script, rng=seeded_random(1))
        informer = Informer(client, "Pod", handler, clock=VirtualClock(), rng=seeded_random(1))
        with pytest.raises(ValueError, match="our own bug"):
            await informer.run()

    asyncio.run(main())


def test_others_run_while_a_long_list_is_taken_in() -> None:
    turns = 0

    async def main() -> None:
        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        lines = b"".join(line("ADDED", pod(f"p{number}", number)) for number in range(1, 2001))
        script = Script([lines + end_of_list(3000)], End())
        client = Client(script, rng=seeded_random(1))
        informer = Informer(
            client, "Pod", lambda _: None, clock=VirtualClock(), rng=seeded_random(1)
        )
        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count())
            with pytest.raises(End):
                await informer.run()
            counting.cancel()
        assert len(informer.objects) == 2000

    asyncio.run(main())
    assert turns >= 10


def test_it_has_synced_though_the_stream_broke_in_the_batch_that_ended_the_list() -> None:
    case = Case([end_of_list(5) + b"<html>\n"], Unreachable("refused"))
    assert case.informer.has_synced


def test_nothing_is_wrong_while_a_watch_is_open() -> None:
    seen: list[Any] = []

    class Watching(Script):
        @asynccontextmanager
        async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
            async with super().stream(request, idle_s=idle_s) as found:
                yield found
                seen.append(informer.last_error)

    script = Watching(Unreachable("refused"), [end_of_list(5)], End())
    client = Client(script, rng=seeded_random(1))
    clock = VirtualClock()
    informer = Informer(
        client,
        "Pod",
        lambda _: None,
        clock=clock,
        rng=seeded_random(1),
        sleep=Sleeper(clock),
    )
    with pytest.raises(End):
        asyncio.run(informer.run())
    assert seen == [None]


@pytest.mark.parametrize("mark", [b"\xff", b"\\ud800"])
def test_what_cannot_be_read_is_kept_though_the_page_is_no_proper_text(mark: bytes) -> None:
    first = line("ADDED", pod("a", 1)) + line("ADDED", pod("b", 2)) + end_of_list(5)
    gone = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    bad = pod("a", 7, spec={"priority": "MARK"})
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [bad]}).encode()
    case = Case(
        [first + gone],
        refusal(422, "Invalid"),
        answer(200, body.replace(b"MARK", mark)),
        Unreachable("refused"),
    )
    assert case.names == ["shop/a"], "its capacity is still taken"
    assert case.informer.objects["shop/a"].metadata.resource_version == "1"
    statistics = case.informer.statistics()
    assert (statistics.malformed, statistics.missed_deletes) == (1, 1)


def test_others_run_while_many_pages_are_taken_in() -> None:
    items = [pod(f"p{number}", number + 1) for number in range(SLICE + 1)]
    body = {"metadata": {"resourceVersion": "900"}, "items": items}
    turns: list[int] = []

    async def main() -> None:
        script = Script(refusal(422, "Invalid"), answer(200, body), End())
        clock = VirtualClock()
        informer = Informer(
            Client(script, rng=seeded_random(1)),
            "Pod",
            lambda _: None,
            clock=clock,
            rng=seeded_random(1),
            sleep=Sleeper(clock),
        )

        async def look() -> None:
            while not informer.has_synced:
                turns.append(len(informer.objects))
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look())
            with suppress(End):
                await informer.run()

    asyncio.run(main())
    assert SLICE in turns


def test_an_api_server_without_an_optional_kind_has_no_such_objects() -> None:
    missing = refusal(404, reason="NotFound", message="the server could not find the resource")
    required = Case(missing)
    assert not required.informer.has_synced
    assert required.informer.last_error is not None
    optional = Case(missing, is_optional=True)
    assert optional.informer.has_synced
    assert optional.informer.last_error is None
    assert optional.names == []
    # It is looked for again, and may be installed later.
    pods = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [pod("a", 5)]}
    later = Case(missing, answer(200, {"apiVersion": "v1", **pods}), is_optional=True)
    assert later.names == ["shop/a"]
