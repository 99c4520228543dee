"""Two equal real clusters, the same extenders: mooring does with them what kube-scheduler does."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.extender_server.http import serve
from mooring.extender_server.options import ServeOptions
from mooring.extender_server.plugin_extender import Extender
from mooring.objects import Node, Pod
from mooring.objects.codec.decode import convert
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane import ControlPlane
from tests.integration.decisions import Fate, Onlooker
from tests.integration.deterministic_plugin import Serial
from tests.integration.processes import free_port
from tests.integration.schedulers import run, scheduling, transport_to

PLAIN = 40
#: One point of an extender is worth more than all that plugins may say.
WEIGHT = 100

#: The second extender's behaviour, by label of the pod.
ODD = (
    "failed", "mixed", "silent", "error", "moon", "code", "partial", "names", "later", "zero",
)  # fmt: skip


def nodes() -> list[Node]:
    room = {"cpu": "4", "memory": "16Gi", "pods": "40"}
    return [make_node(f"node-{number:02}", allocatable=room) for number in range(20)]


def pods() -> list[Pod]:
    """Returns plain pods, odd pods, and a preemptor."""
    at_once = {"terminationGracePeriodSeconds": 0}  # there is no kubelet that would end them
    plain = [
        make_pod(f"pod-{number}", requests={"cpu": "100m"}, spec=at_once) for number in range(PLAIN)
    ]
    odd = [
        make_pod(
            f"pod-{PLAIN + number}", labels={"odd": what}, requests={"cpu": "100m"}, spec=at_once
        )
        for number, what in enumerate(ODD)
    ]
    urgent = {**at_once, "priorityClassName": "urgent"}
    preemptor = make_pod("pod-100", labels={"odd": "room"}, requests={"cpu": "4"}, spec=urgent)
    return [*plain, *odd, preemptor]


def filtered(what: str, names: list[str], asked: dict[str, Any]) -> Any:
    """Returns what the odd extender answers to filter; None is HTTP 500."""
    half = len(names) // 2
    answers = {
        "failed": {"FailedNodes": dict.fromkeys(names, "is too hot")},
        "mixed": {
            "failedNodes": dict.fromkeys(names[:-1], "is too hot"),
            "failedAndUnresolvableNodes": dict.fromkeys(names[half:], "has no such chip"),
        },
        "silent": {"NodeNames": [], "Nodes": {"items": []}},
        "error": {"Error": "out of order"},
        "moon": {"NodeNames": ["moon"]},
        "names": {"NodeNames": names},
        "code": None,
    }
    if what in answers:
        return answers[what]
    kept = names[half:] if what in ("partial", "later") else names
    whole = asked.get("Nodes")
    if whole is not None:
        items = [node for node in whole["items"] if node["metadata"]["name"] in kept]
        return {"Nodes": {"items": items}}
    return {"NodeNames": kept}


async def answer(request: web.Request) -> web.Response:
    """Returns the odd extender; its verbs are its own."""
    asked = json.loads(await request.read())
    what = asked["Pod"]["metadata"].get("labels", {}).get("odd", "")
    if request.path.endswith("sieve"):
        whole = asked["Nodes"]
        names = asked["NodeNames"] or [node["metadata"]["name"] for node in whole["items"]]
        # A kube-scheduler that starts late lists the nodes in any order.
        said = filtered(what, sorted(names), asked)
    elif request.path.endswith("room"):
        sent = asked["NodeNameToMetaVictims"] or asked["NodeNameToVictims"]
        chosen = sent["node-07"]
        uids = [pod.get("UID") or pod["metadata"]["uid"] for pod in chosen["Pods"]]
        said = {"NodeNameToMetaVictims": {"node-07": {"Pods": [{"UID": uid} for uid in uids]}}}
    else:  # scores: an error that is ignored, or nothing new
        said = None if what == "zero" else []
    if said is None:
        return web.Response(status=500)
    return web.json_response(said)


@asynccontextmanager
async def odd_extender(port: int) -> AsyncIterator[None]:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()


class Watcher(Onlooker):
    """Creates our pods."""

    async def our_fates(self) -> list[Fate]:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._informer.run())
            await self._informer.wait_until_synced()
            found = [await self._fate(pod) for pod in pods()]
            watching.cancel()
        return found


async def fates_on(plane: ControlPlane, config: dict[str, Any], *, is_ours: bool) -> list[Fate]:
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        client = Client(transport, rng=seeded_random(3))
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        await client.create(convert(urgent, "PriorityClass"))
        for node in nodes():
            await client.create(node)
        if not is_ours:
            plane.scheduler.launch()
            return await Watcher(client).our_fates()
        own = read_kubeconfig([str(plane.kubeconfig("system:kube-scheduler"))])
        async with transport_to(own) as way, scheduling(way, config=from_document(config)):
            return await Watcher(client).our_fates()
    finally:
        await transport.close()


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("is_capable", [False, True], ids=["objects", "names"])
def test_the_same_extenders_lead_to_the_same_fates(is_capable: bool) -> None:
    serial_port, odd_port = free_port(), free_port()
    serial = {
        "urlPrefix": f"http://127.0.0.1:{serial_port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": WEIGHT,
        "nodeCacheCapable": is_capable,
    }
    odd = {
        "urlPrefix": f"http://127.0.0.1:{odd_port}/odd/",
        "filterVerb": "sieve",
        "prioritizeVerb": "scores",
        "preemptVerb": "room",
        "weight": 1,
        "nodeCacheCapable": is_capable,
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 1,
        "percentageOfNodesToScore": 100,
        "extenders": [
            {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "gone", "ignorable": True},
            serial,
            odd,
        ],
    }
    found: list[list[Fate]] = []

    async def both() -> None:
        clock = SystemClock()
        served = serve(
            Extender([Serial()], clock=clock), ServeOptions(port=serial_port), clock=clock
        )
        async with served, odd_extender(odd_port), asyncio.TaskGroup() as tasks:
            theirs = tasks.create_task(fates_on(plane, config, is_ours=False))
            ours = tasks.create_task(fates_on(bare, config, is_ours=True))
        found.extend([theirs.result(), ours.result()])

    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(scheduler=True, scheduler_configuration=config))
        bare = stack.enter_context(ControlPlane())
        plane.scheduler.kill()
        run(both)
    theirs, ours = found
    assert len(theirs) == len(pods())
    assert ours == theirs
    # It is worth something only if every kind of outcome occurs.
    assert sum(bool(fate.node) for fate in theirs[:PLAIN]) == PLAIN
    assert len({fate.message for fate in theirs}) >= 6
    assert theirs[-1].node == "node-07"
    assert theirs[-1].victims
