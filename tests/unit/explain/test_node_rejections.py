"""The pods that wait, by the reasons of one node; the expected reasons are written by hand."""

from __future__ import annotations

import json
from typing import Any

from mooring.explain.handler import ExplainHandler
from mooring.explain.node_rejections import NodeRejections, running_node_rejections
from mooring.framework import Reject
from mooring.framework.runtime.all_rejections import all_rejections
from mooring.objects.pod import Pod
from mooring.serving.messages import Reply, ServingRequest
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, run_scheduler, virtually
from tests.helpers.scripted_plugins import Permits

TAINT = ("TaintToleration", ("node(s) had untolerated taint(s)",))
CPU = ("NodeResourcesFit", ("Insufficient cpu",))
SELECTOR = ("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
CORDON = ("NodeUnschedulable", ("node(s) were unschedulable",))
#: 4 cores and a taint; the other node takes no pods at all.
NODES = (
    make_node("a", allocatable={"cpu": "4"}, labels={"disk": "ssd"}, taints=["team=db:NoSchedule"]),
    make_node("b", allocatable={"cpu": "4"}, unschedulable=True),
)


def pod(name: str, cpu: str = "1", *, tolerates: bool = True, **parts: Any) -> Pod:
    tolerations = ["team=db:NoSchedule"] if tolerates else []
    return make_pod(name, requests={"cpu": cpu}, tolerations=tolerations, **parts)


async def rejections(life: Life, node: str) -> NodeRejections:
    result = await running_node_rejections(life.service, node)
    assert result is not None
    return result


def groups(result: NodeRejections) -> dict[tuple[Any, ...], list[str]]:
    return {
        tuple((item.plugin, item.reasons) for item in group.rejections): sorted(
            item.pod.removeprefix("default/") for item in group.pods
        )
        for group in result.groups
    }


async def create(life: Life, *pods: Pod) -> None:
    for item in pods:
        await life.create(item)
        await life.until_seen("failed", item.metadata.name)


@virtually
async def test_pods_that_wait_are_grouped_by_all_reasons_of_the_node() -> None:
    async with run_scheduler(*NODES) as life:
        await create(
            life,
            pod("plain", tolerates=False),
            pod("plain-too", tolerates=False),
            pod("large", "5"),
            pod("picky", node_selector={"disk": "nvme"}),
            pod("both", "5", tolerates=False),
        )
        await life.create(pod("gated", gates=["example.com/wait"]))
        await life.settle()
        result = await rejections(life, "a")
        assert groups(result) == {
            (TAINT,): ["plain", "plain-too"],
            (CPU,): ["large"],
            (SELECTOR,): ["picky"],
            (TAINT, CPU): ["both"],
        }
        assert (result.node, result.pending, result.looked_at, result.note) == ("a", 5, 5, "")
        assert {item.state for group in result.groups for item in group.pods} == {"unschedulable"}
        other = groups(await rejections(life, "b"))
        assert other == {
            (CORDON,): ["plain", "plain-too"],
            (CORDON, CPU): ["both", "large"],
            (CORDON, SELECTOR): ["picky"],
        }


@virtually
async def test_a_pod_that_is_rejected_elsewhere_would_fit_on_the_node() -> None:
    plugins = [Permits(Reject("not today"))]
    async with run_scheduler(*NODES, plugins=plugins, at_rest=False) as life:
        await create(life, pod("large", "5"), pod("fits"))
        result = await rejections(life, "a")
        assert groups(result) == {(): ["fits"], (CPU,): ["large"]}
        assert result.groups[0].rejections == ()  # those that fit come first


@virtually
async def test_pods_of_the_highest_priority_are_decided_and_the_others_counted() -> None:
    async with run_scheduler(NODES[1]) as life:
        for number in range(103):
            await life.create(pod(f"p{number:03}", spec={"priority": 0}))
        await create(life, pod("q-last"))
        await life.settle()
        result = await rejections(life, "b")
        ((reasons, names),) = groups(result).items()
        assert (reasons, len(names), names[0]) == ((CORDON,), 100, "p000")
        assert (result.pending, result.looked_at) == (104, 100)


@virtually
async def test_one_node_has_the_rejections_that_it_has_among_all_nodes() -> None:
    async with run_scheduler(*NODES) as life:
        pods = [pod("both", "5", tolerates=False), pod("picky", node_selector={"disk": "nvme"})]
        framework = life.service.profiles["default-scheduler"]
        snapshot = life.service.cache.snapshot()
        for item in pods:
            every = all_rejections(framework, item, snapshot)
            for name in ("a", "b"):
                alone = all_rejections(framework, item, snapshot, node=name)
                assert alone.of_nodes == {name: every.of_nodes[name]}


@virtually
async def test_a_running_mooring_is_asked_about_a_node() -> None:
    async with run_scheduler(*NODES) as life:
        await create(life, pod("large", "5"))
        page = ExplainHandler(lambda: life.service, lambda: "", life.clock)

        async def reply(node: str) -> Reply:
            query = [("node", node), ("output", "json")]
            return await page(ServingRequest("GET", "/mooring/v1/explain", query=query))

        document = json.loads((await reply("a")).body)
        assert document == {
            "node": "a",
            "pending": 1,
            "lookedAt": 1,
            "note": "",
            "groups": [
                {
                    "rejections": [
                        {
                            "plugin": "NodeResourcesFit",
                            "code": "UnschedulableAndUnresolvable",
                            "reasons": ["Insufficient cpu"],
                        }
                    ],
                    "pods": [{"pod": "default/large", "state": "unschedulable"}],
                }
            ],
        }
        missing = await reply("none")
        assert (missing.status, missing.body) == (404, b"no node 'none' in the cluster\n")
