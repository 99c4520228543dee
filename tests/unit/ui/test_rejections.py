"""The pods that a node rejects, from each source of the page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.explain.node_rejections import NodeRejections
from mooring.objects.meta import KubernetesObject
from mooring.recordings.format import RecordingReader
from mooring.testing import make_node, make_pod
from mooring.ui.board_error import BoardError
from mooring.ui.cluster_copy import OBJECTS_MAX, ClusterCopy, SchedulerSettings
from mooring.ui.recorded.board import RecordingBoard
from tests.helpers.page import Page, node, page_of, pod

PREEMPTION = Path(__file__).parents[2] / "parity" / "data" / "preemption-4.json.gz"


def groups(document: Any) -> dict[tuple[str, ...], list[str]]:
    return {
        tuple(f"{item['plugin']}: {'; '.join(item['reasons'])}" for item in group["rejections"]): [
            item["pod"] for item in group["pods"]
        ]
        for group in document["groups"]
    }


def test_the_page_of_a_scheduler_has_the_rejections_of_now() -> None:
    async def test(page: Page) -> None:
        document = await page.get("rejections/n1")
        assert groups(document) == {
            ("NodeResourcesFit: Insufficient cpu",): ["default/big"],
            ("NodeAffinity: node(s) didn't match Pod's node affinity/selector",): ["default/picky"],
        }
        _, applied = await page.post("apply", {"text": json.dumps(node("n1", disk="ssd"))})
        assert applied[0]["isOk"]
        await page.cluster.settle()
        document = await page.get("rejections/n1")
        assert groups(document) == {("NodeResourcesFit: Insufficient cpu",): ["default/big"]}
        assert document["pending"] == 1
        async with page.http.get(f"{page.root}/api/v1/rejections/none") as reply:
            assert reply.status == 404

    async def run() -> None:
        objects = [
            node("n1"),
            pod("big", cpu="5"),
            pod("picky", nodeSelector={"disk": "ssd"}),
            pod("gated", schedulingGates=[{"name": "wait"}]),
        ]
        async with page_of(objects) as page:
            await page.open()
            await test(page)

    asyncio.run(run())


def test_without_a_scheduler_a_copy_decides() -> None:
    objects: list[KubernetesObject] = [
        make_node("a", allocatable={"cpu": "4"}, taints=["team=db:NoSchedule"]),
        make_pod("running", node="a", requests={"cpu": "3"}),
        make_pod("plain", requests={"cpu": "1"}),
        make_pod("fits", requests={"cpu": "1"}, tolerations=["team"], priority=5),
        make_pod("large", requests={"cpu": "2"}, tolerations=["team"]),
        make_pod("gated", gates=["wait"]),
    ]
    copy, states = ClusterCopy(SchedulerSettings()), {"default/large": "unschedulable"}

    result = asyncio.run(copy.rejections("a", objects, states))

    assert [
        (
            [item.plugin for item in group.rejections],
            [(item.pod, item.state) for item in group.pods],
        )
        for group in result.groups
    ] == [
        ([], [("default/fits", "active")]),
        (["TaintToleration"], [("default/plain", "active")]),
        (["NodeResourcesFit"], [("default/large", "unschedulable")]),
    ]
    assert (result.pending, result.note.startswith("No running mooring")) == (3, True)
    with pytest.raises(BoardError, match="there is no node b"):
        asyncio.run(copy.rejections("b", objects, states))
    with pytest.raises(BoardError, match="are not copied"):
        asyncio.run(copy.rejections("a", objects * (OBJECTS_MAX // 6 + 1), states))


def test_a_recording_has_the_verdicts_of_the_latest_attempts() -> None:
    with RecordingReader(PREEMPTION) as reader:
        steps = list(reader)
    shown = RecordingBoard(str(PREEMPTION), VirtualClock())

    async def at(position: int, name: str) -> NodeRejections:
        shown.play({"position": position})
        return await shown.rejections(name)

    def recorded(position: int, name: str) -> dict[str, tuple[str, ...]]:
        """Returns plugin and reasons of each pod without a node, from the file."""
        latest = {step.pod_key: step.decision for step in steps[:position]}
        return {
            pod_key: (decision.rejected[name].plugin, *decision.rejected[name].reasons)
            for pod_key, decision in latest.items()
            if decision.result == "unschedulable"
        }

    async def run() -> None:
        seen = 0
        for name in shown.state().nodes.names[:3]:
            for position in (0, 20, 50, 35):
                result = await at(position, name)
                pods = {
                    item.pod: (group.rejections[0].plugin, *group.rejections[0].reasons)
                    for group in result.groups
                    for item in group.pods
                }
                assert pods == recorded(position, name)
                seen += len(pods)
                for item in (item for group in result.groups for item in group.pods):
                    assert steps[item.attempt - 1].pod_key == item.pod
        assert seen

        before = await at(0, shown.state().nodes.names[0])
        assert (before.groups, before.looked_at > 0) == ([], True)
        assert before.note.startswith(f"{before.looked_at} of them have no recorded verdict")
        with pytest.raises(BoardError, match="there is no node none"):
            await shown.rejections("none")

    asyncio.run(run())
