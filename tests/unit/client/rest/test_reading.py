"""Reads: typed objects and pages, and what is repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.rest.client import Client
from mooring.client.rest.reading import (
    EMPTY_PAGES_MAX,
    PAGES_MAX,
    TRIES_MAX,
    PageTokens,
)
from mooring.client.transport.transport import AnswerTooLong, Pool, Request
from mooring.clock import seeded_random
from mooring.errors import (
    ConfigError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tests.helpers.client_requests import NOWHERE, POD, UNKNOWN, WEB, run
from tests.helpers.client_servers import Script, answer, refusal
from tests.helpers.running_scheduler import virtually


def test_get_gives_a_typed_object() -> None:
    script = Script(answer(200, POD))
    pod, _ = run(script, lambda client: client.get("Pod", "web", "shop"))
    assert pod == WEB
    assert script.requests[0].path == "/api/v1/namespaces/shop/pods/web"
    assert script.requests[0].pool is Pool.READ


def test_get_of_what_is_not_there_is_asked_once() -> None:
    script = Script(refusal(404, "NotFound", 'pods "web" not found'))
    with pytest.raises(NotFound, match='pods "web" not found'):
        run(script, lambda client: client.get("Pod", "web", "shop"))
    assert len(script.requests) == 1


def test_a_read_is_repeated_when_the_connection_is_lost_or_the_server_ill() -> None:
    script = Script(NOWHERE, UNKNOWN, answer(500), answer(503), answer(200, POD))
    pod, waits_s = run(script, lambda client: client.get("Pod", "web", "shop"))
    assert pod == WEB
    assert len(waits_s) == 4
    for wait_s, least_s in zip(waits_s, [0.25, 0.5, 1.0, 2.0], strict=True):
        assert least_s <= wait_s < 2 * least_s


@virtually
async def test_a_read_waits_as_long_as_the_server_asks() -> None:
    script = Script(refusal(429, "TooManyRequests", retry_after="30"), answer(200, POD))
    await Client(script, rng=seeded_random(0)).get("Pod", "web", "shop")
    assert 30.0 <= asyncio.get_running_loop().time() < 33.0


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (NOWHERE, Unreachable),
        (UNKNOWN, Unreachable),
        (answer(500, b"ill"), ServerError),
        (refusal(429, "TooManyRequests", retry_after="1"), TooManyRequests),
    ],
)
def test_a_read_is_given_up_after_ten_tries(trouble: Any, expected: type[Exception]) -> None:
    script = Script(*[trouble] * (TRIES_MAX + 1))
    with pytest.raises(expected):
        run(script, lambda client: client.get("Pod", "web", "shop"))
    assert len(script.requests) == 10


def test_a_list_is_read_page_by_page() -> None:
    def page(names: str, token: str) -> Any:
        items = [{"metadata": {"name": name}} for name in names]
        return answer(
            200, {"metadata": {"resourceVersion": "9", "continue": token}, "items": items}
        )

    script = Script(page("ab", "t1"), page("cd", "t2"), page("e", ""))
    found, _ = run(
        script, lambda client: client.list("Pod", label_selector="a=b", field_selector="c=d")
    )
    assert [pod.metadata.name for pod in found.items] == list("abcde")
    assert found.resource_version == "9"
    selectors = {"labelSelector": "a=b", "fieldSelector": "c=d", "limit": "500"}
    assert [request.query for request in script.requests] == [
        selectors,
        {**selectors, "continue": "t1"},
        {**selectors, "continue": "t2"},
    ]


def pages(*parts: tuple[str, str]) -> Script:
    """Returns a server that sends pages with these names and tokens."""
    return Script(*(
        answer(200, {
            "metadata": {"resourceVersion": "9", "continue": token},
            "items": [{"metadata": {"name": name}} for name in names],
        })
        for names, token in parts
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "problem", "requests"),
    [
        ([("a", "t"), ("b", "t"), ("c", "t")], "sends the same page again, got 't'", 2),
        ([("a", "t"), ("b", "u"), ("c", "t")], "sends the same page again, got 't'", 3),
        (
            [("ab", "t"), ("cd", "u"), ("ab", "v")],
            "sends an object on two pages of a list, got '/a'",
            3,
        ),
        (
            [("a", "t"), *(("", f"t{number}") for number in range(100))],
            f"sends more than {EMPTY_PAGES_MAX} empty pages of a list, got 't{EMPTY_PAGES_MAX}'",
            2 + EMPTY_PAGES_MAX,
        ),
    ],
)
def test_a_list_without_an_end_is_an_error(
    parts: list[tuple[str, str]], problem: str, requests: int
) -> None:
    script = pages(*parts)
    with pytest.raises(ConfigError) as caught:
        run(script, lambda client: client.list("Pod"))
    assert str(caught.value) == f"/api/v1/pods: the API server {problem}"
    assert len(script.requests) == requests


def test_a_page_of_malformed_objects_is_not_empty() -> None:
    tokens = PageTokens("/pods")
    for number in range(2 * EMPTY_PAGES_MAX):
        assert tokens.next_token(f"t{number}", 1, "") == f"t{number}"
    bad = {**POD, "spec": 7}
    script = Script(
        *(
            answer(200, {"metadata": {"continue": f"t{number}"}, "items": [bad]})
            for number in range(EMPTY_PAGES_MAX + 2)
        ),
        answer(200, {"metadata": {"resourceVersion": "3"}, "items": [POD]}),
    )
    found, _ = run(script, lambda client: client.list("Pod"))
    assert (found.items, found.malformed) == ((WEB,), EMPTY_PAGES_MAX + 2)


def test_a_list_may_have_some_empty_pages() -> None:
    empty = [("", f"e{number}") for number in range(EMPTY_PAGES_MAX)]
    again = [("", f"f{number}") for number in range(EMPTY_PAGES_MAX)]
    found, _ = run(
        pages(("a", "t"), *empty, ("b", "u"), *again, ("c", "")),
        lambda client: client.list("Pod"),
    )
    assert [pod.metadata.name for pod in found.items] == ["a", "b", "c"]


def test_the_number_of_pages_is_limited() -> None:
    tokens = PageTokens("/api/v1/pods")
    for number in range(PAGES_MAX):
        tokens.next_token(f"t{number}", 1, f"/a{number}")
    with pytest.raises(ConfigError, match=f"sends more than {PAGES_MAX} pages of a list"):
        tokens.next_token("last", 1, "/last")


def test_malformed_objects_of_all_pages_are_counted() -> None:
    bad = {"metadata": {"name": 7}}
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [bad, POD]}
    second = {"metadata": {"resourceVersion": "9"}, "items": [bad]}
    found, _ = run(
        Script(answer(200, first), answer(200, second)), lambda client: client.list("Pod")
    )
    assert found.malformed == len(found.errors) == 2
    assert found.items == (WEB,)


def test_a_page_that_is_too_long_is_asked_for_in_halves() -> None:
    page = {"metadata": {"resourceVersion": "7", "continue": "onwards"}, "items": [POD]}
    last = {"metadata": {"resourceVersion": "7"}, "items": [POD]}
    long = AnswerTooLong("more than 64 MiB")
    script = Script(long, long, answer(200, page), long, answer(200, last))
    found, waits_s = run(script, lambda client: client.list("Pod"))
    assert len(found.items) == 2
    limits = [(asked.query["limit"], asked.query.get("continue")) for asked in script.requests]
    assert limits == [
        ("500", None),
        ("250", None),
        ("125", None),
        ("125", "onwards"),
        ("62", "onwards"),
    ]
    assert waits_s == [], "it is not the server's fault"


def test_an_object_that_is_too_long_by_itself_cannot_be_listed() -> None:
    script = Script(*[AnswerTooLong("more than 64 MiB")] * 9)
    with pytest.raises(Unreachable, match="64 MiB"):
        run(script, lambda client: client.list("Pod"))
    assert script.requests[-1].query["limit"] == "1"


def test_only_a_list_in_one_page_may_be_very_long() -> None:
    script = Script(*[answer(200, {"metadata": {}, "items": []})] * 2)

    async def read(client: Client) -> None:
        for size in (500, 0):
            assert [page async for page in client.pages("Pod", page_size=size)]

    run(script, read)
    assert [asked.request.bytes_max >> 20 for asked in script.requests] == [64, 512]
    assert "limit" not in script.requests[1].query


@pytest.mark.parametrize("tries", [0])
def test_something_must_be_tried(tries: int) -> None:
    with pytest.raises(AssertionError):
        run(Script(), lambda client: client.write("POST", "/", b"", tries=tries))
    with pytest.raises(AssertionError):
        run(Script(), lambda client: client.read(Request("GET", "/", deadline_s=1), tries=tries))
