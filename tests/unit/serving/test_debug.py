"""/debug/pprof and /debug/flags."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.serving.debug import PROFILE_S, PROFILE_S_MAX, Pprof, flag_routes
from mooring.serving.messages import Reply
from tests.helpers.serving import Sleeps, asking


def get(path: str, sleeps: Sleeps | None = None, **query: str) -> Reply:
    clock = VirtualClock()
    exact, prefixes = Pprof(clock, sleeps or Sleeps(clock)).routes()
    handler = exact.get(path) or prefixes["/debug/pprof/"]
    found: Any = handler(asking(path, query=list(query.items())))
    return asyncio.run(found)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [
        *(("", PROFILE_S), ("x", PROFILE_S), ("0", PROFILE_S), ("-1", PROFILE_S), ("7", 7)),
        *(("99999", PROFILE_S_MAX), ("9" * 5000, PROFILE_S)),
    ],
)
def test_the_length_of_a_profile(seconds: str, waits: int) -> None:
    sleeps = Sleeps(VirtualClock())
    reply = get("/debug/pprof/profile", sleeps, seconds=seconds)
    assert sleeps.waits == [waits]
    assert reply.headers["Content-Disposition"] == 'attachment; filename="profile"'
    assert gzip.decompress(reply.body)


def test_a_profile_as_text() -> None:
    reply = get("/debug/pprof/profile", seconds="1", debug="1")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_tasks_have_stacks() -> None:
    text = get("/debug/pprof/goroutine").body.decode()
    assert text.startswith("goroutine profile: total 1\n")
    assert "task_stacks" in text or "run" in text


def test_threads_have_stacks() -> None:
    text = get("/debug/pprof/threadcreate").body.decode()
    assert "test_threads_have_stacks" in text


def test_the_heap_by_type_or_by_line() -> None:
    assert b"\tbuiltins.dict\n" in get("/debug/pprof/heap").body
    tracemalloc.start()
    try:
        assert get("/debug/pprof/heap").body.startswith(b"heap profile: tracemalloc\n")
    finally:
        tracemalloc.stop()


def test_the_index_lists_what_there_is() -> None:
    text = get("/debug/pprof/").body.decode()
    for name in ("goroutine", "heap", "threadcreate", "profile?seconds="):
        assert f"href='{name}" in text


@pytest.mark.parametrize("name", ["mutex", "block", "allocs", "trace", "x"])
def test_what_python_does_not_have_is_not_found(name: str) -> None:
    reply = get(f"/debug/pprof/{name}")
    assert (reply.status, reply.body) == (404, b"Unknown profile\n")


def test_verbosity_is_set_by_put_only() -> None:
    levels: list[int] = []
    exact, _ = flag_routes(levels.append)

    def send(method: str, body: bytes) -> Reply:
        found: Any = exact["/debug/flags/v"](asking(method=method, body=body))
        return asyncio.run(found)  # type: ignore[no-any-return]

    assert send("PUT", b"5").body == b"successfully set klog.logging.verbosity to 5\n"
    assert send("POST", b"6").status == 406
    assert send("PUT", b"9" * 5000).status == 400
    assert send("PUT", "٣".encode()).status == 400  # a digit, and not one of Go's
    assert levels == [5]
