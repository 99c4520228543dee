"""The configuration of a running scheduler: checked, replaced, and tried out in another process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.config import default_configuration, loads
from mooring.ui.what_if import Request, WhatIfResult
from mooring.ui.what_if_process import decide
from tests.helpers.page import Page, node, page_of, pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKED = (
    HEAD
    + """\
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
"""
)
TWO_PROFILES = HEAD + "profiles:\n- schedulerName: default-scheduler\n- schedulerName: second\n"
OBJECTS = [
    node("n1"),
    node("n2"),
    *(pod(f"web-{number}") for number in range(4)),
    pod("big", cpu="5"),
    pod("other", schedulerName="second"),
]


def with_page(test: Callable[[Page], Awaitable[None]]) -> None:
    async def run() -> None:
        async with page_of(OBJECTS) as page:
            await page.open()
            await test(page)

    asyncio.run(run())


async def finished(page: Page) -> dict[str, Any]:
    """Returns the status of a what-if run that has ended."""
    status: dict[str, Any] = await page.get("what-if")
    while status["state"] == "running":
        status = await page.get("what-if")
    return status


def test_the_text_is_the_configuration_in_effect() -> None:
    async def test(page: Page) -> None:
        document = await page.get("configuration")
        assert loads(document["text"]) == default_configuration()
        assert document["plugins"] == []

    with_page(test)


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        (HEAD + "parallelism: 0\nprofilez: []\n", 4, "profilez", "unknown field"),
        (HEAD + "parallelism: 0\n", 3, "parallelism", "greater than zero"),
        (HEAD + "percentageOfNodesToScore: x\n", 3, "percentageOfNodesToScore", "an integer"),
        (
            HEAD + "profiles:\n- plugins:\n    score:\n      enabled: [{name: Nothing}]\n",
            *(6, "profiles[0].plugins.score.enabled[0].name", "Nothing"),
        ),
        ("a: [", 2, "", "YAML"),
        ("", None, "", "is empty"),
    ],
)
def test_errors_have_their_line(text: str, line: int | None, path: str, words: str) -> None:
    async def test(page: Page) -> None:
        before = page.cluster.service
        for command in ("check-configuration", "apply-configuration", "what-if"):
            status, checked = await page.post(command, {"text": text, "scope": "all"})
            assert status == 200
            first = checked["errors"][0]
            assert (first["line"], first["path"]) == (line, path)
            assert words in first["message"]
            assert page.cluster.service is before

    with_page(test)


def test_a_valid_configuration_names_its_profiles() -> None:
    async def test(page: Page) -> None:
        status, checked = await page.post("check-configuration", {"text": TWO_PROFILES})
        assert status == 200
        assert checked == {"errors": [], "message": "valid: 2 profiles, default-scheduler, second"}

    with_page(test)


def test_the_new_scheduler_takes_over_and_pages_read_everything_again() -> None:
    async def test(page: Page) -> None:
        async def open_stream() -> Any:
            state = await page.get("state")
            words = f"generation={state['generation']}&attempt={state['attempt']}"
            words += "".join(f"&resource={name}" for name in state["resources"])
            return await page.http.get(f"{page.root}/api/v1/stream?{words}")

        stream = await open_stream()
        old = page.cluster.service
        status, applied = await page.post("apply-configuration", {"text": TWO_PROFILES})
        assert (status, applied["errors"]) == (200, [])
        assert page.cluster.service is not old
        assert (await page.get("configuration"))["text"] == TWO_PROFILES

        ticks = [json.loads(line[6:]) async for line in stream.content if line.strip()]
        assert ticks[-1]["nodes"]["isComplete"] is False  # and there the stream ended
        await page.cluster.settle()
        counts = (await page.get("state"))["counts"]
        assert (counts["nodes"], counts["bound"], counts["unschedulable"]) == (2, 5, 1)
        other = (await page.get("pods/default/other"))["row"]
        assert other["state"] == "bound"

        status, _ = await page.post("apply", {"text": json.dumps(pod("late", cpu="1m"))})
        assert status == 200
        await page.cluster.settle()
        assert (await page.get("pods/default/late"))["row"]["state"] == "bound"

    with_page(test)


def test_another_process_decides_all_pods_again() -> None:
    async def test(page: Page) -> None:
        status, begun = await page.post("what-if", {"text": PACKED, "scope": "all"})
        assert (status, begun["state"]) == (200, "running")
        ended = await finished(page)
        assert ended["state"] == "done", ended
        result = ended["result"]
        rows = {row["pod"]: row for row in result["rows"]}
        packed = {rows[f"default/web-{number}"]["after"] for number in range(4)}
        assert len(packed) == 1
        assert (result["placedBefore"], result["placedAfter"]) == (4, 4)
        assert result["differing"] == 2  # of four pods on two nodes
        assert rows["default/big"]["reason"].startswith("0/2 nodes are available: ")
        assert rows["default/other"]["reason"] == "no profile has its schedulerName"
        nodes = {name: (await page.get(f"pods/{name}"))["row"].get("node", "") for name in rows}
        assert {name: row.get("node", "") for name, row in rows.items()} == nodes

    with_page(test)


def test_a_run_is_cancelled_and_wrong_scopes_are_refused() -> None:
    async def test(page: Page) -> None:
        await page.post("what-if", {"text": PACKED, "scope": "pending"})
        status, cancelled = await page.post("cancel-what-if", {})
        assert (status, cancelled["state"]) == (200, "cancelled")
        status, problem = await page.post("what-if", {"text": PACKED, "scope": "some"})
        assert status == 400
        assert "pending, all" in problem["message"]

    with_page(test)


# -- the decisions ------------------------------------------------------------------------------


def decided(scope: str, after: str, *objects: dict[str, Any]) -> WhatIfResult:
    default = HEAD
    for number, item in enumerate(objects):
        item["metadata"]["uid"] = f"uid-{number}"
    raw = json.dumps({"kind": "List", "items": objects}).encode()
    progress: list[tuple[int, int]] = []
    request = Request(before=default, after=after, scope=scope)
    result = decide(request, raw, on_progress=lambda *counts: progress.append(counts))
    assert progress == sorted(progress)
    return result


def bound(name: str, on: str, **spec: Any) -> dict[str, Any]:
    return pod(name, nodeName=on, **spec)


def test_pods_on_nodes_stay_unless_all_are_decided() -> None:
    objects = [node("a"), node("b"), bound("on-a", "a"), pod("new")]
    result = decided("pending", PACKED, *objects)
    [row] = result.rows
    assert (row.pod, row.node, row.before, row.after) == ("default/new", "", "b", "a")
    assert (result.pods, result.differing) == (1, 1)
    assert decided("all", PACKED, *objects).pods == 2


def test_static_finished_and_terminating_pods_stay() -> None:
    static = bound("static", "a")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    done = {**bound("done", "a"), "status": {"phase": "Succeeded"}}
    leaving = bound("leaving", "a")
    leaving["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    assert decided("all", PACKED, node("a"), static, done, leaving).pods == 0


def test_preemption_is_counted_and_the_victim_has_a_reason() -> None:
    high = pod("high", cpu="4", priority=1000)
    result = decided("pending", HEAD, node("a"), bound("low", "a", cpu="2", priority=0), high)
    rows = {row.pod: row for row in result.rows}
    assert result.evicted_before == result.evicted_after == 1
    assert rows["default/high"].after == "a"
    assert result.differing == 0


def test_the_first_line_of_input_can_be_read_back() -> None:
    request = Request(HEAD, PACKED, "all", ("m:P",), 5, {"DynamicResourceAllocation": True})
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request
