"""Explanations of a running scheduler about a pod: queue, backoff, nomination, victims, Permit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.client.transport.transport import Request
from mooring.errors import OutcomeUnknown, ServerError
from mooring.explain.handler import ExplainHandler
from mooring.explain.remote import is_about_bound_pod
from mooring.explain.running import Explanation, explain_running
from mooring.framework import Reject, Wait
from mooring.serving.messages import Reply, ServingRequest
from mooring.testing import make_pod
from tests.helpers.devices import exactly, make_claim, make_class, make_device, make_slice
from tests.helpers.preemption_fixture import deletions, pod, preempting, small
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually
from tests.helpers.scripted_plugins import Permits


def asked(life: Life, name: str) -> str:
    return explained(life, name).text


def explained(life: Life, name: str, *, as_json: bool = False) -> Explanation:
    return explain_running(life.service, name, life.clock, as_json=as_json)


def state_of(life: Life, name: str) -> Any:
    return json.loads(explained(life, name, as_json=True).text)


@virtually
async def test_a_pod_without_a_node_has_its_queue_and_the_events_that_requeue_it() -> None:
    async with run_scheduler(small()) as life:
        await life.create(pod("huge", cpu="64"))
        await life.until_seen("failed", "huge")
        await life.settle()
        text = asked(life, "huge")
        assert text.startswith("Unschedulable: waiting for a cluster event.\nAttempts: 1; in this")
        assert (
            "\nRequeued by events of NodeResourcesFit: NodeAdd, NodeUpdateNodeAllocatable, " in text
        )
        assert "Insufficient cpu" in text
        state = state_of(life, "default/huge")
        assert (state["queue"], state["attempts"]) == ("unschedulable", 1)
        assert state["rejectedBy"] == ["NodeResourcesFit"]
        assert "NodeAdd" in state["requeuedBy"]["NodeResourcesFit"]
        assert state["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert state["decision"]["result"] == "unschedulable"


@virtually
async def test_a_pod_in_backoff_has_the_rest_of_it() -> None:
    async with run_scheduler(small(), at_rest=False) as life:

        async def fail(request: Request) -> None:
            raise OutcomeUnknown(request.path) from ServerError("no endpoints", status=500)

        life.wire.before.append(on("POST", "/pods/web/binding")(fail))
        await life.create(pod("web"))
        await life.until_seen("failed", "web")
        state = state_of(life, "web")
        assert state["queue"] == "backoff"
        assert 0 < state["backoffS"] <= 1
        assert f"Backoff: {state['backoffS']:.1f} s more." in asked(life, "web")
        life.wire.before.clear()
        await life.until_seen("bound", "web")
        assert asked(life, "web") == "Pod default/web is on a."
        assert state_of(life, "web")["node"] == "a"


@virtually
async def test_a_preemptor_has_its_nomination_and_its_victims() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.until_seen("bound", "old")

        async def slow(_: Request) -> None:
            await asyncio.sleep(3)

        life.wire.before.append(on("DELETE", "/pods/old")(slow))
        await life.create(pod("new", "high"))
        await life.until_seen("attempted", "new")
        await asyncio.sleep(1)
        state = state_of(life, "new")
        assert (state["nominatedNode"], state["evicting"]) == ("a", ["default/old"])
        assert "Being evicted for it: default/old." in asked(life, "new")
        await life.until(lambda: deletions(life))
        await life.settle()
        assert state_of(life, "new")["terminating"] == ["default/old"]
        assert "Being deleted on that node: default/old." in asked(life, "new")
        await life.delete("old")
        await life.until_seen("bound", "new")


@virtually
async def test_a_pod_that_waits_in_permit_says_for_whom() -> None:
    async with run_scheduler(small(), plugins=[Permits(Wait(60.0))], at_rest=False) as life:
        await life.create(pod("web"))
        await life.until_seen("waits", "web")
        await asyncio.sleep(10)
        assert "Being bound to a.\nWaits in Permit for Permits, for at most " in asked(life, "web")
        state = state_of(life, "web")
        assert state["assumedNode"] == "a"
        assert 45 < state["permit"]["Permits"] <= 50
        assert "decision" not in state


@virtually
async def test_a_pod_that_permit_rejected_says_so() -> None:
    plugins = [Permits(Reject("not today"))]
    async with run_scheduler(small(), plugins=plugins, at_rest=False) as life:
        await life.create(pod("web"))
        await life.until_seen("failed", "web")
        assert (
            "\nIts last attempt chose a node, and Permits rejected it there (Reserve or Permit).\n"
            "Reserve and Permit are not called for the decision below.\n"
        ) in asked(life, "web")
        assert state_of(life, "web")["rejectedAfterFilter"] == ["Permits"]


@virtually
async def test_options_of_the_query_reach_the_explanation() -> None:
    async with run_scheduler(small()) as life:
        await life.create(make_pod("web", node_selector={"disk": "ssd"}, requests={"cpu": "64"}))
        await life.until_seen("failed", "web")
        query = [("pod", "web"), ("all", "true"), ("all-nodes", "true")]
        page = ExplainHandler(lambda: life.service, lambda: "", life.clock)
        reply = await page(ServingRequest("GET", "/mooring/v1/explain", query=query))
        assert b"Rejected by (all rejections of a node):\n" in reply.body
        assert b"\nAll nodes:\n  a: NodeAffinity: nodeSelector disk=ssd: " in reply.body


@virtually
async def test_a_reply_about_a_pod_on_a_node_is_recognized() -> None:
    async with run_scheduler(small()) as life:
        await life.create(pod("web"))
        await life.until_seen("bound", "web")
        for as_json in (False, True):
            assert is_about_bound_pod(explained(life, "web", as_json=as_json).text)
        await life.create(pod("huge", cpu="64"))
        await life.until_seen("failed", "huge")
        for as_json in (False, True):
            assert not is_about_bound_pod(explained(life, "huge", as_json=as_json).text)


@virtually
async def test_names_that_are_wrong_or_ambiguous() -> None:
    async with run_scheduler(small(), at_rest=False) as life:
        await life.create(make_pod("web", scheduler_name="other"))
        await life.create(make_pod("web", namespace="kube-system", scheduler_name="other"))
        await asyncio.sleep(1)
        assert explained(life, "wep") == Explanation(
            404, "no pod 'wep' in the cluster (did you mean 'web'?)"
        )
        assert explained(life, "web").status == 409
        text = (
            "Pod default/web is scheduled by other, not by a profile of this configuration"
            " (default-scheduler)."
        )
        assert asked(life, "default/web") == text


@virtually
async def test_the_page_of_a_standby_names_the_leader() -> None:
    async with run_scheduler(small()) as life:

        async def reply(*query: tuple[str, str], method: str = "GET", **parts: Any) -> Reply:
            page = ExplainHandler(
                parts.get("service", lambda: life.service), lambda: "a_1", life.clock
            )
            return await page(ServingRequest(method, "/mooring/v1/explain", query=query))

        assert (await reply(("pod", "web"))).status == 404
        assert (await reply()).status == 400
        assert (await reply(method="POST")).status == 405
        standby = await reply(("pod", "web"), service=lambda: None)
        assert standby.status == 503
        assert standby.body == b"this mooring is not scheduling: the leader is a_1\n"


@virtually
async def test_a_running_scheduler_explains_the_claims_of_a_pod() -> None:
    async with run_scheduler(small()) as life:
        for obj in (
            make_class("gpu", "device.driver == 'gpu.test'"),
            make_slice("gpus-a", [make_device("d0")], node="a"),
            make_claim("one", exactly()),
            make_claim("two", exactly()),
        ):
            await life.create(obj)
        for name, claim in (("web", "one"), ("late", "two")):
            entry = {"name": "gpu", "resourceClaimName": claim}
            await life.create(make_pod(name, requests={}, spec={"resourceClaims": [entry]}))
            await life.until_seen("bound" if name == "web" else "failed", name)
        await life.settle()

        _, _, text = asked(life, "late").partition("\nIts claims:\n")

        assert (
            text.partition("\n\nMessage:")[0]
            == """\
  default/two: not allocated

Missing devices, by group of nodes:
  1 node of 1 cpu, 32Gi memory (a):
    claim default/two, request r: 1 device of class gpu
      1 device of the class: 0 free, 1 taken
      taken by claim default/one (pod web): gpu.test/a/d0"""
        )
