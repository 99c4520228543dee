"""The checks of requests, and the commit in the message of a failing seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.client import Request
from tests.faults.harness.request_checker import REQUESTS_MAX, RequestChecker
from tests.faults.harness.revision import commit
from tests.helpers.virtual_loop import run_virtually

STATUS = "/api/v1/namespaces/default/pods/p/status"
BINDING = "/api/v1/namespaces/default/pods/p/binding"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def request(method: str, path: str, **body: Any) -> Request:
    return Request(method, path, deadline_s=10.0, body=msgspec.json.encode(body) if body else b"")


def checked(work: Callable[[RequestChecker], Awaitable[None]]) -> list[str]:
    """Returns the rules that the requests of ``work`` break."""

    async def run() -> list[str]:
        checker = RequestChecker()
        await work(checker)
        return [rule for rule, _ in checker.problems()]

    return run_virtually(run())


def test_f5_another_body_for_the_same_object_is_too_early() -> None:
    async def work(checker: RequestChecker) -> None:
        checker.note_retry_after(request("PATCH", STATUS, metadata={"uid": "1"}, status={}), 5)
        await asyncio.sleep(4)
        checker.note_sent(request("PATCH", STATUS, metadata={"uid": "1"}, status={"a": 1}))

    assert checked(work) == ["F5"]


def test_f5_a_retry_after_concerns_no_other_object() -> None:
    async def work(checker: RequestChecker) -> None:
        checker.note_retry_after(request("PATCH", STATUS, metadata={"uid": "1"}), 5)
        checker.note_sent(request("PATCH", STATUS, metadata={"uid": "2"}))
        checker.note_sent(request("GET", STATUS))
        checker.note_retry_after(request("POST", EVENTS, metadata={"name": "e1"}), 5)
        checker.note_sent(request("POST", EVENTS, metadata={"name": "e2"}))
        await asyncio.sleep(5)
        checker.note_sent(request("PATCH", STATUS, metadata={"uid": "1"}))

    assert checked(work) == []


def test_s1_a_write_of_a_pod_names_its_uid() -> None:
    async def work(checker: RequestChecker) -> None:
        pod = STATUS.removesuffix("/status")
        checker.note_sent(request("PATCH", STATUS, metadata={"uid": "1"}))
        checker.note_sent(request("DELETE", pod, preconditions={"uid": "1"}))
        assert list(checker.problems()) == []
        checker.note_sent(request("DELETE", pod))
        checker.note_sent(request("PATCH", STATUS, status={}))

    assert checked(work) == ["S1", "S1"]


def test_f5_a_pod_that_was_created_again_is_another_object() -> None:
    async def work(checker: RequestChecker) -> None:
        uids = {"/pods/p": "1"}
        checker.uid_at = lambda path: uids.get(path, "")
        checker.note_retry_after(request("GET", "/pods/p"), 5)
        uids["/pods/p"] = "2"
        checker.note_sent(request("GET", "/pods/p"))
        uids["/pods/p"] = "1"
        checker.note_sent(request("GET", "/pods/p"))

    assert checked(work) == ["F5"]


def test_f1_a_request_that_is_sent_again_and_again() -> None:
    def sends(pause_s: float) -> Callable[[RequestChecker], Awaitable[None]]:
        async def work(checker: RequestChecker) -> None:
            for _ in range(REQUESTS_MAX + 5):
                checker.note_sent(request("POST", BINDING, metadata={"uid": "1"}))
                await asyncio.sleep(pause_s)

        return work

    assert checked(sends(1.0)) == ["F1"]
    assert checked(sends(1.5)) == []


@pytest.mark.parametrize(("tokens", "rules"), [(range(200), []), ([7] * 200, ["F1"])])
def test_f1_the_pages_of_a_list_are_different_requests(
    tokens: Sequence[int], rules: list[str]
) -> None:
    async def work(checker: RequestChecker) -> None:
        for token in tokens:
            query = [("limit", "3"), ("continue", str(token))]
            checker.note_sent(request("GET", "/api/v1/pods")._replace(query=query))

    assert checked(work) == rules


def test_the_bindings_that_were_sent_are_known() -> None:
    async def work(checker: RequestChecker) -> None:
        checker.note_sent(request("POST", BINDING, metadata={"uid": "1"}, target={"name": "a"}))

        assert checker.has_asked_to_bind("1", "a")
        assert not checker.has_asked_to_bind("1", "b")
        assert not checker.has_asked_to_bind("2", "a")

    assert checked(work) == []


def test_the_commit_is_known_in_a_repository_only(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
    here = commit()
    assert here == "unknown" or len(here.rstrip("+")) >= 12
