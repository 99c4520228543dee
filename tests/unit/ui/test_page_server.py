"""The server of the page: what it serves to whom, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.helpers.page import Page, node, page_of, pod

OBJECTS = [
    node("n1", **{"topology.kubernetes.io/zone": "a"}),
    node("n2"),
    pod("small"),
    pod("big", cpu="5"),
    pod("gated", schedulingGates=[{"name": "wait"}]),
]


def with_page(test: Callable[[Page], Awaitable[None]], *, is_open: bool = True) -> None:
    async def run() -> None:
        async with page_of(OBJECTS) as page:
            if is_open:
                await page.open()
            await test(page)

    asyncio.run(run())


def test_without_the_cookie_only_the_files_are_served() -> None:
    async def test(page: Page) -> None:
        for path, status in (
            ("/", 200),
            ("/static/app.js", 200),
            ("/static/vendor/preact-htm.js", 200),
            ("/static/nothing.js", 404),
            ("/static/../guard.py", 404),
            ("/api/v1/state", 401),
            ("/api/v1/stream", 401),
            ("/api/v1/export", 401),
        ):
            async with page.http.get(page.root + path) as reply:
                assert reply.status == status, path
                assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
                assert reply.headers["X-Content-Type-Options"] == "nosniff"
                assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                assert "Access-Control-Allow-Origin" not in reply.headers
        status, _ = await page.post("apply", {"text": json.dumps(pod("x"))})
        assert status == 401

    with_page(test, is_open=False)


def test_a_wrong_token_opens_nothing() -> None:
    async def test(page: Page) -> None:
        for body in ({"token": "0" * 32}, {}, {"token": 5}):
            async with page.http.post(f"{page.root}/session", json=body) as reply:
                assert reply.status == 401
                assert "Set-Cookie" not in reply.headers
        async with page.http.post(
            f"{page.root}/session", data=b"[", headers={"Content-Type": "application/json"}
        ) as reply:
            assert reply.status == 400

    with_page(test, is_open=False)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_requests_of_other_pages_are_refused_although_they_have_the_cookie(
    headers: dict[str, str],
) -> None:
    async def test(page: Page) -> None:
        url = f"{page.root}/api/v1/"
        async with page.http.get(url + "state", headers=headers) as reply:
            assert reply.status == 403
        body = {"kind": "Pod", "namespace": "default", "name": "small"}
        async with page.http.post(url + "delete", json=body, headers=headers) as reply:
            assert reply.status == 403
        assert await page.get("pods/default/small")

    with_page(test)


def test_the_state_has_all_nodes_and_numbers() -> None:
    async def test(page: Page) -> None:
        state = await page.get("state")
        assert sorted(state["nodes"]["names"]) == ["n1", "n2"]
        assert state["resources"] == ["cpu", "memory"]
        counts = state["counts"]
        assert (counts["bound"], counts["unschedulable"], counts["gated"]) == (1, 1, 1)
        assert sum(state["nodes"]["pods"]) == 1

    with_page(test)


def test_the_stream_tells_what_changes() -> None:
    async def test(page: Page) -> None:
        state = await page.get("state")
        words = f"generation={state['generation']}&attempt={state['attempt']}"
        url = f"{page.root}/api/v1/stream?{words}&resource=cpu&resource=memory"
        async with page.http.get(url) as reply:
            assert reply.headers["Content-Type"] == "text/event-stream"
            status, applied = await page.post("apply", {"text": json.dumps(pod("new"))})
            assert (status, applied[0]["isOk"]) == (200, True)
            rows: set[int] = set()
            attempts: list[Any] = []
            while not rows or not attempts:
                line = await reply.content.readline()
                if line.startswith(b"data: "):
                    tick = json.loads(line[6:])
                    rows |= set((tick["nodes"].get("usage") or {}).get("rows", ()))
                    attempts += tick["attempts"]
            assert len(rows) == 1
            assert [(each["pod"], each["result"]) for each in attempts] == [
                ("default/new", "scheduled")
            ]

    with_page(test)


def test_a_stream_that_has_missed_too_much_ends() -> None:
    async def test(page: Page) -> None:
        url = f"{page.root}/api/v1/stream?generation=-99999999&attempt=0&resource=cpu"
        async with page.http.get(url) as reply:
            text = await reply.text()
        assert json.loads(text.removeprefix("data: "))["nodes"]["isComplete"] is False
        async with page.http.get(f"{page.root}/api/v1/stream?generation=x&attempt=0") as reply:
            assert reply.status == 400

    with_page(test)


def test_the_queue_groups_pods_by_reason() -> None:
    async def test(page: Page) -> None:
        queue = await page.get("queue")
        (reason,) = queue["reasons"]
        assert reason["pods"] == ["default/big"]
        assert reason["plugins"] == ["NodeResourcesFit"]
        assert "Insufficient cpu" in reason["message"]
        assert "PodDelete" in reason["events"]
        assert [each["pod"] for each in queue["gated"]] == ["default/gated"]
        assert queue["gated"][0]["plugins"] == ["SchedulingGates"]

    with_page(test)


def test_pods_are_listed_and_searched() -> None:
    async def test(page: Page) -> None:
        rows = (await page.get("pods"))["pods"]
        states = {row["pod"]: row["state"] for row in rows}
        assert states == {
            "default/big": "unschedulable",
            "default/gated": "gated",
            "default/small": "bound",
        }
        found = (await page.get("pods?q=g&state=gated"))["pods"]
        assert [row["pod"] for row in found] == ["default/gated"]
        assert (await page.get("pods?after=default/gated"))["pods"][0]["pod"] == "default/small"

    with_page(test)


def test_a_pod_has_its_attempts_and_the_reasons() -> None:
    async def test(page: Page) -> None:
        details = await page.get("pods/default/big")
        assert details["object"]["metadata"]["name"] == "big"
        assert [each["result"] for each in details["attempts"]] == ["unschedulable"]
        state = await page.get("explain/default/big")
        assert state["queue"] == "unschedulable"
        assert "0/2 nodes are feasible" in state["explanation"]["summary"]
        assert {each["name"] for each in state["explanation"]["nodes"]} == {"n1", "n2"}
        async with page.http.get(f"{page.root}/api/v1/pods/default/none") as reply:
            assert reply.status == 404
            assert "default/none" in (await reply.json())["message"]

    with_page(test)


def test_a_node_has_its_pods() -> None:
    async def test(page: Page) -> None:
        name = (await page.get("pods/default/small"))["row"]["node"]
        details = await page.get(f"nodes/{name}")
        assert [row["pod"] for row in details["pods"]] == ["default/small"]
        async with page.http.get(f"{page.root}/api/v1/nodes/none") as reply:
            assert reply.status == 404

    with_page(test)


def test_objects_are_applied_one_by_one_with_their_lines() -> None:
    text = f"""{json.dumps(pod("one"))}
---
apiVersion: v1
kind: Pod
metadata: {{name: two, namespace: default}}
spec: {{containers: []}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {{name: three}}
"""

    async def test(page: Page) -> None:
        status, results = await page.post("apply", {"text": text})
        assert status == 200
        assert [(each["line"], each["object"], each["isOk"]) for each in results] == [
            (1, "Pod one", True),
            (3, "Pod two", False),
            (8, "Thing three", False),
        ]
        assert "spec.containers: Required value" in results[1]["message"]
        assert results[2]["message"] == "the API server does not serve Thing"

    with_page(test)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "contains no objects"),
        ("a: 1\nb: [", 3, "is not YAML"),
        ("---\n- 1", 1, "must be a Kubernetes object"),
    ],
)
def test_a_text_that_cannot_be_read_applies_nothing(text: str, line: int, problem: str) -> None:
    async def test(page: Page) -> None:
        status, (result,) = await page.post("apply", {"text": text})
        assert status == 200
        assert (result["isOk"], problem in result["message"]) == (False, True)
        assert result["line"] >= line
        assert (await page.post("apply", {"text": 5}))[0] == 400

    with_page(test)


def test_a_copy_of_the_cluster_tells_what_would_help() -> None:
    async def test(page: Page) -> None:
        status, _ = await page.post("apply", {"text": json.dumps(pod("late", cpu="3500m"))})
        assert status == 200
        status, _ = await page.post("apply", {"text": json.dumps(pod("later", cpu="3500m"))})
        await page.cluster.settle()
        explanation = (await page.get("help/default/later"))["explanation"]
        changes = [change for each in explanation["remedies"] for change in each["changes"]]
        assert any("0.5 cpu" in change for change in changes), changes
        bound = await page.get("help/default/small")
        assert bound["node"] in ("n1", "n2")
        assert "decided again without itself" in bound["note"]
        async with page.http.get(f"{page.root}/api/v1/help/default/none") as reply:
            assert reply.status == 404

    with_page(test)


def test_a_deleted_pod_makes_room() -> None:
    async def test(page: Page) -> None:
        body = {"kind": "Pod", "namespace": "default", "name": "small"}
        assert await page.post("delete", body) == (200, {"message": "Pod small deleted"})
        status, document = await page.post("delete", body)
        assert (status, "not found" in document["message"]) == (404, True)
        assert (await page.post("delete", {"kind": "Thing", "name": "x"}))[0] == 409

    with_page(test)


def test_the_export_can_be_applied_again() -> None:
    async def test(page: Page) -> None:
        exported = await page.get("export")
        kinds = [item["kind"] for item in exported["items"]]
        assert kinds.count("Node") == 2
        assert kinds.count("Pod") == 3
        nodes = [item for item in exported["items"] if item["kind"] == "Node"]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
        status, results = await page.post("apply", {"text": text})
        assert (status, [each["isOk"] for each in results]) == (200, [True, True])

    with_page(test)


def test_runner_ups_are_determined_only_while_a_page_is_open() -> None:
    async def test(page: Page) -> None:
        assert "runnerUp" not in (await page.get("pods/default/small"))["attempts"][0]
        state = await page.get("state")
        words = f"generation={state['generation']}&attempt=0&resource=cpu&resource=memory"
        async with page.http.get(f"{page.root}/api/v1/stream?{words}") as reply:
            await reply.content.readline()
            await page.post("apply", {"text": json.dumps(pod("new"))})
            await page.cluster.settle()
            (attempt,) = (await page.get("pods/default/new"))["attempts"]
        assert attempt["runnerUp"] in ("n1", "n2")
        assert attempt["runnerUp"] != attempt["node"]

    with_page(test)
